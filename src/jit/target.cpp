// Architectures and options: small decisions, kept apart so that they can be tested without a compiler.
// Called by jit/, api/ and the tool.
#include "jit/target.hpp"

#include <algorithm>
#include <charconv>

#include "base/text.hpp"

namespace epifuse::jit {

const char* to_string(ImageKind kind) noexcept { return kind == ImageKind::cubin ? "cubin" : "ptx"; }

std::string to_string(const Target& target) {
  return fmt::format("{}_{} {}", target.kind == ImageKind::cubin ? "sm" : "compute", target.architecture,
                     to_string(target.kind));
}

std::optional<int> parse_architecture(std::string_view text) noexcept {
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (text.starts_with(prefix)) {
      text.remove_prefix(prefix.size());
      break;
    }
  }
  int value = 0;
  const char* const end = text.data() + text.size();
  // Digits only: from_chars would take a minus sign. At most four: no architecture is near 10000.
  if (text.empty() || text.size() > 4 || text.front() < '1' || text.front() > '9') return std::nullopt;
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < 10) return std::nullopt;
  return value;
}

Target target_for(int device_architecture, const std::vector<int>& known) {
  if (std::ranges::find(known, device_architecture) != known.end()) return {device_architecture, ImageKind::cubin};
  // PTX of an older architecture runs on every newer GPU; a cubin only within its own major version, and never older.
  int best = 0;
  for (const int candidate : known) {
    if (candidate < device_architecture) best = std::max(best, candidate);
  }
  if (best == 0) {
    base::fail(
        ErrorCode::unsupported,
        "NVRTC compiles for sm_{} and newer, but the GPU is sm_{}; install an older NVRTC that knows this GPU and "
        "name it in EPIFUSE_NVRTC",
        known.empty() ? 0 : *std::ranges::min_element(known), device_architecture);
  }
  return {best, ImageKind::ptx};
}

std::vector<std::string> compile_options(const Target& target, bool of_one_architecture) {
  return {
      fmt::format("--gpu-architecture={}_{}{}", target.kind == ImageKind::cubin ? "sm" : "compute", target.architecture,
                  of_one_architecture ? "a" : ""),
      "--std=c++17",
      // Every operation rounds once, as in the expression that the user wrote and on the CPU device: contracting a
      // multiply and an add would give other bits than PyTorch's chain of kernels. Where one rounding is wanted, the
      // source says fmaf().
      "--fmad=false"};
}

}  // namespace epifuse::jit
