"""What watches and saves a fit."""
