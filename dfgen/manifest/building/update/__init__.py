"""A manifest built anew beside the one before."""
