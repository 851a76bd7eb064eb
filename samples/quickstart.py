# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#       format_version: '1.3'
#       jupytext_version: 1.19.6
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # A kernel in a notebook
#
# tiledsl compiles a decorated Python function to GPU code. This notebook defines a matrix product,
# shows what it becomes, and runs it: on the CPU in the emulator, and on the GPU if there is one.
# Nothing but the last cell needs a GPU or a driver.

# %%
import ml_dtypes
import numpy as np

import tiledsl as td

# %% [markdown]
# ## The kernel
#
# Two *roles* run at the same time in each block: one warp loads tiles, one warpgroup multiplies
# them. A *pipeline*, a ring of stages in shared memory, connects them. `acquire()` waits for the
# next stage, the end of the `with` block hands it to the other side. Barriers, byte counts, phases
# and swizzles are the compiler's business.


# %%
@td.kernel(grid=td.persistent)
def gemm(
    a: td.Tensor,
    b: td.Tensor,
    c: td.Tensor,
    *,
    BM: td.Constant[int] = 64,
    BN: td.Constant[int] = 128,
    BK: td.Constant[int] = 64,
    stages: td.Constant[int] = 4,
):
    """c[M, N] = a[M, K] @ b[N, K].T, accumulated in float32."""
    M, K = a.shape
    N, _ = b.shape
    payload = td.StandardTilePayload(
        a.dtype, b.dtype, (BM, BK), (BN, BK), num_pipeline_stages=stages
    )
    pipeline = td.InputTilePipeline(payload, num_group_stages=stages)
    tiles = td.TileScheduler(td.cdiv(M, BM), td.cdiv(N, BN), group=8)

    with td.role("load", warps=1):
        with pipeline.producer() as producer:
            for m, n in tiles:
                for k in range(td.cdiv(K, BK)):
                    with producer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        td.tma_load(a, (m * BM, k * BK), a_tile, stage.barrier())
                        td.tma_load(b, (n * BN, k * BK), b_tile, stage.barrier())

    with td.role("mma", warps=4):
        with pipeline.consumer() as consumer:
            for m, n in tiles:
                acc = td.zeros((BM, BN), td.float32)
                for _ in range(td.cdiv(K, BK)):
                    with consumer.acquire() as stage:
                        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
                        acc = td.mma(a_tile, b_tile.T, acc)
                td.tma_store(acc.to(c.dtype), c, (m * BM, n * BN))


# %% [markdown]
# ## On the CPU
#
# Called with NumPy arrays, the kernel runs in the emulator: the same IR that becomes GPU code, with
# the roles as coroutines and real barriers. The sizes need not be multiples of the tile.

# %%
rng = np.random.default_rng()
a = rng.standard_normal((200, 328), np.float32).astype(ml_dtypes.bfloat16)
b = rng.standard_normal((136, 328), np.float32).astype(ml_dtypes.bfloat16)
c = np.full((200, 136), np.nan, ml_dtypes.bfloat16)

gemm(a, b, c)

expected = a.astype(np.float32) @ b.astype(np.float32).T
error = np.abs(c.astype(np.float32) - expected) / np.maximum(np.abs(expected), 1)
print(f"largest relative error: {error.max():.4f}; bfloat16 has a resolution of {2**-8:.4f}")
assert error.max() < 2**-7

# %% [markdown]
# ## What the kernel becomes
#
# `compile` needs the types of the arguments only. The IR says what the kernel does, step by step;
# at the second level, pipelines have become barriers.

# %%
spec = td.spec((4096, 4096), td.bfloat16)
compiled = gemm.compile(spec, spec, spec)
print(compiled.ir)

# %%
print(compiled.protocol_ir)

# %% [markdown]
# The PTX is what LLVM makes of it; here are the instructions of one stage. The assembler tells what
# the kernel takes.

# %%
wanted = ("mbarrier.try_wait", "mbarrier.arrive", "cp.async.bulk.tensor", "wgmma.mma_async")
for line in compiled.ptx.splitlines():
    for name in wanted:
        if name in line:
            print(line[line.index(name) :].strip()[:90])

# %%
resources = compiled.resources
print(f"{resources.threads} threads, {resources.registers} registers at entry,", end=" ")
print(f"{resources.spill_store_bytes} bytes spilled, {resources.shared_bytes} bytes shared")

# %% [markdown]
# ## A mistake
#
# Mistakes are found when the kernel is compiled, and shown at their line. Here the loader forgets
# to release its stage.


# %%
@td.kernel(grid=td.persistent)
def forgetful(a: td.Tensor, b: td.Tensor):
    payload = td.StandardTilePayload(a.dtype, b.dtype, (64, 64), (64, 64), num_pipeline_stages=2)
    pipeline = td.InputTilePipeline(payload, num_group_stages=2)
    with td.role("load", warps=1):
        stage = pipeline.producer().acquire()
        a_tile, b_tile = stage.payload().get_tile(stage.stage(), 0)
        td.tma_load(a, (0, 0), a_tile, stage.barrier())
        td.tma_load(b, (0, 0), b_tile, stage.barrier())


try:
    forgetful.compile(spec, spec)
except td.TileError as error:
    print(error)

# %% [markdown]
# ## On the GPU
#
# Called with arrays in GPU memory (PyTorch, CuPy, JAX, Numba, ...) the kernel is launched there, on
# the stream that is current in that library.

# %%
try:
    import torch

    has_gpu = torch.cuda.is_available()
except ImportError:
    has_gpu = False

if has_gpu:
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    y = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    z = torch.empty(4096, 4096, device="cuda", dtype=torch.bfloat16)
    gemm(x, y, z, BM=128, BN=128)
    print("largest difference to torch:", (z - x @ y.T).abs().max().item())
else:
    print("no GPU here")
