// A library that EPIFUSE_LIBCUDA can name: it has every function of the driver, supports the CUDA version that
// ATTACK_CUDA_VERSION gives, and is initialised with the result ATTACK_CUDA_INIT.
#include <cstdlib>

#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {
extern "C" {

#define cuInit cu_init_of_the_list
#define cuDriverGetVersion cu_driver_get_version_of_the_list
#define EPIFUSE_EXPORT(member, symbol, parameters) \
  int symbol parameters { return abi::kSuccess; }
EPIFUSE_DRIVER_FUNCTIONS(EPIFUSE_EXPORT)
#undef EPIFUSE_EXPORT
#undef cuInit
#undef cuDriverGetVersion

int cuInit(unsigned) { return std::atoi(std::getenv("ATTACK_CUDA_INIT")); }

int cuDriverGetVersion(int* version) {
  *version = std::atoi(std::getenv("ATTACK_CUDA_VERSION"));
  return abi::kSuccess;
}
}
}  // namespace epifuse::runtime
