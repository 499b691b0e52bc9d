"""Pieces to one provider's request bytes: one file a version."""
