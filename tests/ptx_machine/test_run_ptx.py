"""``tiledsl.ptx``: any PTX with ordinary arguments, and what it says about wrong ones."""

from __future__ import annotations

import struct as binary
import subprocess
import sys
import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tiledsl as td
from tests.kernels.oracle import difference, fresh_seed, reference
from tests.ptx_machine.test_samples import sample
from tiledsl import ptx

HEAD = ".version 8.6\n.target sm_90a\n.address_size 64\n"
SCALE = (
    HEAD
    + """
.visible .entry scale(.param .u64 x, .param .u64 y, .param .f32 f, .param .u32 n)
{
  .reg .pred %p; .reg .b32 %r<5>; .reg .f32 %f<3>; .reg .b64 %d<6>;
  ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y]; ld.param.f32 %f1, [f]; ld.param.u32 %r1, [n];
  mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x;
  mad.lo.u32 %r2, %r3, %r4, %r2;
  setp.ge.u32 %p, %r2, %r1;
  @%p bra DONE;
  mul.wide.u32 %d3, %r2, 4;
  add.u64 %d4, %d1, %d3; add.u64 %d5, %d2, %d3;
  ld.global.f32 %f2, [%d4];
  mul.rn.f32 %f2, %f2, %f1;
  st.global.f32 [%d5], %f2;
DONE:
  ret;
}
"""
)


def echo(kind: str, size: int) -> str:
    """An entry that stores the bytes of a parameter of a type."""
    count = f"[{size}]" if kind == "b8" else ""
    align = ".align 8 " if kind == "b8" else ""
    unit = "b8" if size % 4 or kind == "b8" else "b32"
    step = 1 if unit == "b8" else 4
    body = "".join(
        f"ld.param.{unit} %r1, [v+{at}]; st.global.{unit} [%d1+{at}], %r1;\n"
        for at in range(0, size, step)
    )
    return (
        f"{HEAD}.entry echo(.param .u64 y, .param {align}.{kind} v{count})\n"
        f"{{ .reg .b32 %r<9>; .reg .b64 %d<9>;\nld.param.u64 %d1, [y];\n{body}ret; }}\n"
    )


def passed(kind: str, size: int, value: Any) -> bytes:
    """The bytes that an entry gets for a value."""
    out = np.full(size, 0xCC, np.uint8)
    ptx.run(echo(kind, size), [out, value], block=1)
    return out.tobytes()


def test_arrays_and_numbers() -> None:
    rng = np.random.default_rng(fresh_seed())
    n = int(rng.integers(1, 300))
    x, y = rng.standard_normal(n, np.float32), np.full(n, np.nan, np.float32)
    for policy in ("eager", "late", "random", "pct"):
        y[...] = np.nan
        result = ptx.run(SCALE, [x, y, -1.5, n], grid=3, block=(64, 2), policy=policy)
        # The entry counts threads along x alone: two threads do the same.
        done = min(n, 3 * 64)
        assert np.array_equal(y[:done], x[:done] * np.float32(-1.5))
        assert np.isnan(y[done:]).all()
        assert result.instructions > 0 and result.profile is None


