"""Runs a probe on the PTX machine, and compares with what a GPU gave."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from tests.ptx_machine.conformance.probe import Map, Probe, Tolerance, module_text
from tests.ptx_machine.conformance.values import FORMATS, as_numbers
from tiledsl.runtime.ptx_machine.isa import bulk_ops as ops
from tiledsl.runtime.ptx_machine.machine import Launch, run
from tiledsl.runtime.ptx_machine.memory import GlobalMemory
from tiledsl.runtime.ptx_machine.opcodes import BITS, TYPE_CODES
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import decode

__all__ = ["differences", "replay"]

Array = np.ndarray[Any, Any]


def replay(probe: Probe, *, policy: str = "late", seed: int = 0, checks: bool = True) -> Array:
    """What the machine makes of a probe, in the form of what was recorded.

    Raises:
        TileError: the machine refuses the program.
    """
    program = decode(parse(module_text([probe])), "k0")
    columns = probe.columns()
    inputs = np.stack(columns) if columns else np.zeros((0, probe.count), np.uint64)
    results = np.full((len(probe.results), probe.count), 0xA5A5A5A5A5A5A5A5, np.uint64)
    inputs, results, image = _aligned(inputs), _aligned(results), _aligned(probe.image_data())
    memory = GlobalMemory()
    # The driver gives memory in pieces of 256 bytes at least: what lies behind the image is there.
    places = [
        memory.add(name, data.ctypes.data, -(-data.nbytes // 256) * 256, owner=data)
        if data.nbytes
        else 0
        for name, data in (("input", inputs), ("output", results), ("image", image))
    ]
    parameters = struct.pack("<3Q", *places).ljust(64, b"\0") + struct.pack("<qq", ops.MAGIC, 0)
    maps = np.zeros((0, ops.MAP_COLUMNS), np.int64)
    if probe.tensor is not None:
        maps = tensor_map(probe.tensor, places[2])[None]
    launch = Launch(
        grid=(probe.blocks, 1, 1),
        block=(probe.threads, 1, 1),
        cluster=(probe.cluster, 1, 1),
        parameters=parameters.ljust(64 + 128, b"\0"),
        memory=memory,
        maps=maps,
        dynamic_shared=probe.shared,
        policy=policy,
        seed=seed,
        checks=checks,
        together=False,
    )
    run(program, launch)
    return probe.packed(results, image)


def _aligned(data: Array) -> Array:
    """A copy that begins at a multiple of 256 bytes, as device memory does, with as much behind."""
    raw = np.zeros(data.nbytes + 512, np.uint8)
    start = -raw.ctypes.data % 256
    copy = raw[start : start + data.nbytes].view(data.dtype).reshape(data.shape)
    copy[...] = data
    return copy


def tensor_map(tensor: Map, image: int) -> Array:
    """The columns of a tensor map, as the driver would read its arguments."""
    made = np.zeros(ops.MAP_COLUMNS, np.int64)
    rank = len(tensor.extents)
    code = TYPE_CODES[tensor.dtype]
    steps = (1, *tensor.steps[1:]) if tensor.steps else (1,) * rank
    made[ops.MAP_ADDRESS] = image + tensor.start
    made[ops.MAP_RANK], made[ops.MAP_BYTES] = rank, BITS[code] // 8
    made[ops.MAP_SWIZZLE], made[ops.MAP_IM2COL] = tensor.swizzle, tensor.im2col
    made[ops.MAP_TYPE] = code
    made[ops.MAP_EXTENT : ops.MAP_EXTENT + rank] = tensor.extents
    made[ops.MAP_STRIDE : ops.MAP_STRIDE + rank] = (BITS[code] // 8, *tensor.strides)
    box = (
        tensor.box
        if tensor.im2col
        else [-(-b // s) for b, s in zip(tensor.box, steps, strict=True)]
    )
    made[ops.MAP_BOX : ops.MAP_BOX + len(box)] = box
    made[ops.MAP_STEP : ops.MAP_STEP + rank] = steps
    made[ops.MAP_LOWER : ops.MAP_LOWER + len(tensor.lower)] = tensor.lower
    made[ops.MAP_UPPER : ops.MAP_UPPER + len(tensor.upper)] = tensor.upper
    return made


def differences(probe: Probe, got: Array, wanted: Array, show: int = 4) -> list[str]:
    """Where the machine's answer is not the GPU's, in words; empty: nowhere."""
    columns = probe.columns()
    found = []
    (results, image), (expected, image_wanted) = probe.unpacked(got), probe.unpacked(wanted)
    for k, (ours, theirs) in enumerate(zip(results, expected, strict=True)):
        if k in probe.opaque:
            continue
        wrong = ours != theirs
        if probe.tolerance is not None:
            wrong &= ~_near(ours.astype(np.uint64), theirs.astype(np.uint64), probe.tolerance)
        places = np.nonzero(wrong)[0]
        if len(places):
            found.append(f"result {k}: {len(places)} of {len(wrong)} threads")
        for i in places[:show]:
            given = ", ".join(f"{int(c[i]):#x}" for c in columns)
            found.append(f"    thread {i} ({given}): {int(ours[i]):#x}, GPU {int(theirs[i]):#x}")
    places = np.nonzero(image != image_wanted)[0]
    if len(places):
        found.append(f"memory: {len(places)} of {len(image)} bytes")
        for i in places[:show]:
            found.append(f"    byte {i}: {image[i]:#x}, GPU {image_wanted[i]:#x}")
    return found


def _near(ours: Array, theirs: Array, tolerance: Tolerance) -> Array:
    """Within the error, part by part of packed numbers; NaN where the other is."""
    kind, bits = tolerance.kind, 0
    if kind.endswith("x2"):
        kind = kind[:-2]
    bits = sum(FORMATS[kind]) + 1
    good = np.ones(len(ours), bool)
    for part in range(2 if tolerance.kind.endswith("x2") else 1):
        shift, mask = np.uint64(part * bits), np.uint64((1 << bits) - 1)
        a, b = (as_numbers(x >> shift & mask, kind) for x in (ours, theirs))
        with np.errstate(all="ignore"):
            close = np.abs(a - b) <= tolerance.relative * np.abs(b) + tolerance.absolute
        good &= close | (a == b) | (np.isnan(a) & np.isnan(b))
        if tolerance.overflows:
            good |= ~np.isfinite(a) & ~np.isfinite(b)
    return good
