"""Features: how columns of the manifest become arrays. One a file, as `base.py` describes."""
