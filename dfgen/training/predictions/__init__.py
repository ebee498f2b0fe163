"""Predictions of a model, beside the rows of a frame."""
