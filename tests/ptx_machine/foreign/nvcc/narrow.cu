// fp8, f16 and bf16: conversions, packed arithmetic, functions; 128-bit integers; f64.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void to_fp8(const float2* x, unsigned short* e4m3, unsigned short* e5m2,
                                  __half2* back, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  __nv_fp8x2_e4m3 a(x[i]);
  __nv_fp8x2_e5m2 b(x[i]);
  e4m3[i] = a.__x;
  e5m2[i] = b.__x;
  back[i] = __half2(a);
  back[n + i] = __half2(b);
}

extern "C" __global__ void halves(const __half2* a, const __half2* b, __half2* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = __hadd2(a[i], b[i]);
  y[n + i] = __hfma2_relu(a[i], b[i], a[i]);
  y[2 * n + i] = __hmul2_sat(a[i], b[i]);
  y[3 * n + i] = __hmax2_nan(a[i], b[i]);
  y[4 * n + i] = h2sqrt(__habs2(a[i]));
  y[5 * n + i] = h2exp2(a[i]);
  y[6 * n + i] = h2tanh_approx(a[i]);
  y[7 * n + i] = __h2div(a[i], b[i]);
  y[8 * n + i] = __hlt2(a[i], b[i]);
  y[9 * n + i] = __hneg2(h2rint(a[i]));
}

extern "C" __global__ void brains(const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* y,
                                  int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = __hadd2(a[i], b[i]);
  y[n + i] = __hfma2_relu(a[i], b[i], a[i]);
  y[2 * n + i] = __hmul2(a[i], b[i]);
  y[3 * n + i] = __hmin2_nan(a[i], b[i]);
  y[4 * n + i] = h2rsqrt(__habs2(a[i]));
  y[5 * n + i] = __float22bfloat162_rn(
      make_float2(__low2float(a[i]) * 3.f, __high2float(b[i]) * 0.1f));
  y[6 * n + i] = __hsub2(a[i], b[i]);
}

extern "C" __global__ void wide(const unsigned long long* a, const unsigned long long* b,
                                unsigned long long* y, const double* p, const double* q, double* z,
                                int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const unsigned __int128 product = (unsigned __int128)(a[i]) * b[i];
  const unsigned __int128 sum = product + (((unsigned __int128)(b[i]) << 64) | a[i]);
  y[i] = (unsigned long long)(sum >> 64);
  y[n + i] = (unsigned long long)(sum);
  y[2 * n + i] = (unsigned long long)(sum / (b[i] | 1));
  y[3 * n + i] = __funnelshift_l(unsigned(a[i]), unsigned(b[i]), i);
  y[4 * n + i] = __clzll(a[i]) + 100 * __popcll(b[i]);
  z[i] = p[i] / q[i];
  z[n + i] = __fma_rz(p[i], q[i], 1.0);
  z[2 * n + i] = sqrt(fabs(p[i]));
  z[3 * n + i] = __dadd_ru(p[i], q[i]);
  z[4 * n + i] = rint(p[i] * 4);
}
