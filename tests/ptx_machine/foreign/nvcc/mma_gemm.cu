// C = A * B in f16 with float sums: cp.async in two stages, ldmatrix (B turned on the way), and
// mma.sync. Then products of other types by mma.sync alone.
#include "device.cuh"

constexpr int M = 64, N = 64, K = 32, PAD = 8;

__device__ __forceinline__ void copy16(void* to, const void* from, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(inside ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void load4(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}

__device__ __forceinline__ void load4_turned(uint32_t (&r)[4], const void* p) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(p)) : "memory");
}

// 128 threads: each warp 32 x 32 of the 64 x 64. m, n, k: any with k, n multiples of 8.
extern "C" __global__ void mma_gemm(const __half* a, const __half* b, float* c, int m, int n, int k) {
  __shared__ __align__(16) __half sa[2][M][K + PAD], sb[2][K][N + PAD];
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  const int row = blockIdx.y * M, column = blockIdx.x * N, steps = (k + K - 1) / K;
  auto fetch = [&](int i) {
    for (int j = t; j < M * K / 8; j += 128) {
      const int r = j / (K / 8), q = j % (K / 8) * 8;
      const bool inside = row + r < m && i * K + q < k;
      copy16(&sa[i % 2][r][q], a + (inside ? size_t(row + r) * k + i * K + q : 0), inside);
    }
    for (int j = t; j < K * N / 8; j += 128) {
      const int r = j / (N / 8), q = j % (N / 8) * 8;
      const bool inside = i * K + r < k && column + q < n;
      copy16(&sb[i % 2][r][q], b + (inside ? size_t(i * K + r) * n + column + q : 0), inside);
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
  };
  float d[2][4][4] = {};
  fetch(0);
  for (int i = 0; i < steps; i++) {
    if (i + 1 < steps) {
      fetch(i + 1);
      asm volatile("cp.async.wait_group 1;" ::: "memory");
    } else {
      asm volatile("cp.async.wait_all;" ::: "memory");
    }
    __syncthreads();
#pragma unroll
    for (int q = 0; q < K; q += 16) {
      uint32_t fa[2][4], fb[2][4];
      for (int x = 0; x < 2; x++) {
        load4(fa[x], &sa[i % 2][warp / 2 * 32 + x * 16 + lane % 16][q + lane / 16 * 8]);
        load4_turned(fb[x], &sb[i % 2][q + lane % 16][warp % 2 * 32 + x * 16 + lane / 16 * 8]);
      }
      for (int x = 0; x < 2; x++) {
        for (int y = 0; y < 4; y++) {
          float* e = d[x][y];
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
              "{%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
              : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3])
              : "r"(fa[x][0]), "r"(fa[x][1]), "r"(fa[x][2]), "r"(fa[x][3]),
                "r"(fb[y / 2][y % 2 * 2]), "r"(fb[y / 2][y % 2 * 2 + 1]));
        }
      }
    }
    __syncthreads();
  }
  for (int x = 0; x < 2; x++) {
    for (int y = 0; y < 4; y++) {
      for (int z = 0; z < 4; z++) {
        const int r = row + warp / 2 * 32 + x * 16 + lane / 4 + z / 2 * 8;
        const int q = column + warp % 2 * 32 + y * 8 + lane % 4 * 2 + z % 2;
        if (r < m && q < n) {
          c[size_t(r) * n + q] = d[x][y][z];
        }
      }
    }
  }
}

// One warp: a 16 x 8 product of s8 (k 32), one of tf32 (k 8), an 8 x 8 of double (k 4).
extern "C" __global__ void mma_kinds(const signed char* a8, const signed char* b8, int* c8,
                                     const float* a32, const float* b32, float* c32,
                                     const double* a64, const double* b64, double* c64) {
  const int lane = threadIdx.x, group = lane / 4, part = lane % 4;
  auto word = [](const signed char* p) { return *reinterpret_cast<const uint32_t*>(p); };
  int d[4] = {1, 2, 3, 4};
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
      : "r"(word(a8 + group * 32 + part * 4)), "r"(word(a8 + (group + 8) * 32 + part * 4)),
        "r"(word(a8 + group * 32 + part * 4 + 16)), "r"(word(a8 + (group + 8) * 32 + part * 4 + 16)),
        "r"(word(b8 + group * 32 + part * 4)), "r"(word(b8 + group * 32 + part * 4 + 16)));
  float e[4] = {};
  auto tf32 = [](float x) {
    uint32_t r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return r;
  };
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%0, %1, %2, %3};"
      : "+f"(e[0]), "+f"(e[1]), "+f"(e[2]), "+f"(e[3])
      : "r"(tf32(a32[group * 8 + part])), "r"(tf32(a32[(group + 8) * 8 + part])),
        "r"(tf32(a32[group * 8 + part + 4])), "r"(tf32(a32[(group + 8) * 8 + part + 4])),
        "r"(tf32(b32[group * 8 + part])), "r"(tf32(b32[group * 8 + part + 4])));
  double f[2] = {0.5, -0.5};
  asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
               : "+d"(f[0]), "+d"(f[1]) : "d"(a64[group * 4 + part]), "d"(b64[group * 4 + part]));
  for (int z = 0; z < 4; z++) {
    c8[(group + z / 2 * 8) * 8 + part * 2 + z % 2] = d[z];
    c32[(group + z / 2 * 8) * 8 + part * 2 + z % 2] = e[z];
  }
  c64[group * 8 + part * 2] = f[0];
  c64[group * 8 + part * 2 + 1] = f[1];
}