def test_an_array_has_its_own_bytes_only() -> None:
    x, y = np.ones(64, np.float32), np.zeros(63, np.float32)
    with pytest.raises(
        ptx.MachineFault, match=r"access of 4 bytes.*got 0x[0-9a-f]+, 0 bytes behind the end of y"
    ):
        ptx.run(SCALE, [x, y, 1.0, 64], block=64)
    y.flags.writeable = False
    with pytest.raises(ptx.MachineFault, match="read only"):
        ptx.run(SCALE, [x, y, 1.0, 3], block=64)
    # Arrays side by side: each is where it is, not behind the end of the other.
    first, second = np.stack([np.ones(64), np.zeros(64)]).astype(np.float32)
    ptx.run(SCALE, [first, second, 5.0, 64], block=64)
    assert np.array_equal(second, 5 * first)
    assert np.array_equal(first, np.ones(64))
    # A view: its bytes, and those of the gaps between them.
    whole = np.zeros(200, np.float32)
    ptx.run(SCALE, [x, whole[100:], 3.0, 64], block=64)
    assert np.array_equal(whole[100:164], np.full(64, 3, np.float32))
    assert not whole[:100].any() and not whole[164:].any()


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        ("u8", 255, b"\xff"), ("s8", -1, b"\xff"), ("b8", True, b"\x01"), ("u8", True, b"\x01"),
        ("u16", 65535, b"\xff\xff"), ("s16", -2, b"\xfe\xff"), ("b16", -1, b"\xff\xff"),
        ("b16", np.float16(1.5), binary.pack("<e", 1.5)),
        ("b16", ml_dtypes.bfloat16(1), b"\x80\x3f"), ("f16", 1.5, binary.pack("<e", 1.5)),
        ("u32", 1 << 31, binary.pack("<I", 1 << 31)), ("s32", -5, binary.pack("<i", -5)),
        ("b32", 0xFFFFFFFF, b"\xff" * 4), ("b32", -1, b"\xff" * 4),
        ("b32", 1.5, binary.pack("<f", 1.5)), ("f32", 3, binary.pack("<f", 3)),
        ("f32", np.float32(0.1), binary.pack("<f", 0.1)),
        ("b32", np.int32(-7), b"\xf9" + b"\xff" * 3),
        ("f64", 0.1, binary.pack("<d", 0.1)), ("b64", 0.1, binary.pack("<d", 0.1)),
        ("u64", (1 << 64) - 1, b"\xff" * 8), ("s64", -1, b"\xff" * 8), ("u64", None, bytes(8)),
        ("b64", np.uint64(5), b"\x05" + bytes(7)),
    ],
)  # fmt: skip
def test_scalars(kind: str, value: Any, wanted: bytes) -> None:
    assert passed(kind, len(wanted), value) == wanted


def test_structs() -> None:
    """As C lays them out: char, int, short, double, an inner struct."""
    made = ptx.struct(
        np.int8(1), np.int32(2), np.int16(3), np.float64(0.5), ptx.struct(np.uint8(9), np.int16(7)),
        b"xyz",
    )  # fmt: skip
    layout = binary.pack("<bxxxihxxxxxxdBxh3sx", 1, 2, 3, 0.5, 9, 7, b"xyz")
    assert len(layout) == 32
    assert passed("b8", 32, made) == layout
    assert passed("b8", 32, layout) == layout
    # A pointer in a struct: the entry stores the number beside it there.
    x = np.zeros(4, np.int32)
    text = (
        f"{HEAD}.entry k(.param .align 8 .b8 v[16])\n{{ .reg .b32 %r; .reg .b64 %d;\n"
        "ld.param.u32 %r, [v]; ld.param.u64 %d, [v+8]; st.global.u32 [%d+4], %r; ret; }\n"
    )
    ptx.run(text, [ptx.struct(np.int32(77), x)], block=1)
    assert x.tolist() == [0, 77, 0, 0]


LOAD = """
.visible .entry load({parameter}, .param .u64 y)
{{
  .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %d<9>;
  .shared .align 1024 .b8 tile[4096]; .shared .align 8 .b64 bar;
  {address}
  ld.param.u64 %d4, [y]; mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, bar;
  mov.u32 %r3, {x}; mov.u32 %r4, {y};
  setp.ne.u32 %p1, %r0, 0;
  @%p1 bra READY;
  mbarrier.init.shared.b64 [%r2], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared.b64 %d2, [%r2], {nbytes};
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes
    [%r1], [%d1, {{%r3, %r4}}], [%r2];
READY:
  bar.sync 0;
WAIT:
  mbarrier.try_wait.parity.shared.b64 %p2, [%r2], 0;
  @!%p2 bra WAIT;
  shl.b32 %r5, %r0, 2; add.u32 %r1, %r1, %r5; ld.shared.u32 %r4, [%r1];
  cvt.u64.u32 %d3, %r5; add.u64 %d4, %d4, %d3; st.global.u32 [%d4], %r4;
  ret;
}}
"""
BY_VALUE = {
    "parameter": ".param .align 64 .b8 m[128]",
    "address": "mov.b64 %d1, m; cvta.param.u64 %d1, %d1;",
}
BY_ADDRESS = {"parameter": ".param .u64 m", "address": "ld.param.u64 %d1, [m];"}


