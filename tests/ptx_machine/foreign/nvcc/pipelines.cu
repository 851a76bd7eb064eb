// libcu++ and CUDA's own pipelines: cuda::barrier, cuda::pipeline, memcpy_async, bulk copies.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>
#include <cuda/pipeline>
#include <cuda_pipeline.h>

#include "device.cuh"

namespace cg = cooperative_groups;
// Barriers in shared memory are initialised below.
#pragma nv_diag_suppress static_var_with_dynamic_init
constexpr int CHUNK = 128, DEPTH = 3;

// y = running maxima of scaled chunks of x, through a ring filled by __pipeline_memcpy_async.
extern "C" __global__ void ring_of_copies(const float* x, float* y, int chunks) {
  __shared__ float ring[DEPTH][CHUNK];
  const int t = threadIdx.x;
  for (int i = 0; i < DEPTH - 1; i++) {
    if (i < chunks) __pipeline_memcpy_async(&ring[i][t], x + i * CHUNK + t, 4);
    __pipeline_commit();
  }
  float most = -INFINITY;
  for (int i = 0; i < chunks; i++) {
    __pipeline_wait_prior(DEPTH - 2);
    __syncthreads();
    most = fmaxf(most, ring[i % DEPTH][CHUNK - 1 - t] * (i + 1));
    y[i * CHUNK + t] = most;
    const int next = i + DEPTH - 1;
    if (next < chunks) __pipeline_memcpy_async(&ring[next % DEPTH][t], x + next * CHUNK + t, 4);
    __pipeline_commit();
  }
}

// cuda::barrier with tokens: all threads of a block, in phases, with a transaction by bulk copy.
extern "C" __global__ void bulk_and_barrier(const int4* x, int4* y, int rounds) {
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ alignas(16) int4 tile[64];
  __shared__ barrier bar;
  if (threadIdx.x == 0) {
    init(&bar, blockDim.x);
    async_proxy_fence();
  }
  __syncthreads();
  for (int i = 0; i < rounds; i++) {
    const size_t at = size_t(i * gridDim.x + blockIdx.x) * 64;
    barrier::arrival_token token;
    if (threadIdx.x == 0) {
      cuda::memcpy_async(tile, x + at, cuda::aligned_size_t<16>(sizeof(tile)), bar);
    }
    token = bar.arrive();
    bar.wait(std::move(token));
    int4 v = tile[(threadIdx.x + 1) % 64];
    v.x += 1, v.y *= 2, v.z -= v.w, v.w ^= i;
    bar.arrive_and_wait();
    tile[threadIdx.x] = v;
    async_proxy_fence();
    __syncthreads();
    if (threadIdx.x == 0) {
      asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y + at),
                   "r"(shared_address(tile)), "n"(sizeof(tile))
                   : "memory");
      bulk_commit();
      bulk_wait_read<0>();
    }
    __syncthreads();
  }
}

// cuda::pipeline of two stages, one block, unified: producers are consumers.
extern "C" __global__ void pipeline_sum(const int* x, int* y, int n) {
  __shared__ int stage[2][256];
  auto block = cg::this_thread_block();
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  const int batches = n / 256;
  for (int made = 0, taken = 0; taken < batches; taken++) {
    for (; made < batches && made < taken + 2; made++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[made % 2], x + made * 256, sizeof(int) * 256, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[taken % 2][255 - threadIdx.x];
    pipe.consumer_release();
  }
  y[threadIdx.x] = sum;
}
