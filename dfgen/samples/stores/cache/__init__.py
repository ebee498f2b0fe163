"""Decoded pixels that are kept, in a folder or in memory."""
