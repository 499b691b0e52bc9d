"""What a model sees: one file a version."""
