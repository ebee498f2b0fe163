"""Rows of packs: Arrow files mapped into memory."""
