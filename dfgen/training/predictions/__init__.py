"""What a model says of each row of a frame, beside the row."""
