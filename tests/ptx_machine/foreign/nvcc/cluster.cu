// Clusters of two or four blocks: parts of a tile by multicast, sums through distributed shared
// memory, a ring whose slots all blocks of the cluster must give back.
#include <cooperative_groups.h>

#include "device.cuh"

namespace cg = cooperative_groups;
constexpr int ROWS = 16, COLUMNS = 32, SLOTS = 2;

// out[block][column]: sums over the rows of x of all that the cluster has loaded, times the
// block's rank + 1. x: [steps * cluster * ROWS][COLUMNS].
extern "C" __global__ void multicast_sums(const __grid_constant__ TensorMap x, float* out, int steps) {
  __shared__ __align__(128) float tile[SLOTS][4 * ROWS * COLUMNS];
  __shared__ uint64_t full[SLOTS], empty[SLOTS];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
  if (threadIdx.x == 0) {
    for (int i = 0; i < SLOTS; i++) {
      mbarrier_init(&full[i], 1);
      mbarrier_init(&empty[i], size);
    }
    mbarrier_init_done();
  }
  cluster.sync();
  float sum = 0;
  for (int i = 0; i < steps; i++) {
    const int slot = i % SLOTS, lap = i / SLOTS;
    if (threadIdx.x == 0) {
      mbarrier_wait_cluster(&empty[slot], (lap & 1) ^ 1);
      mbarrier_expect(&full[slot], size * ROWS * COLUMNS * 4);
      tma_load_multicast(tile[slot] + rank * ROWS * COLUMNS, &x, &full[slot], 0,
                         (i * size + rank) * ROWS, (1 << size) - 1);
    }
    __syncwarp();
    mbarrier_wait_cluster(&full[slot], lap & 1);
    for (int row = 0; row < size * ROWS; row++) {
      sum += tile[slot][row * COLUMNS + threadIdx.x];
    }
    // These reads come before what TMA writes there next.
    async_proxy_fence();
    __syncwarp();
    if (threadIdx.x < size) {
      mbarrier_arrive_at(&empty[slot], threadIdx.x);
    }
  }
  cluster.sync();
  out[blockIdx.x * COLUMNS + threadIdx.x] = sum * (rank + 1);
}

// Each block a histogram of its part; then each adds up its bins over the whole cluster.
extern "C" __global__ void cluster_histogram(const unsigned char* x, int n, unsigned* bins) {
  __shared__ unsigned counts[256];
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned rank = cluster.block_rank(), size = cluster.num_blocks();
  for (int i = threadIdx.x; i < 256; i += blockDim.x) {
    counts[i] = 0;
  }
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&counts[x[i]], 1u);
  }
  cluster.sync();
  for (int i = rank * 256 / size + threadIdx.x; i < (rank + 1) * 256 / size; i += blockDim.x) {
    unsigned total = 0;
    for (unsigned r = 0; r < size; r++) {
      total += cluster.map_shared_rank(counts, r)[i];
    }
    atomicAdd(&bins[i], total);
  }
  // Atomics on a neighbour's shared memory.
  cluster.sync();
  if (threadIdx.x < 4) {
    counts[threadIdx.x] = 0;
  }
  cluster.sync();
  atomicAdd(cluster.map_shared_rank(counts, (rank + 1) % size) + threadIdx.x % 4, rank + 1);
  cluster.sync();
  if (threadIdx.x < 4) {
    bins[256 + blockIdx.x * 4 + threadIdx.x] = counts[threadIdx.x];
  }
}

// st.async: each block sends its row to the next one, which waits for the bytes.
extern "C" __global__ void ring_send(const float4* x, float4* out) {
  __shared__ float4 inbox[32];
  __shared__ uint64_t arrived;
  cg::cluster_group cluster = cg::this_cluster();
  const unsigned next = (cluster.block_rank() + 1) % cluster.num_blocks();
  if (threadIdx.x == 0) {
    mbarrier_init(&arrived, 1);
    mbarrier_init_done();
    mbarrier_expect(&arrived, sizeof(inbox));
  }
  cluster.sync();
  const float4 mine = x[blockIdx.x * 32 + threadIdx.x];
  uint32_t to, bar;
  asm("mapa.shared::cluster.u32 %0, %1, %2;"
      : "=r"(to) : "r"(shared_address(&inbox[threadIdx.x])), "r"(next));
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(shared_address(&arrived)), "r"(next));
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, "
      "[%5];" ::"r"(to), "r"(__float_as_uint(mine.x)), "r"(__float_as_uint(mine.y)),
      "r"(__float_as_uint(mine.z)), "r"(__float_as_uint(mine.w)), "r"(bar)
      : "memory");
  mbarrier_wait_cluster(&arrived, 0);
  out[blockIdx.x * 32 + threadIdx.x] = inbox[threadIdx.x];
  cluster.sync();
}
