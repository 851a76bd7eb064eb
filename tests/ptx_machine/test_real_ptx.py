"""PTX as compilers make it: ours (LLVM), and NVVM's through numba-cuda and nvcc."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import tiledsl as td
from tests.codegen.arith_samples import scalar_kernel, tile_kernel
from tests.codegen.ir_samples import lowered
from tests.kernels.gemm import gemm
from tiledsl.codegen.ir import dtypes
from tiledsl.codegen.nvptx.lower import emit_llvm, emit_ptx
from tiledsl.runtime.ptx_machine.isa.control_ops import ASSERT, CLOCK, PRINT
from tiledsl.runtime.ptx_machine.opcodes import CONTROL, FAMILY, OP
from tiledsl.runtime.ptx_machine.parser import parse
from tiledsl.runtime.ptx_machine.program import DecodeError, Program, decode
from tiledsl.runtime.ptx_machine.syntax import Instruction

BF16 = td.spec((512, 512), td.bfloat16)
NOT_INSTRUCTIONS = re.compile(r"\.(reg|local|shared|param|pragma|branchtargets|callprototype)\b")


def sample(name: str) -> Any:
    """A module of samples/, which import each other by their plain names."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "samples"))
    try:
        return import_module(name)
    finally:
        sys.path.pop(0)


def emitted(make: Callable[[Any], Any], dtype: Any) -> str:
    return emit_ptx(emit_llvm(lowered(make(dtype))), "sm_90a")[1]


OURS: dict[str, Callable[[], str]] = {
    "gemm": lambda: gemm.lower(BF16, BF16, BF16).ptx,
    "gemm of f16": lambda: gemm.lower(*[td.spec((256, 256), td.float16)] * 3).ptx,
    "gemm_cluster": lambda: sample("gemm_cluster").gemm_cluster.lower(BF16, BF16, BF16).ptx,
    "gemm_pingpong": lambda: sample("gemm_pingpong").gemm_pingpong.lower(BF16, BF16, BF16).ptx,
    **{
        f"scalars of {dtype}": partial(emitted, scalar_kernel, dtype)
        for dtype in (dtypes.float64, dtypes.bfloat16, dtypes.int8, dtypes.uint64, dtypes.bool_)
    },
    **{
        f"tiles of {dtype}": partial(emitted, tile_kernel, dtype)
        for dtype in (dtypes.float32, dtypes.float8_e4m3fn, dtypes.int16)
    },
}


