"""Kernels for numba-cuda, whose PTX lies beside this file. ``make.py`` compiles them; tests do not.

``KERNELS`` gives the signature of each. Files are named after the functions.
"""

# mypy: ignore-errors
from __future__ import annotations

import cmath
import math

import numpy as np
from numba import (
    complex64,
    complex128,
    cuda,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
    void,
)

KERNELS = {}
UNOPTIMISED = ("calls",)  # where device functions stay functions
TILE, HALO, PADDED = 16, 18, 17


def kernel(*arguments):
    """Decorator: a kernel of these arguments."""

    def keep(function):
        KERNELS[function.__name__] = (function, void(*arguments))
        return function

    return keep


@kernel(float32[::1], float64[::1])
def block_sum(x, total):
    """Grid-stride loop, shuffles in a warp, shared memory among warps, one atomic for a block."""
    partial = cuda.shared.array(32, float64)
    i, step = cuda.grid(1), cuda.gridsize(1)
    mine = 0.0
    while i < x.size:
        mine += x[i]
        i += step
    offset = 16
    while offset:
        mine += cuda.shfl_down_sync(0xFFFFFFFF, mine, offset)
        offset //= 2
    lane, warp = cuda.threadIdx.x % 32, cuda.threadIdx.x // 32
    if lane == 0:
        partial[warp] = mine
    cuda.syncthreads()
    if warp == 0:
        mine = partial[lane] if lane < cuda.blockDim.x // 32 else 0.0
        for k in range(5):
            mine += cuda.shfl_xor_sync(0xFFFFFFFF, mine, 1 << k)
        if lane == 0:
            cuda.atomic.add(total, 0, mine)


@kernel(uint8[::1], int32[::1], int32[::1])
def histogram(x, bins, extremes):
    """Atomics of shared and global memory."""
    counts = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    for k in range(t, 256, cuda.blockDim.x):
        counts[k] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        cuda.atomic.add(counts, x[i], 1)
        cuda.atomic.max(extremes, 0, int32(x[i]))
        cuda.atomic.min(extremes, 1, int32(x[i]))
    cuda.syncthreads()
    for k in range(t, 256, cuda.blockDim.x):
        if counts[k]:
            cuda.atomic.add(bins, k, counts[k])


@kernel(float32[::1], float64[::1], int64[::1], uint32[::1])
def all_atomics(f, d, n, u):
    """f: add, max, min; d: add, max, min (nan among them); n: add, max, min, cas; u: bits, inc."""
    i = cuda.grid(1)
    cuda.atomic.add(f, 0, float32(i % 7))
    cuda.atomic.max(f, 1, float32(i % 101) - float32(50))
    cuda.atomic.min(f, 2, float32(i % 101) - float32(50))
    cuda.atomic.add(d, 0, 0.25 * i)
    cuda.atomic.max(d, 1, -0.5 * i)
    cuda.atomic.min(d, 2, -0.5 * i)
    cuda.atomic.add(n, 0, i - 40)
    cuda.atomic.max(n, 1, i * 1000003 % 9973 - 5000)
    cuda.atomic.min(n, 2, i * 1000003 % 9973 - 5000)
    cuda.atomic.cas(n, 3, 0, i + 1)
    cuda.atomic.or_(u, 0, uint32(1) << uint32(i % 32))
    cuda.atomic.and_(u, 1, ~(uint32(1) << uint32(i % 13)))
    cuda.atomic.xor(u, 2, uint32(i))
    cuda.atomic.inc(u, 3, uint32(9))
    cuda.atomic.dec(u, 4, uint32(9))
    cuda.atomic.exch(u, 5, uint32(77))
    cuda.atomic.sub(u, 6, uint32(3))


@kernel(float32[:, ::1], int32[:, ::1])
def sort_rows(x, order):
    """An insertion sort in local memory: each thread a row of 9."""
    keys = cuda.local.array(9, float32)
    places = cuda.local.array(9, int32)
    row = cuda.grid(1)
    if row >= x.shape[0]:
        return
    for k in range(9):
        key = x[row, k]
        at = k
        while at > 0 and keys[at - 1] > key:
            keys[at] = keys[at - 1]
            places[at] = places[at - 1]
            at -= 1
        keys[at] = key
        places[at] = k
    for k in range(9):
        x[row, k] = keys[k]
        order[row, k] = places[k]


