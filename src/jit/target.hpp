// What an image is compiled for, and which options that takes. Pure functions: no compiler is opened here.
// Called by jit/ itself, the engine (api/) and the tool.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::jit {

/// A cubin is machine code of one architecture. PTX is compiled further by the driver, for GPUs newer than NVRTC.
enum class ImageKind : std::uint8_t { cubin, ptx };

/// "cubin" or "ptx": also the extension of dumped files.
const char* to_string(ImageKind kind) noexcept;

struct Target {
  int architecture = 0;  ///< 10 * major + minor: 90 is sm_90
  ImageKind kind = ImageKind::cubin;
  friend bool operator==(const Target&, const Target&) = default;
};

/// "sm_90 cubin", for logs.
std::string to_string(const Target& target);

/// 90 from "90", "sm_90" or "compute_90"; nothing for anything else (the suffixes of "sm_90a" and "sm_100f" included:
/// a source says itself whether it needs one).
std::optional<int> parse_architecture(std::string_view text) noexcept;

/// What to compile for a GPU, given what this NVRTC knows: a cubin of exactly its architecture, else PTX of the newest
/// older one, which the driver takes further. Throws Error(unsupported) when everything known is newer than the GPU.
Target target_for(int device_architecture, const std::vector<int>& known);

/// The options of every compile but for what depends on NVRTC's version (Nvrtc::compile adds that).
/// `of_one_architecture` as Source::is_of_one_architecture().
std::vector<std::string> compile_options(const Target& target, bool of_one_architecture = false);

}  // namespace epifuse::jit
