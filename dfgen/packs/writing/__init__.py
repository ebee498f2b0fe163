"""Makes packs: plan, shards by many workers, the columns of the manifest, and the index last."""
