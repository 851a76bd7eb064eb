"""Names for warps, bytes of shared memory and addresses, as messages give them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tiledsl.runtime.ptx_machine.names import RoleName
from tiledsl.runtime.ptx_machine.opcodes import (
    GLOBAL_BASE,
    LOCAL_WINDOW,
    OFFSET_MASK,
    PARAM_WINDOW,
    RANK_SHIFT,
    SHARED_BASE,
    SHARED_WINDOW,
    WINDOW_MASK,
)

if TYPE_CHECKING:
    from tiledsl.runtime.ptx_machine.machine import _Runner

__all__ = [
    "address",
    "dynamic_base",
    "instruction",
    "label",
    "role_of",
    "shared",
    "warps_text",
    "who",
]


_LIST = re.compile(r"\{([^{},]+),(?:[^{},]+,){5,}([^{},]+)\}")


def instruction(text: str) -> str:
    """An instruction, with long lists of registers cut short."""
    return _LIST.sub(r"{\1, ...,\2}", text)


def dynamic_base(runner: _Runner) -> int:
    """Where dynamic shared memory begins in a block's shared memory."""
    return runner.program.shared_size


def role_of(runner: _Runner, inside: int) -> tuple[RoleName, int] | None:
    """The role of a warp of a block, and which part of it."""
    for role in runner.launch.names.roles:
        at = inside - role.first_warp
        if 0 <= at < role.warps:
            return role, at * role.parts // role.warps
    return None


def label(role: RoleName, part: int) -> str:
    """``role 'mma' part 1 of 2``."""
    return f"role {role.name!r}" + (f" part {part} of {role.parts}" if role.parts > 1 else "")


def warps_text(numbers: Sequence[int]) -> str:
    """``warp 3``, ``warps 4-7`` or ``warps 1, 5``."""
    if len(numbers) == 1:
        return f"warp {numbers[0]}"
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return f"warps {numbers[0]}-{numbers[-1]}"
    return f"warps {', '.join(map(str, numbers))}"


def who(runner: _Runner, warp: int) -> str:
    """A warp, its block and its role."""
    block, inside = divmod(warp, runner.warps)
    found = role_of(runner, inside)
    role = f" ({label(*found)})" if found else ""
    return f"block {runner.ids[block]}, warp {inside}{role}"


def shared(runner: _Runner, address: int) -> str:
    """A byte of shared memory, by its address in the shared window."""
    address &= WINDOW_MASK
    rank, offset = address >> RANK_SHIFT, (address & OFFSET_MASK) - SHARED_BASE
    where = f" of block {rank} of the cluster" if runner.cluster_size > 1 else ""
    name = _object(runner, offset)
    if offset < 0:
        return f"{-offset} bytes in front of shared memory{where}"
    if offset >= runner.shared_size:
        end = f", {offset - runner.shared_size} bytes behind its end" if not where else ""
        return f"byte {offset} of shared memory{where}{end} ({runner.shared_size} bytes)"
    return f"byte {offset} of shared memory{where}" + (f" ({name})" if name else "")


def _object(runner: _Runner, offset: int) -> str | None:
    """What lies at a byte of shared memory: a named object, or symbol + offset."""
    base = dynamic_base(runner)
    for item in runner.launch.names.shared:
        at = offset - base - item.offset
        if 0 <= at < item.nbytes:
            return item.describe(at)
    found = None
    for name, start in runner.program.shared.items():
        size = runner.program.variables[name].size or runner.shared_size - start
        if start <= offset < start + size:
            found = f"{name}+{offset - start}"
    return found


def address(runner: _Runner, place: int) -> str:
    """An address of a fault, which has the bits of its window."""
    if place >= GLOBAL_BASE:
        return _global(runner, place)
    inside = place & WINDOW_MASK
    if place >= LOCAL_WINDOW:
        return f"byte {inside} of a thread's local memory ({int(runner.state['local_size'])} bytes)"
    if place >= SHARED_WINDOW:
        return shared(runner, place)
    if place >= PARAM_WINDOW:
        return f"byte {inside} of the parameters ({len(runner.launch.parameters)} bytes)"
    return f"global address 0x{place & 0xFFFFFFFFFFFFFFFF:x}"


def _global(runner: _Runner, place: int) -> str:
    text = runner.launch.memory.describe(place)
    region = runner.launch.memory.near(place)
    for array in runner.launch.names.arrays:
        if region is not None and region.address <= array.address <= region.address + region.nbytes:
            shape = "x".join(map(str, array.shape))
            return f"{array.index(place)} ({text}; {array.name} is {shape})"
    return text
