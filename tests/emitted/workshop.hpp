// Runs emitted kernels on the CPU: collects cases, emits and compiles each distinct source once, many to a shared
// object, and executes every case block by block under the sanitizers.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/plan.hpp"
#include "support/case.hpp"
#include "support/host_map.hpp"

namespace epifuse::test {

struct WorkshopReport {
  std::size_t cases = 0;
  std::size_t kernels = 0;
  Coverage coverage;
  std::vector<std::string> failures;  ///< shrunk, at most a few
  std::vector<Case> smallest;         ///< the cases of those failures; fewer if some are of the compiler
  double compile_seconds = 0;
};

class Workshop {
 public:
  void add(Case test, const plan::Machine& machine = {});
  /// Compiles, runs and judges everything that was added, in `threads` threads (0: one per core, at least two).
  /// `before` is told of each case before it runs, from those threads: a kernel may end the process.
  WorkshopReport run(unsigned threads = 0, const std::function<void(const Case&)>& before = {});
  std::size_t kernels() const noexcept { return sources_.size(); }
  /// Those whose source contains `text`.
  std::size_t kernels_with(std::string_view text) const;
  /// How many classes say this in their words.
  std::size_t classes_with(std::string_view text) const;
  /// Sources that differ although the class of the plan and the chain are equal; and classes whose two forms disagree.
  std::size_t ambiguous_classes() const noexcept { return ambiguous_classes_; }

 private:
  struct Source {
    std::string text;
    std::vector<std::size_t> cases;
  };
  std::vector<Case> cases_;
  std::vector<plan::Machine> machines_;  // that they are planned for
  std::vector<Source> sources_;
  std::map<std::string, std::size_t> by_text_;
  std::map<std::string, std::size_t> by_class_;
  std::map<std::string, std::string> by_code_, codes_;
  std::size_t ambiguous_classes_ = 0;
};

/// What a launch asked the L2 cache for.
struct Asked {
  std::string kernel_class;
  std::int64_t blocks;             ///< of the grid
  std::int64_t prefetch_distance;  ///< blocks
  std::size_t bytes;
};

/// One launch on memory that is no case's. Throws std::runtime_error where the text does not compile or the parameters
/// do not fit.
Asked run_emitted(const Epilogue& tail, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
                  std::span<const double> scalars = {}, const plan::Machine& machine = {});

/// A case on its own: judged, and run again, and with the last block first. What is wrong, or nothing; it may be that
/// bits differ from run to run.
std::optional<std::string> run_in_any_order(const Case& test, const plan::Machine& machine);

/// Launches on memory that is no case's, many kernels to one run of the compiler. A problem for each, or nothing.
struct Emitted {
  const Epilogue& tail;
  std::span<const OutputView> outputs;
  std::span<const TensorView> inputs;
};
std::vector<std::optional<std::string>> run_emitted(std::span<const Emitted> launches);

/// One kernel's text, compiled once for several launches.
class CompiledText {
 public:
  explicit CompiledText(const std::string& text);
  struct Grid {
    unsigned blocks, threads, cluster;   ///< cluster: blocks
    shim::When when = shim::When::late;  ///< asynchronous work is done
    unsigned long long dice = 0;         ///< what says the order where that is at random
  };
  /// What went wrong, or nothing.
  std::optional<std::string> run(const Grid& grid, std::span<const std::byte> params) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// Text that was written by hand, with a kernel of the emitted ones' name: what went wrong, or nothing.
std::optional<std::string> run_text(const std::string& text, unsigned blocks, unsigned threads, unsigned cluster,
                                    std::span<const std::byte> params);

}  // namespace epifuse::test
