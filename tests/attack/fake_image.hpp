// The kernels of the attacks, and what the fake NVRTC makes of them: an image that can be predicted, so that a wrong
// one is noticed. For fake_nvrtc.cpp and the worker.
#pragma once

#include <cstdlib>
#include <string>

namespace attack {

inline std::string kernel_source(unsigned kernel) {
  const std::string n = std::to_string(kernel);
  return "extern \"C\" __global__ void k" + n + "(float* x) { x[threadIdx.x] += " + n + ".0f; }\n";
}

/// Of a few kilobytes, as kernels have. `architecture` as in the compiler's option: "sm_90".
inline std::string fake_image(const std::string& source, const std::string& architecture) {
  std::string image =
      "\x7f"
      "ELF of " +
      architecture + "\n";
  while (image.size() < 3000 + source.size() % 97 * 40) image += source;
  return image;
}

}  // namespace attack
