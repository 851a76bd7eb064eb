// Blocks that wait on each other: a split sum in the order of blocks by flags, and the last block
// that does the rest. Atomics of all sorts.
#include <cuda/atomic>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Block b adds its part when the blocks before it have: y = (p0 / 2 + p1) / 2 + p2 ..., in order.
extern "C" __global__ void in_turn(const float* parts, float* y, unsigned* turn, int n) {
  const int i = threadIdx.x;
  if (i == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*turn);
    while (flag.load(cuda::memory_order_acquire) != blockIdx.x) __nanosleep(20);
  }
  __syncthreads();
  for (int k = i; k < n; k += blockDim.x) {
    y[k] = (blockIdx.x ? y[k] : 0.f) * 0.5f + parts[blockIdx.x * n + k];
  }
  __syncthreads();
  if (i == 0) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*turn);
    flag.store(blockIdx.x + 1, cuda::memory_order_release);
  }
}

// The block that comes last adds up what all have left in global memory.
extern "C" __global__ void last_block(const float* x, int n, double* left, unsigned* done, double* y) {
  __shared__ double mine[128];
  __shared__ bool last;
  double sum = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) sum += x[i];
  mine[threadIdx.x] = sum;
  __syncthreads();
  for (int k = 64; k; k /= 2) {
    if (threadIdx.x < k) mine[threadIdx.x] += mine[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    left[blockIdx.x] = mine[0];
    __threadfence();
    last = atomicInc(done, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    volatile double* all = left;
    double total = 0;
    for (int k = 0; k < gridDim.x; k++) total += all[k];
    *y = total;
  }
}

extern "C" __global__ void atomics(float* f, double* d, __half2* h, __nv_bfloat162* b, int* n,
                                   unsigned long long* u, float4* v) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(f, 0.5f);
  atomicAdd(d, 0.25);
  atomicAdd(h, __floats2half2_rn(1.f, 0.5f));
  atomicAdd(b, __floats2bfloat162_rn(1.f, -1.f));
  atomicAdd(reinterpret_cast<__half*>(h + 1), __float2half(2.f));
  atomicAdd(v, make_float4(1.f, 2.f, 3.f, 0.125f));
  atomicMax(n, i * 37 % 101);
  atomicMin(n + 1, i * 37 % 101 - 60);
  atomicSub(n + 2, 3);
  atomicAnd(n + 3, ~(1 << i % 32));
  atomicAdd_system(u, 1ull << 33);
  atomicCAS(u + 1, 0ull, 77ull);
  atomicMax(u + 2, (unsigned long long)(i) << 40);
  cuda::atomic_ref<unsigned long long, cuda::thread_scope_device>(u[3]).fetch_xor(
      1ull << i % 64, cuda::memory_order_relaxed);
  unsigned short* s = reinterpret_cast<unsigned short*>(n + 4);
  unsigned short old = *s, seen;
  while ((seen = atomicCAS(s, old, (unsigned short)(old + 3))) != old) old = seen;
}
