"""Members of zip and tar archives, by their paths."""
