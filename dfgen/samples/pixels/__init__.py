"""Bytes of image files to pixels, and where pixels go."""
