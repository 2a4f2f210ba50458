// NVRTC, found and opened at run time: EpiFuse starts without it and says what is missing when a compile needs it.
// Called by jit::Compiler; the tool asks it for versions and architectures.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "jit/nvrtc_abi.hpp"
#include "jit/target.hpp"

namespace epifuse::jit {

inline double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

/// Where NVRTC is, told without opening it: loading 100 MB of compiler costs 10 to 800 ms, a cached image needs none of
/// it.
struct NvrtcLocation {
  std::filesystem::path path;
  /// Which compiler that is, for cache keys: the file's real path, size and time of change. Another version, or the
  /// same path after an upgrade, gives another identity.
  std::string identity;
};

/// The library that Nvrtc::get() opens. Order: EPIFUSE_NVRTC and nothing else if it is set; one that this process has
/// loaded already; libnvrtc.so.13, .so.12, .so where the dynamic linker looks; CUDA_HOME, CUDA_PATH, /usr/local/cuda;
/// the nvidia-* wheels of a Python environment (VIRTUAL_ENV, CONDA_PREFIX, or the one this library lies in).
/// Found once per process; throws Error(no_compiler) each time while there is none, listing what was tried.
const NvrtcLocation& locate_nvrtc();

struct NvrtcVersion {
  int major = 0;
  int minor = 0;
};

/// What a kernel takes, by the assembler's own account.
struct Resources {
  int registers = 0;      ///< per thread
  int shared_bytes = 0;   ///< per block
  int spilled_bytes = 0;  ///< per thread
};
/// The option with which the log of a compile to a cubin tells them: "0 bytes spill stores, …", "Used 32 registers, …,
/// 400 bytes smem".
inline constexpr const char* kTellResources = "--ptxas-options=-v";
/// Read from such a log; 0 for what it does not tell.
Resources resources_of(std::string_view log);

class Nvrtc {
 public:
  /// Opened on the first call, never closed. Thread-safe. Throws as locate_nvrtc() does, or Error(no_compiler) when the
  /// file cannot be loaded or lacks a function.
  static const Nvrtc& get();

  Nvrtc(const Nvrtc&) = delete;
  Nvrtc& operator=(const Nvrtc&) = delete;

  NvrtcVersion version() const noexcept { return version_; }
  const std::filesystem::path& path() const noexcept { return path_; }
  /// 75, 80, … in increasing order: what this NVRTC compiles for.
  const std::vector<int>& architectures() const noexcept { return architectures_; }

  /// The image: a cubin, or PTX without its final NUL (std::string supplies one). `name` is the file name in messages.
  /// Throws Error(unsupported) for an architecture that is none of them, Error(compile_failed) with NVRTC's log and the
  /// source; `log`, if given, gets what NVRTC says on success. Thread-safe.
  std::string compile(const std::string& source, const std::string& name, const Target& target,
                      const std::vector<std::string>& options, std::string* log = nullptr) const;
  /// With compile_options(target).
  std::string compile(const std::string& source, const std::string& name, const Target& target) const;

 private:
  explicit Nvrtc(const NvrtcLocation& location);
  void check(int result, const char* what) const;

  std::filesystem::path path_;
  abi::Functions functions_;
  NvrtcVersion version_;
  std::vector<int> architectures_;
};

}  // namespace epifuse::jit
