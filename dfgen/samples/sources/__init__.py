"""Where the value of a row comes from: its file, a cache, a pack or an array file."""
