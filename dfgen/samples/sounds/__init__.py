"""Sound files: what they say of themselves, and their frames."""