@kernel(float64[::1], float64[:, ::1])
def double_functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        y[0, i] = math.sin(a)
        y[1, i] = math.cos(a)
        y[2, i] = math.exp(a)
        y[3, i] = math.log(abs(a))
        y[4, i] = math.sqrt(abs(a))
        y[5, i] = math.tanh(a)
        y[6, i] = math.erf(a)
        y[7, i] = math.atan2(a, 1.0 - a)
        y[8, i] = abs(a) ** 1.7
        y[9, i] = math.floor(a * 10.0)
        y[10, i] = math.fmod(a, 0.7)
        y[11, i] = math.lgamma(abs(a) + 0.5)
        y[12, i] = math.log1p(abs(a))
        y[13, i] = math.hypot(a, 2.0)
        y[14, i] = 1.0 / a


@kernel(float32[::1], float32[:, ::1])
def float_functions(x, y):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        y[0, i] = math.sin(a)
        y[1, i] = math.cos(a)
        y[2, i] = math.exp(a)
        y[3, i] = math.log(abs(a))
        y[4, i] = math.sqrt(abs(a))
        y[5, i] = math.tanh(a)
        y[6, i] = math.erf(a)
        y[7, i] = math.atan2(a, float32(1.0) - a)
        y[8, i] = abs(a) ** float32(1.7)
        y[9, i] = math.ceil(a * float32(10.0))
        y[10, i] = math.acos(a / float32(10.0))
        y[11, i] = math.expm1(a)
        y[12, i] = math.log2(abs(a))
        y[13, i] = float32(1.0) / a
        y[14, i] = cuda.cbrt(a)


@kernel(float32[:, :], float32[:, :], float32)
def stencil(x, y, weight):
    """Five points, a tile with its halo in shared memory; arrays of any strides."""
    tile = cuda.shared.array((HALO, HALO), float32)
    i, j = cuda.grid(2)
    a, b = cuda.threadIdx.x + 1, cuda.threadIdx.y + 1
    n, m = x.shape
    inside = i < n and j < m
    tile[a, b] = x[i, j] if inside else 0.0
    if a == 1:
        tile[0, b] = x[i - 1, j] if i > 0 and i - 1 < n and j < m else 0.0
    if a == TILE:
        tile[TILE + 1, b] = x[i + 1, j] if i + 1 < n and j < m else 0.0
    if b == 1:
        tile[a, 0] = x[i, j - 1] if j > 0 and i < n and j - 1 < m else 0.0
    if b == TILE:
        tile[a, TILE + 1] = x[i, j + 1] if i < n and j + 1 < m else 0.0
    cuda.syncthreads()
    if inside:
        around = tile[a - 1, b] + tile[a + 1, b] + tile[a, b - 1] + tile[a, b + 1]
        y[i, j] = (1 - weight) * tile[a, b] + weight * 0.25 * around


