"""Runs PTX without branches on many lanes: decoder and instructions, without the scheduler."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Any

import numpy as np

from tiledsl.runtime.ptx_machine import opcodes as col
from tiledsl.runtime.ptx_machine.core.state import MACHINE_DTYPE, WARP_DTYPE
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import Program, decode

Array = np.ndarray[Any, Any]

_CLASS = {"p": "pred", "h": "b16", "r": "b32", "d": "b64"}
_STEPS = {
    col.INTEGER: ("integer", "step_integer"), col.FLOATING: ("floating", "step_floating"),
    col.CONVERT: ("convert", "step_convert"), col.WARP: ("warp", "step_warp"),
    col.TENSOR: ("tensor", "step_tensor"), col.MEMORY: ("memory", "step_memory"),
}  # fmt: skip


@cache
def _step(family: int) -> Any:
    module, name = _STEPS[family]
    return getattr(import_module(f"tiledsl.runtime.ptx_machine.core.{module}"), name)


def registers(inputs: str, outputs: str) -> str:
    """Declarations of %a %b ... and %x %y ..., by their classes: p h r d."""
    names = [f"%{'abcdefgh'[k]}" for k in range(len(inputs))]
    names += [f"%{'xyzuvw'[k]}" for k in range(len(outputs))]
    return " ".join(
        f".reg .{_CLASS[c]} {name};" for name, c in zip(names, inputs + outputs, strict=True)
    )


@cache
def program(body: str, inputs: str, outputs: str) -> Program:
    """The rows of some statements on %a... (classes ``inputs``) that leave %x... ."""
    text = (
        ".version 8.6\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
        ".reg .pred %p<10>; .reg .b16 %h<10>; .reg .b32 %r<32>, %lane; .reg .b64 %d<20>;\n"
        f"{registers(inputs, outputs)}\n{body}\n}}\n"
    )
    return decode(parse(text))


def run(
    body: str, inputs: str, outputs: str, values: Sequence[Array], masks: Array | None = None
) -> list[Array]:
    """The registers %x... of all lanes, uint64, for the values of %a... in them.

    Lanes that ``masks`` (a mask of each warp) leaves out keep the value 7.
    """
    made = program(body, inputs, outputs)
    count = len(values[0]) if values else 32
    warps = -(-count // 32)
    M, W = np.zeros(1, MACHINE_DTYPE), np.zeros(warps, WARP_DTYPE)
    regs = np.full((warps, made.registers, 32), 7, np.uint64)
    scratch = np.zeros(256, np.int64)
    buffer = np.zeros(8192, np.float64)
    number = {name: k for k, name in enumerate(made.names)}
    for register, bits in made.constants.items():
        regs[:, register] = np.uint64(bits)
    if "%lane" in number:
        regs[:, number["%lane"]] = np.arange(32, dtype=np.uint64)
    for k, given in enumerate(values):
        padded = np.zeros(warps * 32, np.uint64)
        padded[:count] = given
        if f"%{'abcdefgh'[k]}" in number:
            regs[:, number[f"%{'abcdefgh'[k]}"]] = padded.reshape(warps, 32)
    rows = np.ascontiguousarray(made.rows)
    for name, value in {
        "nregs": made.registers, "nwarps": warps, "nblocks": 1, "cluster_size": 1,
        "regs": regs.ctypes.data, "code": rows.ctypes.data, "ncode": len(rows),
        "vectors": made.vectors.ctypes.data, "scratch": scratch.ctypes.data,
        "mma_buffer": buffer.ctypes.data,
    }.items():  # fmt: skip
        M[0][name] = value
    given_masks = np.full(warps, 0xFFFFFFFF, np.int64) if masks is None else masks
    for warp in range(warps):
        for k, row in enumerate(rows):
            mask = int(given_masks[warp])
            if row[col.GUARD] >= 0:
                held = (regs[warp, row[col.GUARD]] & np.uint64(1)) != np.uint64(row[col.NEGATED])
                mask &= sum(1 << lane for lane in range(32) if held[lane])
            step = _step(int(row[col.FAMILY]))
            status = step(M[0], W, warp, rows.ctypes.data + k * 8 * col.COLUMNS, mask)
            assert status == col.NEXT, (status, M[0]["error"], made.texts[k])
    return [regs[:, number[f"%{'xyzuvw'[k]}"]].reshape(-1)[:count] for k in range(len(outputs))]
