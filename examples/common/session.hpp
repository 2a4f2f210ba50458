// What all examples do around their two calls: options, the engine and its stream, verification, timing, the report.
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "common/data.hpp"
#include "common/gpu.hpp"
#include "common/report.hpp"
#include "common/verify.hpp"

namespace examples {

/// A library call behind the tail, which takes the tail's results.
struct Consumer {
  std::string what;  ///< in words, for the record
  ef::OutputView z;  ///< what it writes: type and shape; no memory yet
  std::function<void(std::span<const ef::OutputView> in, const ef::OutputView& z)> consume;  ///< enqueues the call
  /// One value of z, recomputed on the host in double precision from the tail's results.
  std::function<double(std::span<const ef::OutputView> in, const ef::Dims& at)> expected;
};

/// A library call and its tail. The session owns the memory that both work on and calls them as often as it needs.
struct Case {
  std::string producer;            ///< in words, for the record
  std::string library;             ///< name and version
  std::string layout;              ///< "NCHW", "NHWC", "row-major"
  ef::OutputView y;                ///< what the producer writes: type, shape, dense strides; no memory yet
  std::vector<ef::DType> results;  ///< types of the tail's results
  /// Strides of the results; empty: one of y's shape has y's strides, and the others are row-major.
  std::vector<ef::Dims> strides = {};
  ef::Epilogue tail;                                     ///< takes operands by position: their order is stated
  std::vector<ef::TensorView> operands;                  ///< of the tail, after y
  ef::Arguments scalars = {};                            ///< of a tail with random numbers
  std::function<void(const ef::OutputView& y)> produce;  ///< enqueues the library call
  std::function<void(const ef::OutputView& y, std::span<const ef::OutputView> out)> finish;  ///< enqueues the tail
  std::function<double(const ef::Dims& at)> expected;  ///< one value of y, recomputed on the host in double precision
  std::optional<Reference> reference = {};             ///< of a tail with reductions
  /// Enqueues producer and tail as one launch, of a tail without reductions; empty: there is none.
  std::function<void(const ef::OutputView& out)> together = {};
  std::optional<Consumer> consumer = {};
};

/// The command line of an example: `--size full|small`, `--json FILE`.
struct Options {
  bool small = false;
  std::filesystem::path json;  ///< empty: no record
};
Options parse_options(int argc, char** argv);

/// What an example does where there is no GPU.
enum class Without {
  refuse,  ///< a Failure with a sentence
  check,   ///< the CPU device computes the small size; results are verified, and nothing is timed
};

class Session {
 public:
  /// Throws Failure with a sentence where there is no GPU and `without` refuses, or a record of times is asked for.
  Session(std::string name, Options options, Without without);

  ef::Engine& engine() noexcept { return engine_; }
  ef::Stream stream() const noexcept { return stream_.get(); }

  /// The size that was asked for on the command line; without a GPU the small one.
  template <typename T>
  const T& pick(const T& full, const T& small) const noexcept {
    return options_.small || !timed_ ? small : full;
  }

  /// For Case::together: launches `layer`, which has the producer and the tail, with these inputs, into what is as
  /// `out`. Empty where this GPU has no one kernel for it; a note says why.
  std::function<void(const ef::OutputView& out)> one_kernel(const ef::Epilogue& layer, const ef::OutputView& out,
                                                            const ef::Arguments& inputs);

  /// Runs all once and verifies their results, then measures producer, tail, copy, pair, the one launch of both, the
  /// consumer and all three in turns, and reports.
  void run(const Case& work);

  /// Prints a remark below the table.
  void note(const std::string& text) const;

  /// 0 if every case was verified.
  int exit_code() const noexcept { return failures_ == 0 ? 0 : 1; }

 private:
  void report(const Record& record);

  std::string name_;
  Options options_;
  bool timed_;  ///< there is a GPU
  Gpu gpu_;
  StreamOwner stream_;
  ef::Engine engine_;
  int rows_ = 0;
  int failures_ = 0;
};

/// The main() of an example: runs `body` and turns exceptions into a sentence on stderr and exit code 1.
int run_example(const std::string& name, int argc, char** argv, const std::function<void(Session&)>& body,
                Without without = Without::refuse);

}  // namespace examples
