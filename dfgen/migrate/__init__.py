"""Keras's deprecated `ImageDataGenerator` as it was, over dfgen's workers: one changed import."""

from dfgen.migrate.generator_from_df import generator_from_df as generator_from_df
