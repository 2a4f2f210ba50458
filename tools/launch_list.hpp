// A file with a launch a line, for `warm` and `bundle`: what is well-formed of it, and what became of the rest.
#pragma once

#include <functional>
#include <istream>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/epifuse.hpp>

namespace epifuse::tool {

class LaunchList {
 public:
  /// "-" is standard input. Lines that are no launch are told at once, and count as failed. Error for a file that
  /// cannot be read.
  explicit LaunchList(const std::string& path);

  const std::vector<Preparation>& list() const noexcept { return list_; }
  std::size_t count() const noexcept { return list_.size() + refused_; }
  std::size_t failed() const noexcept { return failed_; }

  /// Compiles each launch for each of `targets`, and for the GPU that its own line names. Refuses a launch that is for
  /// none.
  void precompile(Precompiler& precompiler, const std::vector<PlanTarget>& targets, unsigned threads);

  /// Calls `prepare` with what tells of its progress, and says on standard error which lines fail and, on a terminal,
  /// how far it is. `line_of` says which of list() an entry is of. A machine without a compiler ends the work at once.
  using Progress = std::function<void(const PreparationProgress&)>;
  void prepare(const std::function<void(const Progress&)>& prepare,
               const std::function<std::size_t(std::size_t)>& line_of);
  /// Says why the launch at `index` of list() fails. A launch counts once.
  void fail(std::size_t index, const Error& error);
  /// Throws if any failed.
  void check() const;

 private:
  void read(std::istream& file);
  void read_line(std::size_t number, const std::string& line);
  void fail_line(std::size_t number, ErrorCode code, std::string_view what);

  std::string name_;
  std::vector<Preparation> list_;
  std::vector<std::string> chains_;               // of `list_`, as text
  std::vector<std::size_t> lines_;                // of `list_`
  std::vector<std::vector<PlanTarget>> targets_;  // of `list_`: what --arch of the line names
  std::vector<bool> is_failed_;                   // of `list_`
  std::size_t refused_ = 0;                       // lines that are no launch
  std::size_t failed_ = 0;                        // these, and launches that could not be prepared
  ErrorCode worst_ = ErrorCode::invalid_argument;
};

}  // namespace epifuse::tool
