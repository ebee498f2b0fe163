"""Writes packs: a plan, shards on many workers, the columns of the manifest, and the index last."""
