"""Files that are not on a mounted file system: objects, and what fsspec knows."""