@pytest.mark.parametrize("how", [BY_VALUE, BY_ADDRESS], ids=["by value", "in global memory"])
def test_tensor_maps(how: dict[str, str]) -> None:
    """A box of 8 x 8 words at row 3, column 4 of a matrix; columns beyond the end are zeros."""
    rng = np.random.default_rng(fresh_seed())
    x = rng.integers(1, 1000, (16, 8), np.int32)
    y = np.full((8, 8), -1, np.int32)
    text = HEAD + LOAD.format(**how, x=4, y=3, nbytes=256)
    ptx.run(text, [ptx.TensorMap(x, box=(8, 8)), y], block=64)
    wanted = np.zeros((8, 8), np.int32)
    wanted[:, :4] = x[3:11, 4:]
    assert np.array_equal(y, wanted)
    # Swizzled by 32 bytes: chunks of 16 bytes change places in four rows of every eight.
    ptx.run(text, [ptx.TensorMap(x, box=(8, 8), swizzle=32), y], block=64)
    wanted[4:] = np.roll(wanted[4:], 4, axis=1)
    assert np.array_equal(y, wanted)


def test_element_strides() -> None:
    """The driver's box spans elements: of eight rows, two apart, four arrive."""
    x = np.arange(16 * 8, dtype=np.int32).reshape(16, 8)
    y = np.full((4, 8), -1, np.int32)
    text = HEAD + LOAD.format(**BY_VALUE, x=0, y=1, nbytes=128)
    ptx.run(text, [ptx.TensorMap(x, box=(8, 8), element_strides=(2, 1)), y], block=32)
    assert np.array_equal(y, x[1:9:2])


def test_a_map_of_another_rank() -> None:
    x, y = np.zeros((2, 16, 8), np.int32), np.zeros((8, 8), np.int32)
    with pytest.raises(ptx.MachineFault, match="missing tensor map"):
        ptx.run(HEAD + LOAD.format(**BY_VALUE, x=0, y=0, nbytes=256),
                [ptx.TensorMap(x, box=(1, 8, 8)), y], block=64)  # fmt: skip


X = np.zeros((16, 8), np.int32)
Y = np.zeros(64, np.float32)


@pytest.mark.parametrize(
    ("kind", "size", "value", "message"),
    [
        ("u32", 4, -1, "argument v: -1 does not fit uint32"),
        ("b32", 4, 1 << 32, "parameter .b32 v: expected -2147483648 to 4294967295, got 4294967296"),
        ("s32", 4, 1.5, "argument v: expected an integer"),
        ("u32", 4, np.int64(1), "expected a number of 4 bytes, got one of 8 (int64)"),
        ("b16", 2, 1.5, "expected a NumPy scalar, got 1.5: the type does not say which float"),
        ("u32", 4, X, "got an array of shape (16, 8), int32, which is passed as a pointer"),
        ("u32", 4, None, "expected a number of 4 bytes, got None"),
        ("u64", 8, "x", "None, a number or a TensorMap in global memory, got a value of type str"),
        ("u64", 8, [1, 2], "got a value of type list"),
        ("b8", 128, X, "expected a TensorMap, a struct or 128 bytes, got an array"),
        ("b8", 128, b"12", "expected 128 bytes, got 2"),
        ("b8", 12, ptx.struct(np.int32(1)), "expected a struct of 12 bytes, got one of 4"),
        ("b8", 8, ptx.struct(1), "got 1\nhint: np.int32(1)"),
        ("b8", 64, ptx.TensorMap(X, (8, 8)), "got a tensor map, which has 128 bytes"),
        ("b8", 128, ptx.TensorMap(X, (8,)), "2 extents, one a dimension of the array, got (8,)"),
        ("b8", 128, ptx.TensorMap(X, (8, 8), interleave="16B"), "interleave: expected 'none'"),
        ("b8", 128, ptx.TensorMap(X, (8, 8), oob_fill="nan"), "oob_fill: expected 'zeros'"),
        ("b8", 128, ptx.TensorMap(X, (8, 8), swizzle=48), "swizzle of 0, 32, 64 or 128, got 48"),
        ("b8", 128, ptx.TensorMap(X, (8, 3)), "rows are a multiple of 16 bytes"),
        ("b8", 128, ptx.TensorMap(X, (300, 8)), "box extents from 1 to 256"),
        ("b8", 128, ptx.TensorMap(X, (8, 8), element_strides=(0, 1)), "expected 1 to 8"),
        ("b8", 128, ptx.TensorMap(X.T, (8, 8)), "innermost stride of 1 element"),
        ("b8", 128, ptx.TensorMap([1], (8, 8)), "expected a tensor map of a NumPy array"),  # type: ignore[arg-type]
        ("b8", 128, ptx.TensorMap(X, ("a", 8)), "box: expected integers"),  # type: ignore[arg-type]
        ("u64", 8, X.astype(">i4"), "expected an array of numbers in native byte order"),
    ],
)  # fmt: skip
def test_wrong_arguments(kind: str, size: int, value: Any, message: str) -> None:
    with pytest.raises(td.TileError) as caught:
        passed(kind, size, value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "expected a block, for the PTX has no .reqntid"),
        ({"block": 2048}, "block: expected 1 to 1024 along x, got 2048"),
        ({"block": (32, 64)}, "expected at most 1024 threads, got 2048"),
        ({"block": 0}, "block: expected 1 to 1024 along x, got 0"),
        ({"block": "32"}, "block: expected one to three integers"),
        ({"block": 32, "grid": (1, 2, 3, 4)}, "grid: expected one to three integers"),
        ({"block": 32, "cluster": 2}, "grid"),
        ({"block": 32, "grid": 32, "cluster": 32}, "cluster: expected 1 to 16 along x"),
        ({"block": 32, "policy": "lazy"}, "policy: expected one of eager, late, random, pct"),
        ({"block": 32, "seed": -1}, "seed"),
        ({"block": 32, "dynamic_shared": 1 << 20}, "1048576 bytes of shared memory"),
        ({"block": 32, "entry": "other"}, "the PTX has no entry 'other'; it has: scale"),
        ({"block": 32, "budget": 3}, "the budget of instructions"),
    ],
)
def test_wrong_launches(options: dict[str, Any], message: str) -> None:
    with pytest.raises(td.TileError) as caught:
        ptx.run(SCALE, [Y, Y, 1.0, 64], **options)
    assert message in str(caught.value)


