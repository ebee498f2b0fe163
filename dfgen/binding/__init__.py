"""A frame, x and y become a SampleReader, weights and class names; no Keras."""
