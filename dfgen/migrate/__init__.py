"""What was there before, over dfgen's workers: `ImageDataGenerator` as it was, and the generator.

One import is changed, and nothing else.
"""

from dfgen.migrate.generator_from_df import generator_from_df as generator_from_df
from dfgen.migrate.image_data_generator import ImageDataGenerator as ImageDataGenerator

__all__ = ["ImageDataGenerator", "generator_from_df"]
