"""What `fit`, `evaluate` and `predict` compare before their first step."""
