"""Keras's deprecated `ImageDataGenerator` as it was, over dfgen's workers: one changed import."""
