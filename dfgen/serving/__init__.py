"""Preprocessing: the arrays of a model for new rows, deployed with it."""
