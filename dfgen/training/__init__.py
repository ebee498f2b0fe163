"""Keras: the only package that imports it."""
