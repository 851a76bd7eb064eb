"""The tile IR of barriers, shared tiles, replicas and turns, and the names of what is made."""

from __future__ import annotations

import random
from typing import Any

import tiledsl as td
from tests.golden import Golden
from tests.language.traced import trace
from tiledsl.codegen.ir.core import Op, Value
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import control, memory, protocol, ring, sync, tile
from tiledsl.frontend.build import TensorSpec

BF16 = TensorSpec(td.bfloat16, 2)


def ops_of(kernel: Kernel, *kinds: type[Op]) -> list[Any]:
    return [op for op in kernel.body.walk() if isinstance(op, kinds)]


def origin(value: Value) -> Any:
    return value.owner


# -------------------------------------------------------------------------------- barriers


def test_barriers_and_shared_tiles(golden: Golden) -> None:
    def kernel(x, n):
        loaded = td.mbarrier()
        free = td.mbarrier(2, number=3)
        assert free.number == 3
        x_tile = td.shared((64, 64), x.dtype)
        rows = td.shared((64,), td.float32, number=2, swizzle=0)
        assert (rows.number, rows.shape, rows.dtype, rows.swizzle) == (2, (64,), td.float32, 0)
        met = td.named_barrier()
        with td.role("load", warps=1):
            free[n % 3].wait(n)
            loaded.arrive_and_expect_bytes(64 * 64 * 2)
            td.tma_load(x, (0, 0), x_tile, loaded)
            met.arrive()
        with td.role("use", warps=4):
            loaded.wait(0)
            td.tma_store(x_tile, x, (0, 0))
            flag = n > 2
            if not free[1].try_wait(flag):
                free[2].arrive(rank=n)
            free[0].arrive()
            met.sync()
            met.wait()

    golden(str(trace(kernel, x=BF16, n=td.int32, cluster=(2, 2))))


def test_a_parity_is_one_bit() -> None:
    """Python numbers, bools and run-time numbers of any width; never more than the lowest bit."""
    number = random.randint(-9, 9)

    def kernel(n, wide, flag):
        bar = td.mbarrier()
        bar.wait(number)
        bar.wait(True)
        bar.wait(n)
        bar.wait(wide)
        bar.wait(flag)

    made = trace(kernel, n=td.int32, wide=td.int64, flag=td.bool_)
    parities = [op.parity for op in ops_of(made, protocol.MbarrierWait)]
    kinds = [origin(p).opcode for p in parities]
    assert kinds == ["const", "const", "arith", "arith", "cast"]
    assert [origin(p).value for p in parities[:2]] == [number % 2, 1]


def test_names_are_those_of_the_kernels_variables() -> None:
    """Whoever makes them; unique over rings, barriers and tiles, for they share one memory."""

    @td.function
    def made(dtype):
        local = td.InputTilePipeline(td.TileArray(dtype, (64, 64), 1), 1)
        return local, td.mbarrier()

    def kernel(x):
        keys, _full = made(x.dtype)
        _values, _ = made(x.dtype)
        again = keys
        several = [td.ProducerConsumerPipeline(1) for _ in range(2)]
        q = td.shared((64, 64), x.dtype)
        nb = td.named_barrier()
        (q_2,) = (td.shared((64, 64), x.dtype, number=2),)
        q = td.shared((64, 64), x.dtype)
        assert again is keys and len(several) == 2

    found = trace(kernel, x=BF16)
    creates = (tile.PipelineCreate, sync.MbarrierCreate, sync.NamedCreate, memory.SharedCreate)
    names = [op.name for op in ops_of(found, *creates)]
    assert names == [
        "keys", "_full", "_values", "_", "pipeline", "pipeline_2", "q", "nb", "q_2", "q_3",
    ]  # fmt: skip


# ----------------------------------------------------------------------------------- roles


def test_replicas_and_turns(golden: Golden) -> None:
    """Each way out of a turn hands it on, behind the release of what was acquired in it."""

    @td.function
    def section(me, consumer, out, i):
        with me.turn("mma"), consumer.acquire() as stage:
            if i == 3:
                return 1
            td.tma_store(stage.tile(), out, (i, me.threads))
        return 0

    def kernel(x, out, n):
        ring = td.InputTilePipeline(td.TileArray(x.dtype, (64, 64), 2), 2)
        with td.role("use", warps=4, replicas=2) as me:
            assert (me.name, me.count, me.warps, me.threads) == ("use", 2, 4, 128)
            for i in range(me.index, n, me.count):
                if section(me, ring.consumer(), out, i):
                    continue
                with me.turn():
                    if i == 5:
                        break
                    if i == 6:
                        return
                    out[i, me.index] = 1.0

    golden(str(trace(kernel, x=BF16, out=BF16, n=td.int32)))


def test_a_role_without_replicas_takes_no_turns() -> None:
    def kernel(out):
        with td.role("one", warps=2) as me:
            assert (me.index, me.count, me.threads) == (0, 1, 64)
            with me.turn():
                out[me.index] = 1

    made = trace(kernel, out=TensorSpec(td.int32, 1))
    (role,) = ops_of(made, control.Role)
    assert role.replicas == 1
    assert not ops_of(made, sync.TurnBegin, sync.TurnEnd, sync.Replica)


def test_raw_style_is_wait_signal_step() -> None:
    def kernel():
        bare = td.ProducerConsumerPipeline(2)
        with td.role("one", warps=1):
            bare.producer_signal_and_step()
        with td.role("other", warps=1):
            bare.consumer_signal_and_step()

    raw = ops_of(trace(kernel), ring.Wait, ring.Signal, ring.Step)
    kinds = [ring.Wait, ring.Signal, ring.Step]
    assert [(type(op), op.side) for op in raw] == [
        *((kind, "producer") for kind in kinds),
        *((kind, "consumer") for kind in kinds),
    ]
