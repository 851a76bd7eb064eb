"""Global memory of the machine: the caller's arrays and the module's variables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine.opcodes import GLOBAL_BASE
from tiledsl.runtime.ptx_machine.syntax import Symbol, Variable

__all__ = ["GlobalMemory", "Region"]

Array = np.ndarray[Any, Any]
_GAP = 1 << 16  # bytes that nothing lies in, between two regions


@dataclass(slots=True)
class Region:
    """Some host memory at an address of the machine.

    Attributes:
        name: of the array or variable, for messages.
        address: in the machine.
        host: address on the host.
        nbytes: its size.
        readonly: whether the program may only read it.
        owner: keeps the memory alive.
    """

    name: str
    address: int
    host: int
    nbytes: int
    readonly: bool
    owner: Any


class GlobalMemory:
    """Regions in the order of their addresses."""

    def __init__(self) -> None:
        self.regions: list[Region] = []
        self._next = GLOBAL_BASE

    def add(
        self, name: str, host: int, nbytes: int, *, readonly: bool = False, owner: Any = None
    ) -> int:
        """Map host memory; the address in the machine. What overlaps a region is part of it."""
        for region in self.regions:
            if region.host <= host and host + nbytes <= region.host + region.nbytes:
                region.readonly &= readonly
                return region.address + host - region.host
        # The low bits stay: alignment on the host is alignment in the machine.
        address = self._next + (host & 0xFFF)
        self._next = -(-(address + max(nbytes, 1) + _GAP) // _GAP) * _GAP
        self.regions.append(Region(name, address, host, nbytes, readonly, owner))
        return address

    def add_spans(self, spans: Iterable[tuple[str, int, int, bool, Any]]) -> None:
        """Map several (name, host, nbytes, readonly, owner); those that overlap become one."""
        merged: list[list[Any]] = []
        for name, host, nbytes, readonly, owner in sorted(spans, key=lambda span: span[1]):
            if merged and host < merged[-1][1] + merged[-1][2]:
                last = merged[-1]
                last[0] = f"{last[0]}, {name}"
                last[2] = max(last[2], host + nbytes - last[1])
                last[3] &= readonly
                last[4] = (last[4], owner)
            else:
                merged.append([name, host, nbytes, readonly, owner])
        for name, host, nbytes, readonly, owner in merged:
            self.add(name, host, nbytes, readonly=readonly, owner=owner)

    def address_of(self, host: int) -> int:
        """The machine's address of mapped host memory."""
        for last in (0, 1):  # of an array without elements, also the end of another
            for region in self.regions:
                if region.host <= host < region.host + region.nbytes + last:
                    return region.address + host - region.host
        raise KeyError(host)

    def add_variables(self, variables: Mapping[str, Variable]) -> dict[str, int]:
        """Make the module's global and constant variables; their addresses."""
        found: dict[str, int] = {}
        memory: dict[str, Array] = {}
        for name, variable in variables.items():
            if variable.space not in ("global", "const"):
                continue
            data = np.zeros(max(variable.size, 1) + 256, np.uint8)
            start = -data.ctypes.data % 256
            if variable.initial is not None:
                initial = np.frombuffer(variable.initial, np.uint8)
                data[start : start + len(initial)] = initial
            memory[name] = data[start : start + variable.size]
            found[name] = self.add(
                name,
                data.ctypes.data + start,
                variable.size,
                readonly=variable.space == "const",
                owner=data,
            )
        for name, data in memory.items():
            for offset, symbol in variables[name].pointers:
                self._point(data, offset, symbol, found)
        return found

    def _point(self, data: Array, offset: int, symbol: Symbol, found: Mapping[str, int]) -> None:
        address = found.get(symbol.name, 0) + symbol.offset
        data[offset : offset + 8] = np.frombuffer(address.to_bytes(8, "little"), np.uint8)

    def table(self) -> Array:
        """What ``M.arrays`` points to."""
        rows = [(r.address, r.nbytes, r.host, int(r.readonly)) for r in self.regions]
        return np.array(rows or [(0, 0, 0, 1)], np.int64)

    def near(self, address: int) -> Region | None:
        """The region that an address lies in, or not far from."""
        near = [region for region in self.regions if region.address <= address + _GAP // 2]
        return near[-1] if near else None

    def describe(self, address: int) -> str:
        """An address, for messages."""
        region = self.near(address)
        if region is None:
            return f"0x{address:x}"
        at = address - region.address
        if 0 <= at < region.nbytes:
            return f"byte {at} of {region.name}"
        where = f"{-at} bytes before" if at < 0 else f"{at - region.nbytes} bytes behind the end of"
        return f"0x{address:x}, {where} {region.name} ({region.nbytes} bytes)"

    def read(self, address: int, nbytes: int) -> bytes:
        """Bytes at an address, as far as they are mapped."""
        for region in self.regions:
            at = address - region.address
            if 0 <= at < region.nbytes:
                import ctypes

                return ctypes.string_at(region.host + at, min(nbytes, region.nbytes - at))
        return b""
