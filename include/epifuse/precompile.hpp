// Kernels ahead of time, for GPUs that need not be here: into the disk cache, and into bundles (docs/guide/bundles.md).
// `epifuse bundle` and `epifuse warm --arch` are made of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <epifuse/engine.hpp>
#include <epifuse/inspect.hpp>

namespace epifuse {

/// A launch to come, on a GPU of that kind. The views' memory need not be: addresses tell alignments, and null is
/// aligned.
struct PrecompiledLaunch {
  Preparation launch;
  PlanTarget target;
};

/// Counters since the object was made.
struct PrecompilerStats {
  std::uint64_t kernels = 0;    ///< distinct ones: many launches may share a kernel
  std::uint64_t compiles = 0;   ///< of these, compiled by NVRTC
  std::uint64_t disk_hits = 0;  ///< of these, found in the disk cache
  double compile_ms = 0;        ///< time spent in NVRTC
};

/// Thread-safe. Needs NVRTC, and no GPU.
class Precompiler {
 public:
  /// Of the options those of the disk cache count: what is compiled is stored there, as engines on such GPUs would.
  explicit Precompiler(const EngineOptions& options = {});
  ~Precompiler();
  Precompiler(const Precompiler&) = delete;
  Precompiler& operator=(const Precompiler&) = delete;

  /// Compiles the kernels that such launches would use; as Engine::prepare does it with a list. Error(unsupported) for
  /// a target that this NVRTC does not compile for.
  void prepare(std::span<const PrecompiledLaunch> list,
               const std::function<void(const PreparationProgress&)>& progress = {}, unsigned threads = 0);

  PrecompilerStats stats() const noexcept;

  /// All kernels that were prepared, as the bytes of a bundle: the same for the same kernels, whatever their order was.
  std::string bundle() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One kernel of a bundle.
struct BundledKernel {
  int architecture = 0;      ///< 90 for sm_90
  std::string chain;         ///< as text
  std::string kernel_class;  ///< as in PlanSummary
  std::string key;           ///< 32 hexadecimal digits, of source, target and version
  std::uint64_t bytes = 0;   ///< of its image
  std::string problem;       ///< what is wrong with its image, a sentence; empty if nothing is
};

/// What is inside, every image checked. Throws Error(io) for what is no bundle that this version of EpiFuse can use.
std::vector<BundledKernel> list_bundle(const Bundle& bundle);

}  // namespace epifuse
