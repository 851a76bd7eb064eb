"""The pipeline family: short kernels, one for each thing that the language offers, with cases.

One module a subject. ``FAMILY[subject][name]`` is a case; see ``registry.py``.
"""

from tests.kernels.family import (
    bare,
    barriers,
    clusters,
    convolutions,
    copies,
    epilogues,
    payloads,
    producers,
    rings,
    stores,
    styles,
    turns,
)
from tests.kernels.family.registry import FAMILY, Run, kernels, problems

SUBJECTS = (
    payloads, styles, bare, barriers, rings, turns, producers, clusters, epilogues, stores, copies,
    convolutions,
)  # fmt: skip

__all__ = ["FAMILY", "SUBJECTS", "Run", "kernels", "problems"]
