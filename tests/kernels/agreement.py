"""The emulator and the PTX machine side by side: the same arguments, and what each leaves in them.

Where every operation of a kernel is exact or rounded once (integers, copies, conversions,
arithmetic of floats), both must leave the same bits; only NaN is any NaN. Products of tiles and
functions such as ``exp`` are the oracle's business.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tiledsl.codegen.ir.kernel import Kernel as KernelIR
from tiledsl.codegen.ir.ops import arith, lockstep, protocol
from tiledsl.runtime import ptx_backend
from tiledsl.runtime.emulator import emulate

Array = np.ndarray[Any, Any]
# Operations on floats that are rounded once at most; the others are approximations.
ROUNDED_ONCE = {"neg", "abs", "invert", "not", "sqrt"}
LAUNCHED: set[tuple[str, str]] = set()  # file and name of each kernel that ran on the machine


def demand(patch: pytest.MonkeyPatch) -> None:
    """Let each launch on the PTX machine fail that differs from the emulator."""
    run_kernel = ptx_backend.run_kernel

    def run_both(
        kernel: KernelIR,
        ptx: str,
        names: Sequence[str],
        values: Sequence[Any],
        grid: tuple[int, int, int],
        **options: Any,
    ) -> Any:
        LAUNCHED.add((kernel.loc.file if kernel.loc else "", kernel.name))
        if not is_exact(kernel, ptx) or overlap(values):
            return run_kernel(kernel, ptx, names, values, grid, **options)
        # As the caller has them, so that alignment and strides are the same.
        copies = [like(x) if isinstance(x, np.ndarray) else x for x in values]
        result = run_kernel(kernel, ptx, names, values, grid, **options)
        emulate(kernel, copies, grid=grid, stdout=io.StringIO())
        for name, found, expected in zip(names, values, copies, strict=True):
            if isinstance(found, np.ndarray):
                same(found, expected, f"kernel {kernel.name}, argument {name}: machine, emulator")
        return result

    patch.setattr(ptx_backend, "run_kernel", run_both)


def is_exact(kernel: KernelIR, ptx: str) -> bool:
    """Is the result the same in whatever order and by whatever machine it is computed?"""
    if "fma.rn" in ptx:  # x * y + z, rounded once instead of twice
        return False
    for op in kernel.body.walk():
        if isinstance(op, protocol.Wgmma | lockstep.GridPace):
            return False
        if isinstance(op, arith.Unary) and op.kind not in ROUNDED_ONCE:
            return False
        if getattr(op, "reduce", None) == "add":  # blocks in any order
            return False
    return True


def overlap(values: Sequence[Any]) -> bool:
    """Do two arrays share memory? Copies of them would not."""
    arrays = [x for x in values if isinstance(x, np.ndarray) and x.size]
    return any(
        np.may_share_memory(x, y) for number, x in enumerate(arrays) for y in arrays[:number]
    )


def like(x: Array) -> Array:
    """A copy."""
    copy = np.empty_like(x)
    copy[...] = x
    return copy


def same(found: Array, expected: Array, what: str) -> None:
    """Fail unless two arrays have the same bits, or NaN in the same places."""
    unsigned = f"u{expected.dtype.itemsize}"
    bits, wanted = (np.array(x, order="C").view(unsigned) for x in (found, expected))
    with np.errstate(invalid="ignore"):
        wrong = (bits != wanted) & ~((found != found) & (expected != expected))
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise AssertionError(
            f"{what} differ in {np.count_nonzero(wrong)} of {wrong.size} elements, the first at"
            f" {at}: {found[at]!r}, {expected[at]!r}"
        )
