"""How a case of the family is written, and what cases have in common.

A case is a function ``case(run)`` that launches kernels on ``run.place`` and yields what is wrong:
a text for each problem, empty where there is none. ``tests/numeric`` runs all of them on the
emulator, ``tests/gpu`` on a GPU.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import tiledsl as td
from tests.kernels.oracle import Reference, difference, numpy_dtype, reference
from tests.kernels.places import Emulator, Gpu, Place, poisoned

Array = np.ndarray[Any, Any]
Shape = tuple[int, int, int]

ONE_TILE = 40  # what fits into a single tile of every kernel here


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a case: where, with which random numbers, and whether to try larger shapes."""

    place: Place
    rng: np.random.Generator
    large: bool = False

    def normal(self, shape: tuple[int, ...], dtype: str = "bfloat16") -> Array:
        """Standard normal numbers on the host."""
        return self.rng.standard_normal(shape, np.float32).astype(numpy_dtype(dtype))

    def output(self, shape: tuple[int, ...], dtype: str = "float32") -> Any:
        """A poisoned array where the kernel runs."""
        return self.place.put(poisoned(shape, numpy_dtype(dtype)))

    def padded(self, x: Array, columns: int) -> Any:
        """``x`` where the kernel runs, as a view whose rows are ``columns`` elements apart.

        What lies between the rows is poison. For odd numbers that is what no TMA takes.
        """
        whole = poisoned((*x.shape[:-1], columns), x.dtype)
        whole[..., : x.shape[-1]] = x
        return self.place.put(whole)[..., : x.shape[-1]]

    def trips(self, *stages: int) -> list[int]:
        """Trip counts around the stages of each ring; some long ones for large runs."""
        counts = sorted({n for s in stages for n in (0, 1, s - 1, s, s + 1, 2 * s + 1)})
        return counts + ([int(n) for n in self.rng.integers(8, 40, 2)] if self.large else [])

    def tiled(self, trips: int, size: int, unit: int = 1) -> int:
        """A ragged extent of so many tiles of ``size``, a multiple of ``unit``."""
        return trips * size - (unit * int(self.rng.integers(0, size // unit)) if trips else 0)

    def extent(self, unit: int = 1) -> int:
        """A random extent, a multiple of ``unit``: less than a tile to several of them."""
        return unit * int(self.rng.integers(1, (1200 if self.large else 200) // unit))

    def shapes(self, stages: int | tuple[int, ...], depth: int, unit: int = 8) -> Iterator[Shape]:
        """(M, N, K) ragged in each extent, two for each trip count of a loop over ``depth``.

        The first has several tiles, so that a block may run the loop more than once and the ring
        goes on where it was; the second has one, so that the ring's stages are filled exactly as
        often as there are trips. N and K are multiples of ``unit``; M is free.
        """
        for trips in self.trips(*(stages if isinstance(stages, tuple) else (stages,))):
            yield self.extent(), self.extent(unit), self.tiled(trips, depth, unit)
            m, n = self.rng.integers(1, (ONE_TILE + 1, ONE_TILE // unit + 1))
            yield int(m), unit * int(n), self.tiled(trips, depth, unit)

    def product(
        self,
        kernel: Callable[..., Any],
        shape: Shape,
        *,
        dtypes: tuple[str, str] = ("bfloat16", "float32"),
        **constants: Any,
    ) -> str:
        """``kernel(a, b, c)`` must make c = a @ b.T."""
        m, n, k = shape
        a, b = self.normal((m, k), dtypes[0]), self.normal((n, k), dtypes[0])
        c = self.output((m, n), dtypes[1])
        kernel(self.place.put(a), self.place.put(b), c, **constants)
        return self.check(c, reference(a, b, dtypes[1]), f"{m}x{n}x{k} {constants or ''}")

    def check(self, found: Any, expected: Reference, what: str) -> str:
        """What is wrong with an output, for people."""
        wrong = difference(self.place.get(found), expected)
        return f"{what}: {wrong}" if wrong else ""

    def same(self, found: Any, expected: Array, what: str) -> str:
        """Exactly the same numbers, and NaN where there is NaN."""
        got = self.place.get(found)
        if got.dtype != expected.dtype or got.shape != expected.shape:
            return f"{what}: {got.dtype}{got.shape}, not {expected.dtype}{expected.shape}"
        wrong = np.argwhere(~((got == expected) | ((got != got) & (expected != expected))))
        if not len(wrong):
            return ""
        at = tuple(int(i) for i in wrong[0])
        return f"{what}: {len(wrong)} elements differ, first {at}: {got[at]}, not {expected[at]}"


Case = Callable[[Run], Iterator[str]]
FAMILY: dict[str, dict[str, Case]] = {}


def case(function: Case) -> Case:
    """Register a case under its module's name, its subject."""
    subject = function.__module__.rpartition(".")[2]
    FAMILY.setdefault(subject, {})[function.__name__] = function
    return function


def problems(subject: str, name: str, run: Run) -> list[str]:
    """Run a case: everything that is wrong."""
    return [text for text in FAMILY[subject][name](run) if text]


def kernels(subject: str) -> list[td.Kernel]:
    """The kernels of a subject, also those that cases made on the way (``made``)."""
    module = sys.modules[f"tests.kernels.family.{subject}"]
    own = [value for _, value in inspect.getmembers(module) if isinstance(value, td.Kernel)]
    return own + list(getattr(module, "MADE", {}).values())


__all__ = ["FAMILY", "Array", "Case", "Emulator", "Gpu", "Run", "case", "kernels", "problems"]
