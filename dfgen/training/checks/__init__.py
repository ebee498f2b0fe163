"""Checks of `fit`, `evaluate` and `predict` before their first step."""
