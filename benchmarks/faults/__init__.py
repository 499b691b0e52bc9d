"""Faults that need more than a test can ask for: programs that trace system calls."""
