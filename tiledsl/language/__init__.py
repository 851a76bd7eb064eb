"""What can a user write? One file per subject: signatures and docstrings."""
