"""Places of bytes: a store for each scheme of URLs, and rows of array files."""
