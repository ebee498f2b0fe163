"""Packs: a manifest and its files written as a few large files, to be read in big pieces."""
