"""How often the stages of each ring are filled in the emulator: by its barriers, not by shapes."""

from __future__ import annotations

import importlib
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

# The package exports a function of the same name.
_EMULATE = importlib.import_module("tiledsl.runtime.emulator.emulate")

Key = tuple[str, tuple[int, ...], str, int]


@contextmanager
def recorded() -> Iterator[dict[Key, set[int]]]:
    """Counts of the launches inside, complete when the block ends.

    For each ring, and each row of the user's mbarriers, (kernel, cluster, name, number of stages):
    of every launch, the completed phases of all its stages together in the block with most. That
    is how often a producer went on, in all loops of that block.
    """
    fills: dict[Key, set[int]] = defaultdict(set)
    launch: dict[Key, int] = {}
    check, emulate = _EMULATE.check_all_taken, _EMULATE._Runner.__init__

    def block_ends(kernel: Any, block: Any, creators: Any) -> None:
        rows = {name: ring.barriers["full"] for name, ring in block.rings.items()}
        # A name with a dot is the compiler's: the order of replicas.
        rows |= {name: row for name, row in block.mbarriers.items() if "." not in name}
        for name, row in rows.items():
            key = (kernel.name, tuple(kernel.cluster_dims), name, len(row))
            launch[key] = max(launch.get(key, 0), sum(one.phase for one in row))
        check(kernel, block, creators)

    def keep() -> None:
        for key, count in launch.items():
            fills[key].add(count)
        launch.clear()

    def launch_begins(self: Any, *arguments: Any) -> None:
        keep()
        emulate(self, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_EMULATE, "check_all_taken", block_ends)
        patch.setattr(_EMULATE._Runner, "__init__", launch_begins)
        yield fills
    keep()
