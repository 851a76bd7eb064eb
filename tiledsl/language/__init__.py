"""What can a user write in a kernel? Signatures and docstrings, one module a subject."""
