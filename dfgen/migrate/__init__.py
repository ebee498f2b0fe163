"""Keras's deprecated `ImageDataGenerator` as it was, over dfgen's workers: one changed import."""

from dfgen.migrate.image_data_generator import ImageDataGenerator as ImageDataGenerator

__all__ = ["ImageDataGenerator"]
