"""What the samples share: arguments, inputs, the check, and the report. No kernel in here."""

from __future__ import annotations

import argparse
import os
import statistics
import time
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import tiledsl as td

# One rounding of float32, as a fraction of the number. Tensor cores truncate, hence 23, not 24.
UNIT = 2.0**-23
DTYPES = ("bfloat16", "float16", "float32")
DUMPS = ("ir", "protocol", "llvm", "ptx", "sass")


def parser(description: str) -> argparse.ArgumentParser:
    """The options of a GEMM sample."""
    made = argparse.ArgumentParser(description=description)
    for name in ("m", "n", "k"):
        made.add_argument(f"--{name}", type=integer, help="default: 4096 on a GPU, else 512")
    made.add_argument("--dtype", choices=DTYPES[:2], default="bfloat16", help="of a and b")
    made.add_argument("--out-dtype", choices=DTYPES, help="of c; default: as --dtype")
    made.add_argument("--device", choices=("auto", "gpu", "emulator"), default="auto")
    made.add_argument(
        "--seed", type=integer, help="of the random inputs; default: another each time"
    )
    made.add_argument("--dump", choices=DUMPS, help="print what the kernel becomes, and stop")
    return made


def integer(text: str) -> int:
    """The value of an option that counts something."""
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"expected a number of at least 0, got {number}")
    return number


def dump(kernel: Any, what: str, dtype: str, out_dtype: str) -> str:
    """The kernel's IR, LLVM IR, PTX or machine code as text. Needs no GPU."""
    spec = td.spec((4096, 4096), getattr(td, dtype))
    return dump_text(
        kernel.compile(spec, spec, td.spec((4096, 4096), getattr(td, out_dtype))), what
    )


def dump_text(compiled: Any, what: str) -> str:
    """One of the texts of a compiled kernel."""
    if what == "sass":
        return str(compiled.sass())
    return str(getattr(compiled, {"protocol": "protocol_ir"}.get(what, what)))


def find_torch() -> tuple[Any, str]:
    """PyTorch if it can use a GPU, else None and why."""
    try:
        import torch
    except ImportError:
        return None, "PyTorch is not installed"
    if not torch.cuda.is_available():
        return None, "PyTorch sees no CUDA device"
    return torch, ""


def cpu_place(why: str) -> str:
    """Where calls with NumPy arrays run, for the report; ``why`` it is not the GPU."""
    ptx = os.environ.get("TILEDSL_BACKEND") == "ptx"
    return f"{'PTX machine' if ptx else 'emulator'} ({why})"


@dataclass
class Problem:
    """Random a[M, K] and b[N, K], and c[M, N] full of NaN, on the GPU or in NumPy."""

    a: Any
    b: Any
    c: Any
    torch: Any  # None in the emulator

    @property
    def flops(self) -> int:
        (m, k), n = self.a.shape, self.b.shape[0]
        return 2 * m * n * k

    def poison(self) -> None:
        """Fill c with NaN, so that an element that is not written shows."""
        self.c[...] = float("nan")

    def check(self) -> tuple[float, float]:
        """The largest error of c, and the largest error as a multiple of what is allowed.

        Allowed is one unit in the last place of c's dtype, because both sides are rounded to it,
        and what float32 accumulation loses: K roundings of partial sums, which for independent
        terms are about as large as sigma, the root of the sum of the squared products.
        """
        a, b, c = (self._double(x) for x in (self.a, self.b, self.c))
        reference = a @ b.T
        sigma = ((a * a) @ (b * b).T) ** 0.5
        digits = {"bfloat16": 7, "float16": 10, "float32": 23}[str(self.c.dtype).split(".")[-1]]
        if 0 in reference.shape:
            return 0.0, 0.0
        magnitude = abs(reference).clip(2.0**-14)  # below it, float16 has no more digits
        allowed = 2.0**-digits * magnitude + a.shape[1] * UNIT * sigma
        error = abs(c - reference)
        return float(error.max()), float((error / allowed).max())

    def _double(self, x: Any) -> Any:
        return x.astype(np.float64) if self.torch is None else x.double()


def make_problem(
    shape: tuple[int, int, int], dtype: str, out_dtype: str, seed: int, torch: Any
) -> Problem:
    """Standard normal inputs for ``shape`` = (M, N, K)."""
    m, n, k = shape
    if torch is not None:
        generator = torch.Generator("cuda").manual_seed(seed)
        a, b = (
            torch.randn(rows, k, device="cuda", generator=generator).to(getattr(torch, dtype))
            for rows in (m, n)
        )
        c = torch.empty(m, n, device="cuda", dtype=getattr(torch, out_dtype))
    else:
        rng = np.random.default_rng(seed)
        a, b = (
            rng.standard_normal((rows, k), np.float32).astype(numpy_dtype(dtype)) for rows in (m, n)
        )
        c = np.empty((m, n), numpy_dtype(out_dtype))
    problem = Problem(a, b, c, torch)
    problem.poison()
    return problem


def numpy_dtype(name: str) -> Any:
    """NumPy's dtype of that name; bfloat16 comes from ml_dtypes."""
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def gpu_milliseconds(torch: Any, run: Any, repeats: int = 30) -> float:
    """The median time of ``run()`` on the GPU, after a warm-up."""
    for _ in range(5):
        run()
    pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(repeats)]
    for start, end in pairs:
        start.record()
        run()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(end) for start, end in pairs)


def run_gemm(kernel: Any, description: str, argv: list[str] | None = None) -> int:
    """Run a GEMM sample as a script; its exit status."""
    options = parser(description).parse_args(argv)
    out_dtype = options.out_dtype or options.dtype
    if options.dump:
        print(dump(kernel, options.dump, options.dtype, out_dtype))
        return 0
    torch, why = (None, "asked for") if options.device == "emulator" else find_torch()
    if torch is None and options.device == "gpu":
        raise SystemExit(f"no GPU to run on: {why}")
    default = 512 if torch is None else 4096
    shape = tuple(default if x is None else x for x in (options.m, options.n, options.k))
    seed = time.time_ns() % 2**32 if options.seed is None else options.seed
    problem = make_problem(shape, options.dtype, out_dtype, seed, torch)

    started = time.perf_counter()
    try:
        kernel(problem.a, problem.b, problem.c)
    except td.LaunchError as error:  # such as rows that are not a multiple of 16 bytes
        raise SystemExit(f"the launch was refused: {error}") from None
    if torch is not None:
        torch.cuda.synchronize()
    seconds = time.perf_counter() - started
    error, ratio = problem.check()

    m, n, k = shape
    place = cpu_place(why) if torch is None else torch.cuda.get_device_name()
    print(f"{kernel.__name__}: {m} x {n} x {k}, {options.dtype} -> {out_dtype}, seed {seed}")
    print(f"  ran on         {place}")
    print(f"  first call     {seconds:.2f} s, compilation included")
    print(f"  largest error  {error:.3g} against the reference; at most {ratio:.2f} of its bound")
    if torch is not None and problem.flops:
        ms = gpu_milliseconds(torch, lambda: kernel(problem.a, problem.b, problem.c))
        print(f"  speed          {problem.flops / ms / 1e9:.0f} TFLOP/s ({ms * 1e3:.1f} us a call)")
    if not ratio <= 1:  # NaN is wrong, too
        print("WRONG: the error is larger than rounding explains")
        return 1
    return 0
