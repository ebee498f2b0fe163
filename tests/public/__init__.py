"""What a user of dfgen must not lose, tested through the public API alone."""
