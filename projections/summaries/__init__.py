"""Summaries that need no model: one file a version."""
