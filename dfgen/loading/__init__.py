"""Rows to batches, in order and ahead of time."""
