"""Packs: a manifest and its files as a few large Arrow files; what is here reads them."""
