"""Tests of exports to foreign forms."""