def statements(text: str) -> list[str]:
    """The instructions of a module with one function, found without the parser."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\.section[^{]*\{[^}]*\}", "", text)
    text = re.sub(r"\n\s*\.(loc|file)\b[^\n]*", "", text)
    body = text[re.search(r"\.entry[^{]*\{", text).end() : text.rindex("}")]  # type: ignore[union-attr]
    found = []
    for piece in body.split(";"):
        piece = re.sub(r"^(\s*[{}]|\s*[$\w]+\s*:(?!:))+", "", piece)
        piece = " ".join(piece.split())
        if piece and not NOT_INSTRUCTIONS.match(piece) and piece not in "{}":
            found.append(piece)
    return found


def entry_of(text: str) -> tuple[list[str], Program]:
    """What the parser read, and the rows."""
    module = parse(text)
    (function,) = [it for it in module.functions.values() if it.entry]
    read = [it.text.rstrip("; ") for it in function.body if isinstance(it, Instruction)]
    return read, decode(module)


@pytest.mark.parametrize("name", OURS)
def test_our_ptx(name: str) -> None:
    """Nothing is lost on the way to rows, and each row knows its Python line."""
    text = OURS[name]()
    read, made = entry_of(text)
    assert read == statements(text)
    clocks = (made.rows[:, FAMILY] == CONTROL) & (made.rows[:, OP] == CLOCK)
    own = [it.rstrip("; ") for it, clock in zip(made.texts, clocks, strict=True) if not clock]
    assert own == read
    lines = [loc for loc in made.locs if loc is not None and loc.line]
    assert len(lines) > 0.6 * len(read)
    assert all(loc.file.endswith(".py") for loc in lines)


def test_decoding_is_fast() -> None:
    """15 ms for a GEMM on an idle core; here five times that, for busy ones."""
    text = OURS["gemm"]()
    decode(parse(text))
    best = math.inf
    for _ in range(5):
        start = time.process_time()
        decode(parse(text))
        best = min(best, time.process_time() - start)
    assert best < 0.075


# ------------------------------------------------------------------ NVVM


def numba_ptx(function: Any, arguments: tuple[Any, ...], **options: Any) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            cuda: Any = import_module("numba.cuda")
            text: str = cuda.compile_ptx(function, arguments, cc=(9, 0), **options)[0]
        except Exception as problem:
            pytest.skip(f"numba-cuda cannot compile here: {type(problem).__name__}")
    return text


def numba_kernel() -> tuple[Any, tuple[Any, ...]]:
    from numba import float32, int32

    cuda: Any = import_module("numba.cuda")

    def kernel(x, n):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        shared = cuda.shared.array(128, float32)
        if i < n:
            shared[cuda.threadIdx.x] = math.sin(x[i])
        cuda.syncthreads()
        if i < n:
            x[i] = shared[127 - cuda.threadIdx.x] / (i + 1)
            cuda.atomic.add(x, 0, 1.0)
        print(i)

    return kernel, (float32[:], int32)


def test_numba_cuda() -> None:
    kernel, arguments = numba_kernel()
    text = numba_ptx(kernel, arguments, lineinfo=True)
    made = decode(parse(text))
    kinds = {(int(row[FAMILY]), int(row[OP])) for row in made.rows}
    assert (CONTROL, PRINT) in kinds
    assert any(loc is not None and loc.file == __file__ for loc in made.locs)
    assert made.shared_size == 512


CUDA = r"""
#include <cassert>
#include <cstdio>
__constant__ float table[4] = {1.f, 2.f, 3.f, 4.f};
struct S { double d; int k[5]; };
__device__ int counter;
__device__ int* where = &counter;
__device__ __noinline__ float helper(float a, int n) {
  float s = 0;
  for (int i = 0; i < n; i++) s += a * table[i & 3];
  return s;
}
__device__ __noinline__ S makes(S a, int n) { a.k[n % 5] += n; a.d *= 2; return a; }
__global__ void kernel(float* x, int n) {
  extern __shared__ float dynamic[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  assert(n > 0);
  if (i < n) { x[i] = helper(x[i], n); if (i == 0) printf("hello %d %f\n", i, x[0]); }
  S s;
  s.d = x[i];
  for (int j = 0; j < 5; j++) s.k[j] = j * i;
  s = makes(s, n);
  dynamic[i] = s.d;
  __syncthreads();
  x[i] += s.k[2] + dynamic[i ^ 1];
  *where = 3;
  switch (n) {
    case 0: x[0] = 1; break;
    case 1: x[1] = sinf(x[1]); break;
    case 2: x[2] = expf(x[1]); break;
    case 3: x[5] = 7; break;
    case 4: x[7] = clock64(); break;
    case 5: x[1] = logf(x[6]); break;
  }
}
__device__ __noinline__ int down(int n) { return n < 2 ? n : n * down(n / 2) + down(n - 3); }
__global__ void recursive(int* x) { x[0] = down(x[0]); }
"""


@pytest.fixture(scope="module", params=["-lineinfo", "-G"])
def nvcc_ptx(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        pytest.skip("there is no nvcc")
    folder: Path = tmp_path_factory.mktemp("nvcc")
    (folder / "k.cu").write_text(CUDA)
    command = [nvcc, "-arch=sm_90a", "-ptx", request.param, "k.cu", "-o", "k.ptx"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nvcc fails here: {done.stderr[:200]}")
    return (folder / "k.ptx").read_text()


def test_nvcc(nvcc_ptx: str) -> None:
    module = parse(nvcc_ptx)
    made = decode(module, "_Z6kernelPfi")
    kinds = {(int(row[FAMILY]), int(row[OP])) for row in made.rows}
    assert {(CONTROL, PRINT), (CONTROL, ASSERT), (CONTROL, CLOCK)} <= kinds
    assert {"table", "counter", "where", "dynamic"} <= set(made.variables)
    inlined = [loc for loc in made.locs if loc is not None and loc.call_site is not None]
    assert inlined and all(loc.file.endswith("k.cu") for loc in inlined)
    assert module.variables["table"].initial == b"".join(
        bytes.fromhex(it) for it in ("0000803f", "00000040", "00004040", "00008040")
    )


def test_nvcc_recursion(nvcc_ptx: str) -> None:
    with pytest.raises(DecodeError, match="recursion is not supported: _Z9recursivePi -> _Z4downi"):
        decode(parse(nvcc_ptx), "_Z9recursivePi")
