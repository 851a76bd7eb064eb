"""Clocks, printf and assert: rows of the family "control" that are no branches."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest

from tiledsl.runtime.ptx_machine import opcodes as col
from tiledsl.runtime.ptx_machine.core.control import step_control
from tiledsl.runtime.ptx_machine.core.state import MACHINE_DTYPE, WARP_DTYPE
from tiledsl.runtime.ptx_machine.isa.control_ops import ASSERT, CLOCK, PRINT
from tiledsl.runtime.ptx_machine.printing import format_text, new_records, texts
from tiledsl.runtime.ptx_machine.special import CLOCKS

REGISTERS = 8
LOCAL_BYTES = 64


class Bench:
    """A warp with some registers, local memory, and one array of global memory."""

    def __init__(self, row: dict[str, int], vectors: list[int] | None = None) -> None:
        self.M = np.zeros(1, MACHINE_DTYPE)
        self.W = np.zeros(2, WARP_DTYPE)
        self.registers = np.random.default_rng(7).integers(
            0, 1 << 63, (2, REGISTERS, 32), dtype=np.uint64
        )
        self.rows = np.zeros((3, col.COLUMNS), np.int64)
        for name, value in row.items():
            self.rows[2, getattr(col, name)] = value
        self.vectors = np.array(vectors or [0], np.int64)
        self.local = np.zeros((2, 32, LOCAL_BYTES), np.uint8)
        self.text = np.frombuffer(b"a %d %s\0", np.uint8).copy()
        self.arrays = np.array([[col.GLOBAL_BASE, 8, self.text.ctypes.data, 1]], np.int64)
        self.records = new_records(40)
        for name, value in {
            "nregs": REGISTERS,
            "regs": self.registers.ctypes.data,
            "code": self.rows.ctypes.data,
            "vectors": self.vectors.ctypes.data,
            "local": self.local.ctypes.data,
            "local_size": LOCAL_BYTES,
            "arrays": self.arrays.ctypes.data,
            "narrays": 1,
            "prints": self.records.ctypes.data,
            "prints_limit": 40,
        }.items():
            self.M[0][name] = value

    def step(self, mask: int, warp: int = 1) -> int:
        place = self.rows.ctypes.data + 2 * 8 * col.COLUMNS
        status: int = step_control(self.M[0], self.W, warp, place, mask)
        return status


@pytest.mark.parametrize("name", CLOCKS)
def test_clocks(name: str) -> None:
    bench = Bench({"OP": CLOCK, "D0": 3, "X0": CLOCKS.index(name)})
    bench.M[0]["instructions"] = time = 5_000_000_017
    before = bench.registers.copy()
    assert bench.step(0b1010) == col.NEXT
    expected = time
    if name in ("%clock", "%globaltimer_lo"):
        expected = time % (1 << 32)
    elif name in ("%clock_hi", "%globaltimer_hi"):
        expected = time >> 32
    before[1, 3, [1, 3]] = expected
    np.testing.assert_array_equal(bench.registers, before)


def test_printing() -> None:
    bench = Bench({"OP": PRINT, "D0": 0, "A": 1, "B": 2})
    bench.registers[1, 1] = col.GLOBAL_BASE
    bench.registers[1, 2] = col.LOCAL_WINDOW + 16
    strings = {12345: b"one", 777: b"two"}
    lanes = {0: (-5, 12345), 31: (70_000, 777)}
    for lane, (number, address) in lanes.items():
        data = struct.pack("<iiQ", number, 0, address)
        bench.local[1, lane, 16:32] = np.frombuffer(data, np.uint8)
    assert bench.step(1 | 1 << 31) == col.NEXT
    assert bench.M[0]["printed"] == 2

    def string(address: int) -> bytes:
        return strings.get(address, bytes(bench.text[:-1]))

    assert texts(bench.records, 2, string) == ["a -5 one", "a 70000 two"]
    assert list(bench.registers[1, 0, [0, 31]]) == [0, 0]


def test_printing_beyond_the_limit_is_counted() -> None:
    bench = Bench({"OP": PRINT, "D0": 0, "A": 1, "B": 2})
    bench.registers[1, 1] = col.GLOBAL_BASE
    bench.registers[1, 2] = 0  # no arguments
    for _ in range(2):
        assert bench.step((1 << 32) - 1) == col.NEXT
    assert bench.M[0]["printed"] == 64
    assert len(texts(bench.records, 64, lambda address: b"x")) == 40


@pytest.mark.parametrize(
    ("text", "given", "code"),
    [
        (col.GLOBAL_BASE + 8, 0, col.F_BOUNDS),
        (col.GLOBAL_BASE, col.LOCAL_WINDOW + LOCAL_BYTES, col.F_UNSUPPORTED),
        (col.GLOBAL_BASE, col.SHARED_WINDOW, col.F_UNSUPPORTED),
    ],
)
def test_printing_from_nowhere(text: int, given: int, code: int) -> None:
    bench = Bench({"OP": PRINT, "D0": 0, "A": 1, "B": 2})
    bench.registers[1, 1], bench.registers[1, 2] = text, given
    assert bench.step(1 << 9) == col.FAULTED
    assert list(bench.M[0]["error"][:4]) == [code, 1, 2, 9]


def test_a_failed_assertion() -> None:
    bench = Bench({"OP": ASSERT, "VEC": 1}, [9, 4, 5, 6, 7, 3])
    bench.registers[1, 4:8, 6] = [1000, 2000, 33, 3000]
    assert bench.step(0b11000000) == col.FAULTED
    assert list(bench.M[0]["error"]) == [col.F_TRAP, 1, 2, 6, 1000, 33, 2000, 3000]


LIBC: Any = ctypes.CDLL(None)


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("plain 100%% text", []),
        ("%d|%5d|%-5d|%05d|%+d|% d", [1, -22, 3, -4, 5, 6]),
        ("%u %x %X %#x %o %#o", [4_000_000_000, 255, 255, 255, 8, 8]),
        ("%lld %ld %llu %lx", ["q-5", "q9000000000", "Q18446744073709551615", "Q255"]),
        ("%d %lld %d %f", [1, "q2", 3, 4.5]),
        ("%f %.3f %8.2f|%-9.1f|%e %G", [1.5, 2.0 / 3, -3.25, 4.0, 12345.678, 1e-9]),
        ("%.0f %.10d %5.3d", [2.5, 77, 5]),
        ("%c%c", [65, 66]),
        ("%*d|%-*d|%.*f", [6, 42, 4, 7, 2, 3.14159]),
        ("%hhd %hd %hhu %hu", [300, 70000, 300, 70000]),
        ("%f %f %f", [float("inf"), float("-inf"), 0.0]),
        ("%x %d", [3, -2147483648]),
    ],
)
def test_formats_as_c(template: str, values: list[Any]) -> None:
    data = b""
    arguments: list[Any] = []
    for value in values:
        if isinstance(value, float):
            code, size = "d", 8
            arguments.append(ctypes.c_double(value))
        elif isinstance(value, str):
            code, size, value = value[0], 8, int(value[1:])
            arguments.append((ctypes.c_longlong if code == "q" else ctypes.c_ulonglong)(value))
        else:
            code = "i" if value < 1 << 31 else "I"
            size = 4
            arguments.append(ctypes.c_int(value) if code == "i" else ctypes.c_uint(value))
        data += b"\xee" * (-len(data) % size) + struct.pack("<" + code, value)
    buffer = ctypes.create_string_buffer(500)
    LIBC.snprintf(buffer, 500, template.encode(), *arguments)
    assert (
        format_text(template.encode(), data + b"\xee" * 30, lambda _: b"") == buffer.value.decode()
    )


def test_strings_and_pointers() -> None:
    data = struct.pack("<QQQ", 5, 0, 0xABC)
    made = format_text(b"%6s|%s|%p|%.2s", data + struct.pack("<Q", 5), lambda _: b"text")
    assert made == "  text|(null)|0xabc|te"
