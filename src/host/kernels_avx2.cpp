// The CPU device's loops for CPUs with AVX2 and FMA: the same text, compiled with -mavx2 -mfma.
#include "host/kernels_table.hpp"

namespace epifuse::host {

extern const Kernels<float> kAvx2KernelsF32;
extern const Kernels<double> kAvx2KernelsF64;
constinit const Kernels<float> kAvx2KernelsF32 = make_kernels<float>();
constinit const Kernels<double> kAvx2KernelsF64 = make_kernels<double>();

}  // namespace epifuse::host
