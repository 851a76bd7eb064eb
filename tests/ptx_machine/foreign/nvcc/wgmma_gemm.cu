// C = A * B^T in bf16: one warp loads by TMA, two warpgroups multiply by wgmma, a ring of three
// stages between them, C leaves by TMA from shared memory.
#include "device.cuh"

constexpr int M = 128, N = 128, K = 64, STAGES = 3;

struct Shared {
  alignas(1024) __nv_bfloat16 a[STAGES][M * K];
  alignas(1024) __nv_bfloat16 b[STAGES][N * K];
  alignas(1024) __nv_bfloat16 c[2][64 * N];
  alignas(8) uint64_t full[STAGES], empty[STAGES];
};

__device__ __forceinline__ void wgmma_64x128(float (&d)[64], uint64_t a, uint64_t b, int scale) {
  asm volatile(
      "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, p, 1, 1, 0, 0;\n}"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
        "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
        "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
        "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
        "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]),
        "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]), "+f"(d[40]), "+f"(d[41]),
        "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]), "+f"(d[48]),
        "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
        "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]),
        "+f"(d[63])
      : "l"(a), "l"(b), "r"(scale)
      : "memory");
}

extern "C" __global__ void __launch_bounds__(288)
    wgmma_gemm(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
               const __grid_constant__ TensorMap c, int k) {
  extern __shared__ __align__(1024) unsigned char raw[];
  Shared& s = *reinterpret_cast<Shared*>(raw);
  const int steps = (k + K - 1) / K, warp = threadIdx.x / 32;
  const int row = blockIdx.y * M, column = blockIdx.x * N;
  if (threadIdx.x == 0) {
    for (int i = 0; i < STAGES; i++) {
      mbarrier_init(&s.full[i], 1);
      mbarrier_init(&s.empty[i], 2);
    }
    mbarrier_init_done();
  }
  __syncthreads();

  if (warp == 8) {
    if (threadIdx.x % 32 == 0) {
      for (int i = 0; i < steps; i++) {
        const int stage = i % STAGES, lap = i / STAGES;
        mbarrier_wait(&s.empty[stage], (lap & 1) ^ 1);
        mbarrier_expect(&s.full[stage], sizeof(s.a[0]) + sizeof(s.b[0]));
        tma_load(s.a[stage], &a, &s.full[stage], i * K, row);
        tma_load(s.b[stage], &b, &s.full[stage], i * K, column);
      }
    }
    return;
  }
  const int group = warp / 4;
  float d[64];
  for (int i = 0; i < steps; i++) {
    const int stage = i % STAGES, lap = i / STAGES;
    mbarrier_wait(&s.full[stage], lap & 1);
    const uint64_t from_a = swizzled_descriptor(s.a[stage] + group * 64 * K);
    const uint64_t from_b = swizzled_descriptor(s.b[stage]);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
    for (int j = 0; j < K / 16; j++) {
      wgmma_64x128(d, from_a + 2 * j, from_b + 2 * j, i | j);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    // All four warps have waited before one thread gives the stage back.
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
    if (threadIdx.x % 128 == 0) {
      mbarrier_arrive(&s.empty[stage]);
    }
  }
  // Rows of 128 columns in shared memory, as the map of C has them: no swizzle.
  const int lane = threadIdx.x % 32, top = warp % 4 * 16 + lane / 4;
  __nv_bfloat162* out = reinterpret_cast<__nv_bfloat162*>(s.c[group]);
#pragma unroll
  for (int j = 0; j < 16; j++) {
    const int at = (j * 8 + lane % 4 * 2) / 2;
    out[top * (N / 2) + at] = __floats2bfloat162_rn(d[4 * j], d[4 * j + 1]);
    out[(top + 8) * (N / 2) + at] = __floats2bfloat162_rn(d[4 * j + 2], d[4 * j + 3]);
  }
  async_proxy_fence();
  asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
  if (threadIdx.x % 128 == 0) {
    tma_store(&c, s.c[group], column, row + group * 64);
    bulk_commit();
    bulk_wait_read<0>();
  }
}
