// The attacks that the worker performs by itself; each gives its figures, and throws if an image was wrong or something
// was not as promised.
#pragma once

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "fake_image.hpp"
#include "jit/compiler.hpp"

namespace attack {

using Json = nlohmann::json;

inline constexpr int kArchitecture = 90;
inline constexpr const char* kFakeTarget = "sm_90";

/// Each of these errno values, kills, torn and short writes, at every call.
Json faults(const std::vector<int>& errors);
Json kills(unsigned count, unsigned seed);
Json corrupt(unsigned count, unsigned seed);
Json bound(unsigned seconds);

inline void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

/// Where the kernel's image came from; throws if the image is wrong.
inline epifuse::jit::Origin get_one(epifuse::jit::Compiler& compiler, unsigned kernel) {
  epifuse::jit::Origin origin{};
  const auto image = compiler.get_for_device(kernel_source(kernel), "attack", kArchitecture, &origin);
  require(image->bytes == fake_image(kernel_source(kernel), kFakeTarget),
          "a wrong image of kernel " + std::to_string(kernel));
  return origin;
}

/// The same from a fresh Compiler, as another process would have.
inline epifuse::jit::Origin get_one(unsigned kernel) {
  epifuse::jit::Compiler compiler;
  return get_one(compiler, kernel);
}

/// EPIFUSE_CACHE_DIR.
std::filesystem::path cache_directory();

}  // namespace attack
