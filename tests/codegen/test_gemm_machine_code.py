"""The GEMM of the samples as PTX, as ptxas sees it, and as SASS: no GPU needed."""

from __future__ import annotations

import inspect
import re
import warnings
from functools import cache

import pytest

import tiledsl as td
from tests.filecheck import filecheck
from tests.passes.lowered import gemm
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.sass import SassReport
from tiledsl.compiled import CompiledKernel
from tiledsl.errors import ResourceLimit


@cache
def compiled(dtype: td.DType = td.bfloat16, out: td.DType = td.bfloat16) -> CompiledKernel:
    given = td.spec((512, 512), dtype)
    return gemm.lower(given, given, td.spec((512, 512), out))


def test_a_producer_stage_waits_announces_and_loads() -> None:
    """In this order, each with a .loc of the user's line."""
    text = compiled().ptx
    lines, first = inspect.getsourcelines(gemm.function)

    def line_of(code: str) -> int:
        return next(n for n, text in enumerate(lines, first) if code in text)

    acquire, load_a, load_b = (
        line_of(code) for code in ("with producer.acquire()", "td.tma_load(a", "td.tma_load(b")
    )
    filecheck(
        text,
        f"""
        CHECK: .entry gemm
        CHECK: .loc {{{{[0-9]+}}}} {acquire} {{{{[0-9]+}}}}
        CHECK: mbarrier.try_wait.parity
        CHECK-NOT: .loc
        CHECK: mbarrier.arrive.expect_tx
        CHECK-SAME: 49152
        CHECK: .loc {{{{[0-9]+}}}} {load_a} {{{{[0-9]+}}}}
        CHECK: cp.async.bulk.tensor.2d
        CHECK: .loc {{{{[0-9]+}}}} {load_b} {{{{[0-9]+}}}}
        CHECK: cp.async.bulk.tensor.2d
        """,
    )


def test_one_copy_of_each_site() -> None:
    """LLVM must not unroll or peel: hazard H7."""
    text = compiled().ptx
    assert text.count("wgmma.mma_async") == 4  # 64 / 16 steps of k
    assert text.count("mbarrier.try_wait") == 2
    assert text.count("cp.async.bulk.tensor.2d.shared::cluster") == 2
    assert ".extern .func" not in text
    assert ".local" not in text


@pytest.mark.parametrize("dtype", [td.bfloat16, td.float16])
@pytest.mark.parametrize("out", [td.bfloat16, td.float16, td.float32])
def test_ptxas_has_nothing_to_say(dtype: td.DType, out: td.DType) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compiled(dtype, out).resources
    assert found.assembler.startswith("ptxas")
    assert found.warnings == ()
    assert (found.spill_store_bytes, found.spill_load_bytes, found.stack_bytes) == (0, 0, 0)
    assert found.registers == 168 == compiled(dtype, out).plan.entry_registers


def test_nvjitlink_takes_it_too() -> None:
    variant = compiled()
    result = assemble(variant.ptx, "sm_90a", "gemm", assembler="nvjitlink")
    assert result.resources.spill_store_bytes == 0
    assert {m.code for m in result.resources.warnings} == {"C7504"}  # decision 0005


def test_the_hot_loop_is_tensor_work() -> None:
    loop = SassReport.of(compiled().cubin).hot_loop()
    assert loop.count("HGMMA") == 4
    for opcode in ("R2UR", "WARPSYNC", "LDL", "STL", "BSSY", "YIELD"):
        assert loop.count(opcode) == 0, str(loop)
    assert loop.count("MOV") + loop.count("IMAD.MOV") <= 4, str(loop)
    assert len(loop.instructions) <= 80, str(loop)


def test_names_of_other_kernels_do_not_steer_ptxas() -> None:
    assert not re.search("cutlass", compiled().ptx)


@pytest.mark.parametrize(
    ("constants", "registers"),
    [
        ({"BM": 256, "BN": 208, "stages": 2}, [24, 240]),
        ({"BM": 384, "BN": 128, "stages": 2, "warps": 12}, [24, 160]),
        ({"BM": 256, "BN": 192, "stages": 2}, [24, 240]),
        ({"BM": 256, "BN": 160, "stages": 2}, [40, 232]),
    ],
)
def test_large_accumulators_get_what_the_loader_gives_up(
    constants: dict[str, int], registers: list[int]
) -> None:
    given = td.spec((512, 512), td.bfloat16)
    variant = gemm.lower(given, given, given, **constants)
    assert [role.registers for role in variant.plan.roles] == registers
    assert variant.resources.warnings == ()
    assert variant.resources.spill_store_bytes == 0


def test_accumulators_that_would_spill_are_refused() -> None:
    given = td.spec((512, 512), td.bfloat16)
    with pytest.raises(ResourceLimit, match="need 216 registers a thread"):
        gemm.lower(given, given, given, BM=256, BN=216, stages=2)