def test_wrong_numbers_of_arguments() -> None:
    with pytest.raises(td.InvalidValue) as caught:
        ptx.run(SCALE, [Y], block=32)
    assert str(caught.value) == (
        "expected 4 arguments, one for each parameter, got 1; the parameters are:\n"
        "    .u64 x\n    .u64 y\n    .f32 f\n    .u32 n"
    )


def test_entries_and_directives() -> None:
    two = SCALE + ".entry two(.param .align 64 .b8 m[128])\n.reqntid 64, 2, 1 { ret; }\n"
    found = ptx.entries(two)
    assert [ptx.described(p) for p in found["two"]] == [".align 64 .b8 m[128]"]
    with pytest.raises(ptx.DecodeError, match="which entry"):
        ptx.run(two, [], block=32)
    assert ptx.run(two, [bytes(128)], entry="two").instructions == 4
    with pytest.raises(td.LaunchError, match=r"expected a block of \(64, 2, 1\) threads"):
        ptx.run(two, [bytes(128)], entry="two", block=128)


def test_edited_ptx_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's own PTX, edited, with its ordinary arguments."""
    kernel = sample(monkeypatch, "gemm")
    rng = np.random.default_rng(fresh_seed())
    a, b = (rng.standard_normal((128, 64)).astype(ml_dtypes.bfloat16) for _ in range(2))
    c, other = (np.zeros((128, 128), ml_dtypes.bfloat16) for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", td.PerformanceWarning)
        text = kernel.lower(a, b, c).ptx
        kernel.run_ptx(a, b, c, ptx=text)
        assert not difference(c, reference(a, b, "bfloat16"))
        # Negative numbers become zero on the way to bfloat16.
        edited = text.replace("cvt.rn.bf16x2.f32", "cvt.rn.relu.bf16x2.f32")
        assert edited != text
        kernel.run_ptx(a, b, other, ptx=edited)
        assert np.array_equal(other, np.maximum(c, ml_dtypes.bfloat16(0)))
        with pytest.raises(ptx.DecodeError, match="the PTX has no entry 'gemm'"):
            kernel.run_ptx(a, b, c, ptx=SCALE)
        renamed = SCALE.replace("scale", "gemm")
        with pytest.raises(ptx.DecodeError, match="takes other parameters than the kernel"):
            kernel.run_ptx(a, b, c, ptx=renamed)
        wrong = text.replace("cvt.rn.bf16x2.f32", "cvt.rn.bf17x2.f32")
        with pytest.raises(ptx.DecodeError, match="does not know"):
            kernel.run_ptx(a, b, c, ptx=wrong)


def test_import_stays_light() -> None:
    code = (
        "import sys, tiledsl; assert not {'numba', 'tiledsl.ptx', 'tiledsl.cli'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
