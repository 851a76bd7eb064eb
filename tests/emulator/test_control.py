"""Control flow against Python itself, and what a kernel without roles or with a preamble does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.codegen import ctl_samples
from tests.codegen.ir_samples import Sketch, lowered
from tests.emulator.samples import copy, normal, ops_of
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import OPS, Block, Level, Value
from tiledsl.codegen.ir.ops import arith, control, protocol, tile
from tiledsl.errors import InternalError, InvalidValue
from tiledsl.runtime.emulator import emulate
from tiledsl.runtime.emulator.compile import emulated_ops

SAMPLES = ctl_samples.samples()
END = -77777  # what the samples write behind their last element


@pytest.mark.parametrize("name", SAMPLES)
def test_control_flow(name: str) -> None:
    sample = SAMPLES[name]
    kernel = sample.kernel if sample.kernel.plan is not None else lowered(sample.kernel)
    steps = [op.step.owner for op in ops_of(kernel, control.For)]
    zero_step = any(isinstance(step, arith.Constant) and step.value == 0 for step in steps)
    for arguments in sample.arguments:
        expected = sample.python(*arguments)
        out = np.zeros(len(expected) + 10, np.int64)
        if zero_step or (name.startswith("range") and name.endswith("r") and arguments[2] == 0):
            # Python refuses a step of 0, and so does the emulator; the GPU runs no iteration.
            with pytest.raises(InvalidValue, match=r"the step of range\(\) is 0"):
                emulate(kernel, [*arguments, out], grid=(1, 1, 1))
            continue
        emulate(kernel, [*arguments, out], grid=(1, 1, 1))
        written = out[: len(expected)].tolist()
        assert written == expected, arguments
        assert out[len(expected)] in (0, END), "a return skips the mark"
        assert not out[len(expected) + 1 :].any()


def test_every_legal_operation_is_emulated() -> None:
    legal = {op for op in OPS.values() if Level.PROTOCOL in op.levels}
    assert legal - emulated_ops() == {control.Role}, "a role is compiled by its kernel"
    assert all(Level.PROTOCOL in op.levels for op in emulated_ops())


def test_loop_values_move_at_once() -> None:
    """(a, b) = (b, a + b): the new values come from the old ones."""
    s = Sketch("fibonacci")
    n, out = s.scalar("n", dtypes.int32), s.tensor("out", dtypes.int32, 1)
    zero, one = s.const(0), s.const(1)
    a, b = s.loop(0, n, 1, lambda i, a, b: (b, s.op("add", a, b)), [zero, one])
    s.add(tile.TensorStore(a, out, (zero,)))
    s.add(tile.TensorStore(b, out, (one,)))
    kernel = lowered(s.kernel(warps=1))
    for count in (0, 1, 2, 30, 60):
        got = np.zeros(2, np.int32)
        emulate(kernel, [count, got], grid=(1, 1, 1))
        x, y = 0, 1
        for _ in range(count):
            x, y = y, x + y
        assert got.tolist() == [(v + 2**31) % 2**32 - 2**31 for v in (x, y)]


def _early_return() -> Any:
    """A preamble that ends the kernel in odd blocks; else a role marks the block."""
    s = Sketch("early")
    out = s.tensor("out", dtypes.int32, 1)
    block = s.value(tile.BlockId(0), "block")
    s.add(tile.TensorStore(s.const(1), out, (block,)))
    odd = s.compare("eq", s.op("mod", block, 2), 1)
    s.branch(odd, lambda: s.add(control.Return()))
    with s.role("mark", 1):
        s.add(tile.TensorStore(s.op("add", block, 100), out, (block,)))
    return lowered(s.kernel())


def test_return_before_the_roles_ends_the_block() -> None:
    out = np.zeros(6, np.int32)
    emulate(_early_return(), [out], grid=(6, 1, 1))
    assert out.tolist() == [100, 1, 102, 1, 104, 1]


def test_grid_indices() -> None:
    s = Sketch("grid")
    out = s.tensor("out", dtypes.int32, 4)
    at = [s.value(tile.BlockId(axis)) for axis in range(3)]
    for axis in range(3):
        value = s.op("add", s.op("mul", s.value(tile.BlockCount(axis)), 100), at[axis])
        s.add(tile.TensorStore(value, out, (*at, s.const(axis))))
    kernel = lowered(s.kernel(warps=1))
    for seed in (None, 3):
        got = np.zeros((2, 3, 4, 3), np.int32)
        result = emulate(kernel, [got], grid=(2, 3, 4), seed=seed)
        assert result.blocks == 24
        expected = np.stack(np.meshgrid(*map(np.arange, (2, 3, 4)), indexing="ij"), -1)
        assert (got == expected + np.array([200, 300, 400])).all()


def test_an_empty_grid_runs_nothing() -> None:
    out = np.zeros(1, np.int32)
    assert emulate(_early_return(), [out], grid=(0, 1, 1)).blocks == 0
    assert not out.any()


def _parts_kernel(sync: bool) -> Any:
    """Each part of a role of two warpgroups says hello; perhaps all wait for each other."""
    s = Sketch("parts")
    out, big = s.tensor("out", dtypes.int32, 1), s.tensor("big", dtypes.float32, 2)
    with s.role("both", 8):
        zero = s.const(0)
        s.add(tile.TmaStore(s.value(arith.Full(s.const(2.5, dtypes.float32), (128, 8))), big,
                            (zero, zero)))  # fmt: skip
        s.add(tile.TensorStore(s.const(7), out, (zero,)))
    kernel = lowered(s.kernel())
    (role,) = ops_of(kernel, control.Role)
    if sync:
        role.body.ops[0:0] = [protocol.RoleSync() for _ in range(3)]
    return kernel


@pytest.mark.parametrize("sync", [False, True])
def test_elected_operations_run_once(seed: int, sync: bool) -> None:
    for one in (None, seed):
        out, big = np.zeros(1, np.int32), np.zeros((128, 8), np.float32)
        result = emulate(_parts_kernel(sync), [out, big], grid=(1, 1, 1), seed=one)
        assert out.tolist() == [7] and (big == 2.5).all()
        assert result.tma_stores == 2, "one for each part"


def test_tensor_indices_are_checked() -> None:
    s = Sketch("indices")
    x, i, j = s.tensor("x", dtypes.float32, 2), *(s.scalar(n, dtypes.int32) for n in "ij")
    s.add(tile.TensorStore(s.value(tile.TensorLoad(x, (i, i))), x, (j, j)))
    line = s.line
    kernel = lowered(s.kernel(warps=1))
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    emulate(kernel, [array, 2, 0], grid=(1, 1, 1))
    assert array[0, 0] == array[2, 2] == 10
    cases = [((0, 3), 0, 3, 3, line), ((-1, 0), 0, -1, 3, line - 1)]
    for (load, store), axis, index, extent, where in cases:
        with pytest.raises(InvalidValue) as caught:
            emulate(kernel, [array, load, store], grid=(1, 1, 1))
        assert caught.value.message == (
            f"index {index} is out of range for dimension {axis} of tensor 'x', which has extent"
            f" {extent}: expected 0 to {extent - 1}"
        )
        assert caught.value.loc is not None and caught.value.loc.line == where


def test_a_step_of_zero_is_refused() -> None:
    s = Sketch("step")
    out, by = s.tensor("out", dtypes.int32, 1), s.scalar("by", dtypes.int32)

    def body(i: Value) -> tuple[()]:
        s.add(tile.TensorStore(i, out, (s.const(0),)))
        return ()

    s.loop(0, s.value(tile.TensorDim(out, 0)), by, body)
    kernel = lowered(s.kernel(warps=1))
    with pytest.raises(InvalidValue) as caught:
        emulate(kernel, [np.zeros(3, np.int32), 0], grid=(1, 1, 1))
    assert caught.value.message == (
        "the step of range() is 0: expected a positive or negative number"
    )


def test_a_tile_level_kernel_is_refused() -> None:
    s = Sketch("early")
    kernel = s.kernel(warps=1)
    with pytest.raises(InternalError) as caught:
        emulate(kernel, [], grid=(1, 1, 1))
    assert caught.value.message == (
        "the emulator runs protocol-level kernels with a plan: early is at tile level"
    )


def test_unknown_operations_are_refused(rng: np.random.Generator) -> None:
    kernel = copy()
    kernel.body.ops.insert(0, tile.ExpectBytes(kernel.params[0].value, 4))
    x = normal(rng, (8, 64), dtypes.float32)
    with pytest.raises(InternalError, match=r"the emulator has no pipeline\.expect_bytes"):
        emulate(kernel, [x, x, 1, 1], grid=(1, 1, 1))


def test_a_scope_inside_of_blocking_code(rng: np.random.Generator, seed: int) -> None:
    """Leave a scope from two loops deep while barriers are waited for inside of it."""
    kernel = copy(stages=2)
    (role,) = [op for op in ops_of(kernel, control.Role) if op.name == "store"]
    (loop,) = [op for op in role.body.ops if isinstance(op, control.For)]
    role.body.ops.remove(loop)
    end = Block([])
    leave = control.Leave((loop.start,))
    end.ops = [leave]
    scope_body = Block()
    scope_body.ops = [loop, control.If(_always(scope_body), (), end, _empty())]
    scope_body.ops.append(control.Leave((loop.stop,)))
    scope = control.Scope((loop.start.type,), scope_body)
    role.body.ops.insert(len(role.body.ops) - 1, scope)
    x = normal(rng, (80, 64), dtypes.float32)
    for one in (None, seed):
        y = np.zeros_like(x)
        emulate(kernel, [x, y, 6, 6], grid=(1, 1, 1), seed=one)
        assert (y[:48] == x[:48]).all() and not y[48:].any()


def _always(block: Block) -> Value:
    true = arith.Constant(True, dtypes.bool_)
    block.ops.insert(0, true)
    return true.result


def _empty() -> Block:
    block = Block()
    block.ops = [control.Yield(())]
    return block
