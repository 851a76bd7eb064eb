"""The tests: one folder per part of the house, one file per subject.

A package, so that tests can share helpers: ``from tests.filecheck import filecheck``.
"""

import os

# Before NumPy is imported: with several test processes its BLAS threads would only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
