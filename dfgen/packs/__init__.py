"""Packs: their files, and rows read from them."""
