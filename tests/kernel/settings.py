"""A module whose constants a kernel reads: see ``test_captured.py``."""

SIZE = 5