@kernel(float32[:, ::1], float32[:, ::1], float32[:, ::1])
def matmul(a, b, c):
    """Tiles of 16 x 16 in shared memory, any shape."""
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, PADDED), float32)
    i, j = cuda.grid(2)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0.0)
    for t in range((a.shape[1] + TILE - 1) // TILE):
        k = t * TILE
        left[x, y] = a[i, k + y] if i < a.shape[0] and k + y < a.shape[1] else 0.0
        right[x, y] = b[k + x, j] if k + x < b.shape[0] and j < b.shape[1] else 0.0
        cuda.syncthreads()
        for s in range(TILE):
            total += left[x, s] * right[s, y]
        cuda.syncthreads()
    if i < c.shape[0] and j < c.shape[1]:
        c[i, j] = total


@kernel(complex128[::1], int32[::1], int32)
def escape_times(points, times, limit):
    """Lanes leave a loop one after the other."""
    i = cuda.grid(1)
    if i >= points.size:
        return
    z = 0j
    count = 0
    while count < limit and z.real * z.real + z.imag * z.imag <= 4.0:
        z = z * z + points[i]
        count += 1
    times[i] = count


@kernel(complex64[::1], complex64[::1], complex64[::1], complex128[::1])
def complex_numbers(x, y, products, values):
    i = cuda.grid(1)
    if i < x.size:
        products[i] = x[i] * y[i].conjugate() + complex64(1j)
        values[i] = cmath.exp(complex128(x[i])) / complex128(y[i]) + abs(complex128(x[i]))


@kernel(int64[::1], int32[::1], int64[::1])
def collatz(x, steps, peaks):
    """Loops and branches that lanes take apart."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        n, count, peak = x[i], 0, x[i]
        while n > 1:
            if n % 2:
                n = 3 * n + 1
                if n > peak:
                    peak = n
            else:
                n //= 2
            count += 1
            if count > 500:
                break
        steps[i], peaks[i] = count, peak


@cuda.jit(device=True, inline="never")
def gcd(a, b):
    while b:
        a, b = b, a % b
    return a


@cuda.jit(device=True, inline="never")
def horner(coefficients, x):
    total = 0.0
    for k in range(coefficients.size):
        total = total * x + coefficients[k]
    return total


@cuda.jit(device=True, inline="never")
def both(a, b):
    return gcd(a, b), a // gcd(a, b)


@kernel(int32[::1], int32[::1], float64[::1], int32[:, ::1], float64[::1])
def calls(a, b, coefficients, found, values):
    """Device functions that are not inlined: of loops, arrays, several results."""
    i = cuda.grid(1)
    if i < a.size:
        common, rest = both(a[i], b[i])
        found[0, i], found[1, i] = common, rest
        values[i] = horner(coefficients, a[i] / b[i])


@kernel(int32[::1], int32[:, ::1])
def warps(x, y):
    """Votes, matches, shuffles, counts of bits."""
    i, lane = cuda.grid(1), cuda.laneid
    value = x[i]
    full = 0xFFFFFFFF
    y[0, i] = cuda.ballot_sync(full, value % 3 == 0)
    y[1, i] = cuda.match_any_sync(full, value % 5)
    mask, same = cuda.match_all_sync(full, value % 1)
    y[2, i] = mask if same else 0
    y[3, i] = cuda.all_sync(full, value > -1000) + 2 * cuda.any_sync(full, value == 17)
    y[4, i] = cuda.shfl_sync(full, value, (lane * 7 + 3) % 32)
    y[5, i] = cuda.shfl_up_sync(full, value, 3)
    y[6, i] = cuda.popc(value) + 100 * cuda.clz(value)
    y[7, i] = cuda.brev(value)
    y[8, i] = cuda.ffs(value)
    if lane % 2:
        y[9, i] = cuda.ballot_sync(0xAAAAAAAA, value % 2 == 0)
    else:
        y[9, i] = cuda.shfl_xor_sync(0x55555555, value, 2)
    cuda.syncwarp()
    y[10, i] = cuda.selp(value > 5, value, int32(-value))
    y[11, i] = cuda.activemask()


@kernel(int32[::1], int32[::1])
def scan(x, y):
    """An inclusive scan of a block in dynamic shared memory, two halves in turn."""
    shared = cuda.shared.array(0, int32)
    t, n = cuda.threadIdx.x, cuda.blockDim.x
    here = 0
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = 1
    while step < n:
        value = shared[here * n + t]
        if t >= step:
            value += shared[here * n + t - step]
        here = 1 - here
        shared[here * n + t] = value
        cuda.syncthreads()
        step *= 2
    y[cuda.grid(1)] = shared[here * n + t]


WEIGHTS = np.array([0.25, -1.5, 3.0, 0.125, 7.0], np.float32)


@kernel(int8[::1], int16[::1], uint64[::1], int64[:, ::1], float32[::1])
def integers(a, b, c, y, z):
    """Division, remainder, shifts of all widths; a table in constant memory."""
    weights = cuda.const.array_like(WEIGHTS)
    i = cuda.grid(1)
    if i < a.size:
        p, q, r = a[i], b[i], c[i]
        divisor = q if q != 0 else int16(1)
        y[0, i] = p // divisor
        y[1, i] = p % divisor
        y[2, i] = r // (uint64(i) + uint64(1))
        y[3, i] = r % (uint64(i) + uint64(3))
        y[4, i] = int64(r) >> (i % 64)
        y[5, i] = r >> uint64(i % 64)
        y[6, i] = int64(p) * int64(q) ^ int64(r)
        y[7, i] = int64(r) // int64(divisor)
        z[i] = weights[i % 5] * p + weights[(i + 2) % 5]
