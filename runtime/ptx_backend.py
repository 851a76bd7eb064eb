"""Runs a compiled kernel's PTX on the PTX machine: the same parameters as a launch on a GPU."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.runtime.arguments import is_array, read_array
from tiledsl.runtime.arrays import ArrayArg
from tiledsl.runtime.parameters import pack_parameters
from tiledsl.runtime.ptx_machine.errors import DecodeError
from tiledsl.runtime.ptx_machine.machine import Launch, Result, run
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import Program, decode
from tiledsl.runtime.ptx_maps import Maps
from tiledsl.runtime.ptx_names import names_of

__all__ = ["PER_KERNEL", "Launch", "run_kernel"]

# Fields of ``Launch`` that follow from the kernel and its arguments; the others are options.
PER_KERNEL = {
    "grid", "block", "cluster", "parameters", "memory", "maps", "dynamic_shared", "registers",
    "names",
}  # fmt: skip


def run_kernel(
    kernel: Kernel,
    ptx: str,
    names: Sequence[str],
    values: Sequence[Any],
    grid: tuple[int, int, int],
    *,
    program: Program | None = None,
    **options: Any,
) -> Result:
    """Run a kernel's PTX on NumPy arrays, which it writes in place.

    Args:
        kernel: at protocol level, with its plan, which says what the parameters are.
        ptx: what was emitted for it.
        names, values: of the run-time arguments.
        grid: blocks along x, y, z.
        program: the decoded PTX, where it is known from an earlier run.
        options: of ``machine.Launch``: policy, seed, checks, together, profile...
    """
    assert kernel.plan is not None
    program = program or _decoded(ptx, kernel.name)
    maps = Maps()
    arrays = {
        index: read_array(name, value)
        for index, (name, value) in enumerate(zip(names, values, strict=True))
        if is_array(value)
    }
    maps.memory.add_spans(_span(names[index], array) for index, array in arrays.items())
    placed = {index: maps.place(array) for index, array in arrays.items()}
    packed = pack_parameters(kernel.plan.params, names, placed, values, maps.encode)
    _check_parameters(program, packed)
    data = bytearray(max((p.offset + p.size for p in program.parameters), default=0))
    for parameter, content in zip(program.parameters, packed, strict=True):
        data[parameter.offset : parameter.offset + len(content)] = content
    cluster = (*kernel.cluster_dims, 1, 1)[:3]
    launch = Launch(
        grid=grid,
        block=(kernel.plan.threads, 1, 1),
        cluster=(cluster[0], cluster[1], cluster[2]),
        parameters=bytes(data),
        memory=maps.memory,
        maps=maps.table(),
        dynamic_shared=kernel.plan.shared_bytes,
        registers=kernel.plan.entry_registers or 0,
        names=names_of(kernel, [(names[index], array) for index, array in placed.items()]),
        **options,
    )
    return run(program, launch)


def _check_parameters(program: Program, packed: Sequence[bytes]) -> None:
    """An edited PTX must take what the kernel passes."""
    sizes = [parameter.size for parameter in program.parameters]
    if sizes != [len(content) for content in packed]:
        raise DecodeError(
            f"the PTX of kernel {program.name!r} takes other parameters than the kernel: expected"
            f" sizes of {[len(content) for content in packed]} bytes, got {sizes}",
            hint="tiledsl.ptx.run takes a list of arguments for any PTX",
        )


@functools.lru_cache(maxsize=64)
def _decoded(ptx: str, name: str) -> Program:
    """Decoding takes longer than many a launch, and a kernel is mostly launched again."""
    return decode(parse(ptx), name)


def _span(name: str, array: ArrayArg) -> tuple[str, int, int, bool, Any]:
    """Name, first byte, bytes, whether it is read-only, and owner of an array."""
    size = array.dtype.itemsize
    if array.is_empty:
        return name, array.pointer, 0, array.readonly, array.owner
    reach = [(n - 1) * s * size for n, s in zip(array.shape, array.strides, strict=True)]
    low = sum(r for r in reach if r < 0)
    high = sum(r for r in reach if r > 0) + size
    return name, array.pointer + low, high - low, array.readonly, array.owner
