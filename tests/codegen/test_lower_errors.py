"""What the lowering refuses: with the user's line, before anything reaches LLVM."""

from __future__ import annotations

import pytest

from tests.codegen.ir_samples import GemmShape, Sketch, gemm, lowered
from tests.codegen.tma_samples import copy_kernel
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.core import Level
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, control, protocol, tile
from tiledsl.codegen.ir.plan import Plan, RolePlan
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx
from tiledsl.codegen.nvptx.registry import LOWERINGS, lower
from tiledsl.codegen.nvptx.targets import TARGETS, get_target
from tiledsl.errors import (
    InternalError,
    InvalidValue,
    SyntaxNotSupported,
    TargetNotSupported,
    TypeMismatch,
)


def empty(name: str = "empty") -> Kernel:
    s = Sketch(name)
    return lowered(s.kernel(warps=1))


def test_unknown_target() -> None:
    with pytest.raises(TargetNotSupported) as caught:
        get_target("sm_70")
    assert str(caught.value).startswith("no target 'sm_70': expected one of sm_90a")
    kernel = empty()
    kernel.target = "sm_100a"
    with pytest.raises(TargetNotSupported):
        emit_llvm(kernel)
    with pytest.raises(TargetNotSupported):
        emit_ptx("", "sm_90")


def test_target_table() -> None:
    target = get_target("sm_90a")
    assert (target.shared_bytes, target.registers, target.threads) == (232448, 65536, 1024)
    assert {"tma", "wgmma", "mbarrier", "setmaxnreg", "cluster"} <= target.features
    assert all(name == target.name for name, target in TARGETS.items())


def test_operation_that_the_target_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    import dataclasses

    poorer = dataclasses.replace(TARGETS["sm_90a"], features=frozenset({"mbarrier"}))
    kernel = lowered(gemm())
    monkeypatch.setitem(TARGETS, "sm_90a", poorer)
    with pytest.raises(TargetNotSupported) as caught:
        emit_llvm(kernel)
    assert "tma.load needs 'tma', which sm_90a lacks" in str(caught.value)
    assert caught.value.loc is not None and caught.value.loc.line > 1


@pytest.mark.parametrize("name", ["my_cutlass_gemm", "CUTLASS", "two words", "1st", "", "é"])
def test_kernel_names(name: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        emit_llvm(empty(name))
    assert f"a kernel cannot be called {name!r}" in str(caught.value)
    assert caught.value.hint == "rename the function"


def test_tile_level_is_refused() -> None:
    with pytest.raises(InternalError) as caught:
        emit_llvm(gemm())
    assert "kernel 'gemm' is at tile level: expected protocol level" in str(caught.value)


def test_every_operation_of_the_protocol_level_has_a_lowering() -> None:
    from tiledsl.codegen.ir.core import OPS
    from tiledsl.codegen.nvptx import entry  # registers all of them

    assert entry.FAMILIES
    missing = [
        op.opcode
        for op in OPS.values()
        if Level.PROTOCOL in op.levels and op not in LOWERINGS and op is not control.Role
    ]
    assert not missing


def test_two_lowerings_of_one_operation() -> None:
    with pytest.raises(ValueError, match="const has two lowerings"):
        lower(arith.Constant)(lambda low, op: None)


@pytest.mark.parametrize(
    ("shape", "error", "message"),
    [
        (
            GemmShape(bk=24, swizzle=16),
            InvalidValue,
            "mma of bfloat16 tiles takes 16 elements of k at a time: expected a multiple of 16,"
            " got k = 24 in a of shape (128, 24)",
        ),
        (
            GemmShape(dtype=dtypes.float8_e4m3fn, b_mn=True, bn=128),
            InvalidValue,
            "mma of float8_e4m3fn tiles needs k contiguous in memory: b of shape (64, 128) is"
            " stored as (64, 128)",
        ),
        (
            GemmShape(bn=24, b_mn=True),
            InvalidValue,
            "mma cannot read b of shape (64, 24): its rows in memory have 48 bytes, expected a"
            " multiple of 32",
        ),
        (
            GemmShape(dtype=dtypes.float32, bn=128, stages=2),
            TypeMismatch,
            "mma cannot multiply tiles of float32: expected one of bfloat16, float16,"
            " float8_e4m3fn, float8_e5m2",
        ),
    ],
    ids=["k", "fp8 mn-major", "rows", "dtype"],
)
def test_operands_that_wgmma_cannot_read(
    shape: GemmShape, error: type[Exception], message: str
) -> None:
    with pytest.raises(error) as caught:
        emit_llvm(lowered(gemm(shape)))
    assert message in str(caught.value)
    assert caught.value.loc is not None and caught.value.hint  # type: ignore[attr-defined]


def test_rank_of_a_bulk_copy() -> None:
    with pytest.raises(InvalidValue) as caught:
        emit_llvm(lowered(copy_kernel((8, 64), 6, dtypes.bfloat16, 128)))
    assert "takes tensors of rank 1 to 5: got rank 6" in str(caught.value)


@pytest.mark.parametrize(
    ("shape", "swizzle", "start"),
    [((3, 32), 32, 96), ((300, 8), 32, 4800)],
    ids=str,
)
def test_copies_that_would_not_be_aligned(shape: tuple[int, ...], swizzle: int, start: int) -> None:
    """Panels and boxes of one tile follow each other without gaps."""
    with pytest.raises(InvalidValue) as caught:
        emit_llvm(lowered(copy_kernel(shape, 2, dtypes.int32, swizzle)))
    assert f"would start {start} bytes into shared memory: expected a multiple of 128" in str(
        caught.value
    )


def test_nothing_runs_behind_the_roles() -> None:
    s = Sketch("late")
    out = s.tensor("out", dtypes.int32, 1)
    with s.role("first", 1):
        s.add(tile.TensorStore(s.const(1), out, (s.const(0),)))
    s.add(tile.TensorStore(s.const(2), out, (s.const(0),)))
    with pytest.raises(SyntaxNotSupported) as caught:
        emit_llvm(lowered(s.kernel()))
    assert "nothing can run behind them" in str(caught.value)


def test_too_many_values_to_print() -> None:
    s = Sketch("talk")
    s.add(tile.Print("%d " * 33, tuple(s.const(i) for i in range(33))))
    with pytest.raises(InvalidValue, match="at most 32 values: got 33"):
        emit_llvm(lowered(s.kernel(warps=1)))


def test_a_barrier_that_the_plan_lacks() -> None:
    s = Sketch("sync")
    s.add(protocol.PartSync())
    plan = Plan([RolePlan("main", 4, 0, "warpgroup")], threads=128)
    with pytest.raises(InternalError, match=r"part\.sync needs a named barrier"):
        emit_llvm(s.kernel(level=Level.PROTOCOL, plan=plan))


def test_llvm_text_that_is_wrong() -> None:
    with pytest.raises(InternalError, match="LLVM refuses the module"):
        emit_ptx("define void @f() { ret i32 0 }", "sm_90a")


def test_a_call_of_what_nobody_defines() -> None:
    text = "declare i32 @llvm.nvvm.no.such.thing()\n" + (
        "define ptx_kernel void @f() {\n  %x = call i32 @llvm.nvvm.no.such.thing()\n"
        "  store volatile i32 %x, ptr null\n  ret void\n}"
    )
    with pytest.raises(InternalError, match=r"nobody defines: llvm_\$_nvvm|nobody defines: llvm"):
        emit_ptx('target triple = "nvptx64-nvidia-cuda"\n' + text, "sm_90a")
