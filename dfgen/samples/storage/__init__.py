"""Where bytes are: a store for each scheme of URLs, and rows of array files."""
