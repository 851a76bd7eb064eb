"""A convolution as a matrix product that is never laid out: im2col loads by the copy engine.

The rows of the product are the pixels of the result, its columns the output channels; the sum runs
over the taps of the filter and the input channels. ``td.tma_load_im2col`` reads, for one tap, the
input pixels of a tile of output pixels: it walks over rows, columns and images, and gives zeros for
the padding.

    python samples/conv_im2col.py                       # on the GPU, else in the emulator
    python samples/conv_im2col.py --stride 2 --padding 0 --height 30 --in-channels 72
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

import numpy as np
from common import (
    DUMPS,
    UNIT,
    cpu_place,
    dump_text,
    find_torch,
    gpu_milliseconds,
    integer,
    numpy_dtype,
)

import tiledsl as td


@td.kernel(grid=td.persistent)
def conv(
    x: td.Tensor,
    w: td.Tensor,
    y: td.Tensor,
    *,
    R: td.Constant[int] = 3,
    S: td.Constant[int] = 3,
    stride: td.Constant[int] = 1,
    padding: td.Constant[int] = 1,
    BM: td.Constant[int] = 128,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
):
    """y[pixel, k] = sum over r, s, c of x[image, p * stride + r, q * stride + s, c] * w[rs, k, c].

    x is (N, H, W, C), channels last; w is (R * S, K, C); y is (N * P * Q, K), where P and Q are
    the height and width of the result. The sums are accumulated in float32.
    """
    N, H, W, C = x.shape
    P = (H + 2 * padding - R) // stride + 1
    Q = (W + 2 * padding - S) // stride + 1
    pixels, K = y.shape
    assert w.shape[0] == R * S, "one slice of w for each tap of the filter"
    assert pixels == N * P * Q, "one row of y for each pixel of the result"
    payload = td.StandardTilePayload(
        x.dtype, w.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(pixels, BM), td.cdiv(K, BN), group=8)
    blocks = td.cdiv(C, BK)

    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                # The window of the tile's first pixel; the copy engine walks on from there.
                image, pixel = m * BM // (P * Q), m * BM % (P * Q)
                top = pixel // Q * stride - padding
                left = pixel % Q * stride - padding
                for r in range(R):
                    for s in range(S):
                        for block in range(blocks):
                            with producer.acquire() as stage:
                                x_tile, w_tile = stage.payload().get_tile(stage.stage(), 0)
                                td.tma_load_im2col(
                                    x,
                                    (image, top, left, block * BK),
                                    (r, s),
                                    x_tile,
                                    stage.barrier(),
                                    lower=(-padding, -padding),
                                    upper=(padding - (R - 1), padding - (S - 1)),
                                    strides=(stride, stride),
                                )
                                at = (r * S + s, n * BN, block * BK)
                                td.tma_load(w, at, w_tile, stage.barrier())

    with td.role("mma", warps=8):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(R * S * blocks):
                    with consumer.acquire() as stage:
                        x_tile, w_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(x_tile, w_tile.T, acc)
                td.tma_store(acc.to(y.dtype), y, (m * BM, n * BN))


def convolve(x: Any, w: Any, y: Any, *, stride: int = 1, padding: int = 1, **tiling: int) -> None:
    """The convolution of x (N, H, W, C) with w (K, R, S, C) into y (N, P, Q, K), all contiguous.

    That is how PyTorch lays out tensors in ``channels_last`` format. Nothing is copied.
    """
    K, R, S, C = w.shape
    taps = w.reshape(K, R * S, C).swapaxes(0, 1)  # a view: the copy engine takes any strides
    conv(x, taps, y.reshape(-1, K), R=R, S=S, stride=stride, padding=padding, **tiling)


def extent(size: int, filter_size: int, stride: int, padding: int) -> int:
    """Height or width of the result."""
    return (size + 2 * padding - filter_size) // stride + 1


def reference(x: Any, w: Any, stride: int, padding: int) -> tuple[Any, Any]:
    """The result in float64, and the root of the sum of the squared products."""
    x, w = x.astype(np.float64), w.astype(np.float64)
    K, R, S, _ = w.shape
    P, Q = (extent(n, f, stride, padding) for n, f in zip(x.shape[1:3], (R, S), strict=True))
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    result, squares = np.zeros((2, x.shape[0], P, Q, K))
    for r in range(R):
        for s in range(S):
            rows = slice(r, r + (P - 1) * stride + 1, stride)
            columns = slice(s, s + (Q - 1) * stride + 1, stride)
            seen = padded[:, rows, columns]
            result += seen @ w[:, r, s].T
            squares += seen**2 @ (w[:, r, s] ** 2).T
    return result, squares**0.5


def check(y: Any, x: Any, w: Any, stride: int, padding: int) -> tuple[float, float]:
    """The largest error of y, and as a multiple of what rounding explains; see common.py."""
    result, sigma = reference(x, w, stride, padding)
    if 0 in result.shape:
        return 0.0, 0.0
    digits = {"bfloat16": 7, "float16": 10, "float32": 23}[str(y.dtype)]
    terms = w.shape[1] * w.shape[2] * w.shape[3]
    allowed = 2.0**-digits * np.abs(result).clip(2.0**-14) + terms * UNIT * sigma
    error = np.abs(y.astype(np.float64) - result)
    return float(error.max()), float((error / allowed).max())


def options_of(argv: list[str] | None) -> argparse.Namespace:
    made = argparse.ArgumentParser(description="convolution with im2col loads")
    for name, default in (
        ("images", 2), ("height", 14), ("width", 14), ("in-channels", 64), ("out-channels", 128),
        ("filter", 3), ("stride", 1), ("padding", 1),
    ):  # fmt: skip
        made.add_argument(f"--{name}", type=integer, default=default, help=f"default: {default}")
    made.add_argument("--dtype", choices=("bfloat16", "float16"), default="bfloat16")
    made.add_argument("--device", choices=("auto", "gpu", "emulator"), default="auto")
    made.add_argument("--seed", type=integer, help="default: another each time")
    made.add_argument("--dump", choices=DUMPS, help="print what the kernel becomes, and stop")
    return made.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    given = options_of(argv)
    dtype = getattr(td, given.dtype)
    if given.dump:
        specs = (
            td.spec((32, 56, 56, 256), dtype),
            td.spec((9, 256, 256), dtype),
            td.spec((32 * 56 * 56, 256), dtype),
        )
        print(dump_text(conv.compile(*specs), given.dump))
        return 0
    torch, why = (None, "asked for") if given.device == "emulator" else find_torch()
    if torch is None and given.device == "gpu":
        raise SystemExit(f"no GPU to run on: {why}")
    seed = time.time_ns() % 2**32 if given.seed is None else given.seed
    rng = np.random.default_rng(seed)
    size = given.filter
    P, Q = (extent(n, size, given.stride, given.padding) for n in (given.height, given.width))
    if min(P, Q) < 1:
        raise SystemExit(f"a {size} x {size} filter does not fit: the result is {P} x {Q} pixels")
    kind = numpy_dtype(given.dtype)
    shapes = {
        "x": (given.images, given.height, given.width, given.in_channels),
        "w": (given.out_channels, size, size, given.in_channels),
    }
    x, w = (rng.standard_normal(shape, np.float32).astype(kind) for shape in shapes.values())
    y = np.full((given.images, P, Q, given.out_channels), np.nan, kind)
    arrays = [x, w, y]
    if torch is not None:
        arrays = [
            torch.from_numpy(each.astype(np.float32)).cuda().to(getattr(torch, given.dtype))
            for each in arrays
        ]

    def run() -> None:
        convolve(*arrays, stride=given.stride, padding=given.padding)

    try:
        run()
    except td.LaunchError as error:  # such as channels that are not a multiple of 16 bytes
        raise SystemExit(f"the launch was refused: {error}") from None
    if torch is not None:
        y = arrays[2].float().cpu().numpy().astype(kind)
    error, ratio = check(y, x, w, given.stride, given.padding)

    place = cpu_place(why) if torch is None else torch.cuda.get_device_name()
    print(f"conv: {shapes['x']} * {shapes['w']} -> {y.shape}, {given.dtype}, seed {seed}")
    print(f"  stride {given.stride}, padding {given.padding}")
    print(f"  ran on         {place}")
    print(f"  largest error  {error:.3g} against the reference; at most {ratio:.2f} of its bound")
    if torch is not None:
        ms = gpu_milliseconds(torch, run)
        flops = 2 * y.size * size * size * given.in_channels
        print(f"  speed          {flops / ms / 1e9:.0f} TFLOP/s ({ms * 1e3:.1f} us a call)")
    if not ratio <= 1:  # NaN is wrong, too
        print("WRONG: the error is larger than rounding explains")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
