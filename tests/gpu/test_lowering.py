"""What the lowering emits, run on a GPU: arithmetic of all dtypes, copies, GEMM in every form."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from tests.codegen import arith_reference as reference
from tests.codegen.arith_samples import scalar_kernel, tile_kernel
from tests.codegen.ctl_samples import END, samples
from tests.codegen.ir_samples import GemmShape, Sketch, gemm, lowered
from tests.codegen.test_lower_arith import mistakes, outputs
from tests.codegen.test_lower_gemm import SHAPES
from tests.codegen.test_lower_tma import COPIES
from tests.codegen.tma_samples import copy_kernel, one_role_gemm
from tests.gpu.launch_ptx import framework
from tiledsl.codegen.assemble import assemble
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.ir.dtypes import ALL_DTYPES, DType
from tiledsl.codegen.ir.kernel import Kernel
from tiledsl.codegen.ir.ops import arith, tile
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx

pytestmark = pytest.mark.gpu

# Not `importorskip`, which skips the file as one test: the summary shall count each.
torch: Any = import_module("torch") if find_spec("torch") else None


@pytest.fixture(autouse=True)
def _torch() -> None:
    framework("torch")


class OnGpu:
    """A kernel brought down, assembled and loaded."""

    def __init__(self, kernel: Kernel) -> None:
        from tiledsl.runtime.launch import Launcher, LoadedKernel

        plan = lowered(kernel).plan
        assert plan is not None
        _, ptx = emit_ptx(emit_llvm(kernel), kernel.target)
        cubin = assemble(ptx, kernel.target, kernel.name).cubin
        loaded = LoadedKernel(
            cubin, kernel.name, threads=plan.threads, shared_bytes=plan.shared_bytes,
            target=kernel.target, cluster=kernel.cluster_dims, persistent=kernel.persistent,
        )  # fmt: skip
        self.launcher = Launcher(loaded, plan.params, [param.name for param in kernel.params])

    def __call__(self, arguments: Sequence[Any], grid: int | tuple[int, ...] = 1) -> None:
        self.launcher(arguments, grid)
        torch.cuda.synchronize()


# torch's types of the same size, and of the same name where the runtime looks at the name.
_TORCH = {d: getattr(torch, d.name.rstrip("_"), None) for d in ALL_DTYPES} if torch else {}


def to_gpu(array: Any, dtype: DType) -> Any:
    kind = _TORCH[dtype]
    assert kind is not None, dtype
    raw = torch.from_numpy(np.ascontiguousarray(array).view(np.uint8).reshape(-1)).cuda()
    return raw.view(kind).reshape(array.shape)


def from_gpu(tensor: Any, dtype: DType) -> Any:
    raw = tensor.contiguous().reshape(-1).view(torch.uint8).cpu().numpy()
    return raw.view(reference.NUMPY[dtype]).reshape(tuple(tensor.shape))


def seeded() -> tuple[int, np.random.Generator]:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    torch.manual_seed(seed)
    return seed, np.random.default_rng(seed)


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_scalars_mean_what_they_say(dtype: DType) -> None:
    seed, rng = seeded()
    count = 1000
    x, y = reference.inputs(dtype, count, rng)
    made = outputs(dtype, count, list(ALL_DTYPES))
    bools = ALL_DTYPES[0]
    numbers, truths = to_gpu(made[0], dtype), to_gpu(made[1], bools)
    casts = {d: to_gpu(out, d) for d, out in made[2].items()}
    OnGpu(scalar_kernel(dtype))(
        [to_gpu(x, dtype), to_gpu(y, dtype), numbers, truths, *casts.values()], count
    )
    host = {d: from_gpu(out, d) for d, out in casts.items()}
    found = mistakes(dtype, x, y, from_gpu(numbers, dtype), from_gpu(truths, bools), host)
    assert not found, f"seed {seed}: {len(found)} mistakes: " + "\n".join(found[:8])


@pytest.mark.parametrize("dtype", ALL_DTYPES, ids=str)
def test_tiles_mean_the_same(dtype: DType) -> None:
    seed, rng = seeded()
    count = 24
    run = OnGpu(tile_kernel(dtype))
    x, y = reference.inputs(dtype, count, rng)
    numbers, truths, casts = outputs(dtype, count, list(ALL_DTYPES))
    bools = ALL_DTYPES[0]
    for i in range(count):
        results = [
            torch.zeros((64 * len(numbers), 16), dtype=_TORCH[dtype], device="cuda"),
            torch.zeros((64 * len(truths), 16), dtype=torch.bool, device="cuda"),
            *(torch.zeros((64, 16), dtype=_TORCH[d], device="cuda") for d in casts),
        ]
        run([to_gpu(x[i : i + 1], dtype), to_gpu(y[i : i + 1], dtype), *results])
        kinds = [dtype, bools, *casts]
        hosts = [from_gpu(r, d) for r, d in zip(results, kinds, strict=True)]
        for host in hosts:
            blocks = host.reshape(-1, 64 * 16).view(f"u{host.itemsize}")
            assert (blocks == blocks[:, :1]).all(), "elements of one tile differ"
        numbers[:, i], truths[:, i] = hosts[0][::64, 0], hosts[1][::64, 0]
        for out, host in zip(casts.values(), hosts[2:], strict=True):
            out[i] = host[0, 0]
    found = mistakes(dtype, x, y, numbers, truths, casts)
    assert not found, f"seed {seed}: {len(found)} mistakes: " + "\n".join(found[:8])


@pytest.mark.parametrize("name", samples())
def test_control_flow(name: str) -> None:
    sample = samples()[name]
    run = OnGpu(sample.kernel)
    for arguments in sample.arguments:
        expected = sample.python(*arguments)
        out = torch.zeros(400, dtype=torch.int64, device="cuda")
        run([*arguments, out])
        given = out.tolist()
        if "64" not in name and "uint" not in name:
            expected = [(v + 2**31) % 2**32 - 2**31 for v in expected]
        assert given[: len(expected)] == expected, arguments
        assert given[len(expected)] in (END, 0)


@pytest.mark.parametrize(("shape", "rank", "dtype", "swizzle", "copies"), COPIES, ids=str)
def test_copies(shape: tuple[int, ...], rank: int, dtype: DType, swizzle: int, copies: int) -> None:
    """Tiles that hang over any end of the source, stored where they hang over the far ends.

    The hardware refuses (as an illegal instruction) coordinates of the innermost dimension that
    are not multiples of 16 bytes, and negative ones in a store.
    """
    run = OnGpu(copy_kernel(shape, rank, dtype, swizzle))
    _, rng = seeded()
    full = (1,) * (rank - len(shape)) + shape
    step = 16 // dtype.itemsize
    extents = [extent + 3 for extent in full]
    extents[-1] = -(-extents[-1] // step) * step  # rows of a multiple of 16 bytes
    raw = rng.integers(0, 256, (*extents[:-1], extents[-1] * dtype.itemsize), np.uint8)
    source = to_gpu(raw.view(reference.NUMPY[dtype]), dtype)
    for at in itertools.islice(itertools.product(*([0, 2, -1] for _ in full[1:]), [0, step]), 12):
        to = [*rng.integers(0, full[:-1], rank - 1).tolist(), step * int(rng.integers(0, 2))]
        out = torch.zeros_like(source)
        run([source, out, *at, *to])
        held = np.zeros((*full, dtype.itemsize), np.uint8)
        bytes_of = raw.reshape(*extents, dtype.itemsize)
        inside = [
            range(max(0, a), min(e, a + n)) for a, e, n in zip(at, extents, full, strict=True)
        ]
        held[tuple(slice(r.start - a, r.stop - a) for r, a in zip(inside, at, strict=True))] = (
            bytes_of[tuple(slice(r.start, r.stop) for r in inside)]
        )
        expected = np.zeros_like(bytes_of)
        kept = [min(n, e - t) for n, e, t in zip(full, extents, to, strict=True)]
        expected[tuple(slice(t, t + n) for t, n in zip(to, kept, strict=True))] = held[
            tuple(slice(0, n) for n in kept)
        ]
        given = from_gpu(out, dtype).view(np.uint8).reshape(expected.shape)
        assert np.array_equal(given, expected), (at, to)


def products(shape: GemmShape, m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """a and b as the kernel wants them, room for c, and the product in float32."""
    kind, out = _TORCH[shape.dtype], _TORCH[shape.out]
    a, b = (torch.randn(extent, k, device="cuda").to(kind) for extent in (m, n))
    expected = a.float() @ b.float().T
    if shape.a_mn:
        a = a.T.contiguous()
    if shape.b_mn:
        b = b.T.contiguous()
    c = torch.full((m, n), 77, device="cuda", dtype=torch.float32).to(out)
    return a, b, c, expected


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize(
    "mnk", [(256, 512, 256), (504, 784, 336), (64, 64, 16), (1000, 1040, 2000)]
)
def test_gemm(name: str, mnk: tuple[int, int, int]) -> None:
    shape = SHAPES[name]
    seeded()
    a, b, c, expected = products(shape, *mnk)
    OnGpu(gemm(shape))([a, b, c], 132)
    if shape.out.is_float:
        bits = {8: 3, 16: 7 if shape.out.name == "bfloat16" else 10, 32: 23, 64: 52}[shape.out.bits]
        error = (c.float() - expected).norm() / expected.norm()
        # Rounding of the result, and of sums: of fp8 products the hardware keeps about 14 bits.
        sums = 1e-3 if shape.dtype.bits == 8 else 1e-6 * math.sqrt(mnk[2])
        assert error < 2.0 ** -(bits + 1) + sums
    elif shape.out.is_integer:
        assert (c - expected.trunc()).abs().max() <= 1
    else:
        assert torch.equal(c, expected != 0)


def test_no_steps_give_zeros() -> None:
    """K = 0, which no tensor map can describe: the extent comes from another tensor."""
    kernel = gemm()
    s = Sketch()
    empty = s.tensor("empty", dtypes.int8, 1)
    kernel.params += s.params
    for op in kernel.body.ops:
        if isinstance(op, tile.TensorDim) and op.result.name == "a1":
            op.tensor, op.axis = empty, 0
    a = torch.randn(256, 64, device="cuda").bfloat16()
    c = torch.full((256, 256), 77.0, device="cuda").bfloat16()
    OnGpu(kernel)([a, a, c, torch.zeros(0, dtype=torch.int8, device="cuda")], 4)
    assert (c == 0).all()


@pytest.mark.parametrize("warps", [4, 8])
def test_one_role_loads_and_multiplies(warps: int) -> None:
    seeded()
    run = OnGpu(one_role_gemm(warps=warps))
    m, n, k = 1024, 512, 640
    a, b = (torch.randn(extent, k, device="cuda").bfloat16() for extent in (m, n))
    c = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
    info = torch.zeros(m // 128, n // 64, device="cuda", dtype=torch.int64)
    run([a, b, c, info], (m // 128, n // 64))
    expected = a.float() @ b.float().T
    assert (c.float() - expected).norm() / expected.norm() < 2.0**-8
    rows, columns = (torch.arange(e, device="cuda") for e in info.shape)
    assert torch.equal(info, torch.maximum(rows[:, None] * 128, columns[None] * 64))


@pytest.mark.parametrize("tiles", [False, True], ids=["thread", "warpgroup"])
def test_print_once(tiles: bool, capfd: pytest.CaptureFixture[str]) -> None:
    """One line from one thread of each block, whoever runs the role."""
    s = Sketch("talk")
    out = s.tensor("out", dtypes.float32, 2)
    kinds = [d for d in ALL_DTYPES if d.kind != "bool"]
    signs = [1 if d.kind == "uint" else -1 for d in kinds]
    values = [s.const(3 * sign, d) for d, sign in zip(kinds, signs, strict=True)]
    truth = s.scalar("truth", dtypes.bool_)
    if tiles:
        full = s.value(arith.Full(s.const(1.0, dtypes.float32), (64, 8)))
        s.add(tile.TmaStore(full, out, (s.const(0), s.const(0))))
    form = {"int": "%d", "uint": "%u", "float": "%g"}
    wide = {"int": "%lld", "uint": "%llu", "float": "%g"}
    text = " ".join((wide if d.bits == 64 else form)[d.kind] for d in kinds)
    s.add(tile.Print("ä 100%% %d " + text + "\n", (truth, *values)))
    s.add(tile.Print("done\n", ()))
    run = OnGpu(s.kernel(warps=4))
    run([torch.zeros(64, 8, device="cuda"), True], 2)
    expected = "ä 100% 1 " + " ".join(str(3 * sign) for sign in signs)
    assert sorted(capfd.readouterr().out.split("\n")) == sorted([expected, "done"] * 2 + [""])
