"""Sources of the value of a row: its file, a cache, a pack or an array file."""
