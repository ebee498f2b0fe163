"""From a source to a manifest: gather, join, facts, split."""
