// Warps together: cooperative groups, redux, match, votes, shuffles of wide types, scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;

extern "C" __global__ void warp_sums(const float* x, const int* n, double* sums, int* wholes) {
  auto block = cg::this_thread_block();
  auto warp = cg::tiled_partition<32>(block);
  auto eight = cg::tiled_partition<8>(block);
  __shared__ double parts[32];
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  double mine = cg::reduce(warp, double(x[i]), cg::plus<double>());
  if (warp.thread_rank() == 0) parts[warp.meta_group_rank()] = mine;
  block.sync();
  if (threadIdx.x == 0) {
    double total = 0;
    for (int k = 0; k < warp.meta_group_size(); k++) total += parts[k];
    sums[blockIdx.x] = total;
  }
  const int width = gridDim.x * blockDim.x;
  wholes[i] = cg::reduce(warp, n[i], cg::plus<int>());
  wholes[width + i] = cg::reduce(eight, n[i], cg::less<int>());
  wholes[2 * width + i] = cg::inclusive_scan(warp, n[i], cg::plus<int>());
  wholes[3 * width + i] = __reduce_xor_sync(~0u, unsigned(n[i]));
  wholes[4 * width + i] = __match_any_sync(~0u, n[i] & 7);
  wholes[5 * width + i] = __shfl_xor_sync(~0u, (long long)(n[i]) << 20, 5) >> 20;
  // Those lanes that take a branch form a group.
  int rank = -1;
  if (n[i] & 1) {
    auto odd = cg::coalesced_threads();
    rank = odd.thread_rank() * 100 + odd.size();
  }
  wholes[6 * width + i] = rank;
  wholes[7 * width + i] = __dp4a(n[i], 0x01FF0203, 7);
  wholes[8 * width + i] = __byte_perm(n[i], ~n[i], 0x5146);
}

// The warp's queue: an atomic by one lane for all that want.
extern "C" __global__ void compact(const int* x, int n, int* out, int* count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && x[i] > 0) {
    auto group = cg::coalesced_threads();
    int base = 0;
    if (group.thread_rank() == 0) base = atomicAdd(count, int(group.size()));
    out[group.shfl(base, 0) + group.thread_rank()] = x[i];
  }
}
