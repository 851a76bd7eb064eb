"""Runs any PTX on the PTX machine: hand-edited, or of other compilers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tiledsl.errors import InvalidValue, LaunchError
from tiledsl.runtime.grid import check_clusters
from tiledsl.runtime.ptx_machine.machine import Launch, Result, run
from tiledsl.runtime.ptx_machine.opcodes import POLICIES
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import Program, decode
from tiledsl.runtime.ptx_machine.syntax import Parameter
from tiledsl.runtime.ptx_maps import Maps
from tiledsl.runtime.ptx_values import pack

__all__ = ["entries", "run_ptx"]

Extents = int | Sequence[int]
MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = ((1 << 31) - 1, 65535, 65535)


def entries(text: str) -> dict[str, tuple[Parameter, ...]]:
    """The entries of a PTX module, and the parameters of each.

    Raises:
        DecodeError: this is no PTX.
    """
    return {
        function.name: function.parameters
        for function in parse(text).functions.values()
        if function.entry
    }


def run_ptx(
    text: str,
    args: Sequence[Any] = (),
    *,
    entry: str | None = None,
    grid: Extents = 1,
    block: Extents | None = None,
    cluster: Extents | None = None,
    dynamic_shared: int = 0,
    policy: str = "late",
    seed: int = 0,
    checks: bool = True,
    together: bool = False,
    profile: bool = False,
    budget: int = 2_000_000_000,
    registers: int = 0,
) -> Result:
    """Run an entry of a PTX module on NumPy arrays, which it writes in place.

    Args:
        text: the PTX.
        args: one for each parameter of the entry: NumPy arrays for pointers (None: a null
            pointer), numbers, ``TensorMap`` for a ``CUtensorMap``, ``struct(...)`` or bytes for
            structs.
        entry: its name; None: the only one.
        grid, block, cluster: extents along x, y, z: a number, or one to three. Block and cluster
            may be left out where the PTX says them (``.reqntid``, ``.reqnctapercluster``).
        dynamic_shared: bytes of dynamic shared memory.
        policy: when asynchronous work happens and which warp runs: "eager", "late", "random" or
            "pct".
        seed: of schedules, and of what registers and shared memory hold at first.
        checks: races, accesses in flight and fences are errors, not only wrong results.
        together: run all blocks of the grid at once, for blocks that wait on each other.
        profile: count bank conflicts, waits and time in flight: ``result.profile``.
        budget: warp instructions after which a launch is given up.
        registers: of a thread at launch, for ``setmaxnreg``; 0: not known.

    Raises:
        DecodeError: PTX that is wrong, or that the machine does not know.
        TypeMismatch, InvalidValue, LaunchError: an argument, or a launch that no GPU takes.
        MachineFault: what the program does wrong, with its PTX line and, where ``.loc`` says
            it, the line of its source.
    """
    program = decode(parse(text), entry)
    blocks = _extents("grid", grid, MAX_GRID)
    threads = _block(program, block)
    clusters = _cluster(program, cluster)
    check_clusters(program.name, blocks, clusters)
    _check_options(policy, seed, dynamic_shared, budget)
    maps = Maps()
    parameters = pack(program.parameters, args, maps)
    launch = Launch(
        grid=blocks,
        block=threads,
        cluster=clusters,
        parameters=parameters,
        memory=maps.memory,
        maps=maps.table(),
        dynamic_shared=dynamic_shared,
        policy=policy,
        seed=seed,
        checks=checks,
        budget=budget,
        together=together,
        registers=registers,
        profile=profile,
    )
    return run(program, launch)


def _extents(what: str, given: Extents, limits: tuple[int, int, int]) -> tuple[int, int, int]:
    extents = tuple(given) if isinstance(given, Sequence) else (given,)
    if not 1 <= len(extents) <= 3 or not all(hasattr(extent, "__index__") for extent in extents):
        raise InvalidValue(f"{what}: expected one to three integers, got {given!r}")
    x, y, z = (*(int(extent) for extent in extents), 1, 1)[:3]
    for axis, extent, limit in zip("xyz", (x, y, z), limits, strict=True):
        if not 1 <= extent <= limit:
            raise InvalidValue(f"{what}: expected 1 to {limit} along {axis}, got {extent}")
    return x, y, z


def _full(numbers: tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _block(program: Program, given: Extents | None) -> tuple[int, int, int]:
    """The block of a launch: as given, or as the entry requires."""
    required = program.directives.get("reqntid")
    if given is None:
        if not required:
            raise InvalidValue(
                f"entry {program.name}: expected a block, for the PTX has no .reqntid that says it",
                hint="block=(128,) or, on the command line, --block 128",
            )
        return _full(required)
    found = _extents("block", given, MAX_BLOCK)
    threads = found[0] * found[1] * found[2]
    if threads > MAX_THREADS:
        raise LaunchError(f"block {found}: expected at most {MAX_THREADS} threads, got {threads}")
    if required and found != _full(required):
        raise LaunchError(
            f"entry {program.name}: expected a block of {_full(required)} threads (.reqntid), got"
            f" {found}"
        )
    most = program.directives.get("maxntid")
    if most:
        limit = _full(most)[0] * _full(most)[1] * _full(most)[2]
        if threads > limit:
            raise LaunchError(
                f"entry {program.name}: expected at most {limit} threads (.maxntid), got {threads}"
            )
    return found


def _cluster(program: Program, given: Extents | None) -> tuple[int, int, int]:
    required = program.directives.get("reqnctapercluster")
    if given is None:
        return _full(required or (1,))
    found = _extents("cluster", given, (16, 16, 16))
    size = found[0] * found[1] * found[2]
    if size > 16:
        raise LaunchError(f"cluster {found}: expected at most 16 blocks, got {size}")
    if required and found != _full(required):
        raise LaunchError(
            f"entry {program.name}: expected a cluster of {_full(required)} blocks"
            f" (.reqnctapercluster), got {found}"
        )
    return found


def _check_options(policy: str, seed: int, dynamic_shared: int, budget: int) -> None:
    if policy not in POLICIES:
        raise InvalidValue(f"policy: expected one of {', '.join(POLICIES)}, got {policy!r}")
    if dynamic_shared < 0:
        raise InvalidValue(f"dynamic_shared: expected a number of bytes, got {dynamic_shared}")
    if seed < 0:
        raise InvalidValue(f"seed: expected a number from 0, got {seed}")
    if budget < 1:
        raise InvalidValue(f"budget: expected a number of instructions from 1, got {budget}")
