"""The text of tile-level IR: short, with the user's names, and with no jump that is not needed."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import tiledsl as td
from tests.frontend.evaluate import Constant, trace
from tests.frontend.programs import define
from tests.golden import Golden
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control
from tiledsl.frontend.build import ConstantSpec, ScalarSpec, TensorSpec, build_kernel

OUT = np.zeros(8, np.int32)
TENSOR = TensorSpec(td.bfloat16, 2)


def opcodes(kernel: Kernel) -> list[str]:
    return [op.opcode for op in kernel.body.walk()]


def test_loops_and_branches(golden: Golden) -> None:
    def kernel(out, n):
        total, scale = 0, 2
        for i in range(n):
            if i % 3 == 0:
                continue
            elif total > 100:
                break
            total += i * scale
        while total > 7:
            total -= 7
        best = total if total > n else n
        out[0], out[-1] = total, best

    golden(str(trace(kernel, out=OUT, n=1)))


def test_guard_clauses_of_a_function_need_no_jump(golden: Golden) -> None:
    def clamp(x, low, high):
        if x < low:
            return low
        if x > high:
            return high
        return x

    def kernel(out, n):
        out[0] = clamp(n, 0, 9)

    golden(str(trace(kernel, out=OUT, n=1)))


def test_return_in_a_loop_is_a_scope(golden: Golden) -> None:
    def find(out, n):
        for i in range(n):
            if out[i] == 5:
                return i
        return -1

    def kernel(out, n):
        out[0] = find(out, n)

    golden(str(trace(kernel, out=OUT, n=1)))


def test_pipeline(golden: Golden) -> None:
    """Each way out of a ``with`` releases the stage; each role has variables of its own."""

    def kernel(a, c, stages):
        M, K = a.shape
        payload = td.StandardTilePayload(
            a.dtype, a.dtype, (64, 64), (64, 64), num_pipeline_stages=stages
        )
        ring = td.InputTilePipeline(payload, num_group_stages=stages)
        steps = td.cdiv(K, 64)
        with td.role("load", warps=1), ring.producer() as producer:
            for k in range(steps):
                with producer.acquire() as stage:
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    td.tma_load(a, (0, k * 64), a_tile, stage.barrier())
                    td.tma_load(a, (0, k * 64), b_tile, stage.barrier())
        rows = td.cdiv(M, 64)
        with td.role("mma", warps=4):
            consumer = ring.consumer()
            acc = td.zeros((64, 64), td.float32)
            for k in range(steps):
                with consumer.acquire() as stage:
                    if k == rows:
                        continue
                    if k > 2 * rows:
                        break
                    a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                    acc = td.mma(a_tile, b_tile.T, acc)
            td.tma_store(acc.to(c.dtype), c, (0, 0))

    made = build_kernel(
        kernel, {"a": TENSOR, "c": TENSOR, "stages": ConstantSpec(3)}, name="kernel"
    )
    golden(str(made))


def test_return_leaves_every_with() -> None:
    def kernel(a, out, n):
        payload = td.StandardTilePayload(
            a.dtype, a.dtype, (64, 64), (64, 64), num_pipeline_stages=2
        )
        ring = td.InputTilePipeline(payload, num_group_stages=2)
        with td.role("one", warps=4):
            for i in range(n):
                with ring.consumer().acquire() as outer, ring.consumer().acquire():
                    if i > 3:
                        return
                    if i > 2:
                        outer.barrier()
                        break

    specs = {"a": TENSOR, "out": TensorSpec(td.int32, 1), "n": ScalarSpec(td.int32)}
    made = build_kernel(kernel, specs, name="kernel")
    ends: list[list[str]] = []
    for op in made.body.walk():
        if isinstance(op, control.If):
            ends.append([inner.opcode for inner in op.then.ops])
    release = "pipeline.release"
    assert ends == [
        [release, release, "return"],
        ["stage.barrier", release, release, "break"],
    ]


def test_value_computed_between_roles_stands_before_them() -> None:
    def kernel(out, n):
        with td.role("one", warps=1):
            out[0] = n
        m = n * 3
        with td.role("two", warps=1):
            out[1] = m

    made = trace(kernel, out=OUT, n=1)
    kinds = [type(op) for op in made.body.ops]
    assert kinds[-2:] == [control.Role, control.Role]
    assert "arith" in [op.opcode for op in made.body.ops[:-2]]


def test_unrolled_loops_and_compile_time_branches_leave_no_trace() -> None:
    def kernel(out, n, table):
        for i, scale in enumerate(table):
            if scale > 1:
                out[i] = n * scale

    made = trace(kernel, out=OUT, n=1, table=Constant((1, 2, 3)))
    assert "for" not in opcodes(made) and "if" not in opcodes(made)
    assert opcodes(made).count("tensor.store") == 2


def test_only_live_variables_are_carried() -> None:
    def kernel(out, n):
        temporary = 5
        kept = 0
        for i in range(n):
            temporary = i * 2
            kept += temporary
            unused = kept
        out[0] = kept

    loop = next(op for op in trace(kernel, out=OUT, n=1).body.ops if isinstance(op, control.For))
    assert [result.name for result in loop.results] == ["kept"]


def test_items_that_do_not_change_are_not_carried() -> None:
    def kernel(out, n):
        xs = [n, n + 1, n + 2]
        for i in range(n):
            xs[1] += i
        out[0], out[1], out[2] = xs

    loop = next(op for op in trace(kernel, out=OUT, n=1).body.ops if isinstance(op, control.For))
    assert len(loop.results) == 1


@pytest.mark.parametrize("depth", [1, 3])
def test_a_loop_whose_types_hold_is_traced_once(depth: int) -> None:
    """Only a type that changes makes for another trace, so nests of loops do not multiply."""
    traces: collections.deque[int] = collections.deque()
    lines = ["def kernel(out, n):", "    acc = td.float32(0)", "    k = 0"]
    for level in range(depth):
        lines.append("    " * (level + 1) + f"for i{level} in range(n):")
    inner = "    " * (depth + 1)
    lines += [inner + "acc += 1.5", inner + "k += 1", inner + "note(1)", "    out[0] = k"]
    # A C function is run by Python, once for each trace.
    kernel = define("\n".join(lines) + "\n", td=td, note=traces.append)
    trace(kernel, out=OUT, n=1)
    assert len(traces) == 1
