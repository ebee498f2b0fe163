"""The commands that make, compare and change manifests; `cli` puts them together."""
