"""Which row stands where in an epoch, and who gets it: pure functions."""
