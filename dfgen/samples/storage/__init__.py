"""Where bytes are: one store a module."""
