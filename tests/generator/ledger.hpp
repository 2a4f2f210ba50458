// What the generator's processes share: the next program, counts, sentences, and which kernels were compiled. Plain
// data in shared memory.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace epifuse::test {

/// Counts of sentences. A sentence beyond the table's end is counted as "others".
class Tally {
 public:
  /// The count before.
  std::uint64_t add(const std::string& sentence);
  std::vector<std::pair<std::string, std::uint64_t>> all() const;

 private:
  static constexpr std::size_t kRows = 400;
  static constexpr std::size_t kText = 240;
  struct Row {
    char text[kText];
    std::uint64_t count;
  };
  std::atomic_flag busy_;
  Row rows_[kRows];
};

/// Hashes of texts: whether one is new.
class Seen {
 public:
  bool is_new(std::uint64_t hash);
  std::uint64_t count() const noexcept { return count_.load(); }

 private:
  static constexpr std::size_t kSlots = std::size_t{1} << 22;  // memory of untouched pages costs nothing
  std::atomic<std::uint64_t> slots_[kSlots];
  std::atomic<std::uint64_t> count_;
};

struct Counts {
  std::atomic<std::uint64_t> drawn, parsed, printed, planned, compiled, ran, emitted;
  std::atomic<std::uint64_t> kernels, full_kernels;  ///< compiled; of those, with the library's options
  std::atomic<std::uint64_t> results, exact;         ///< elements judged on the CPU device
  std::atomic<std::uint64_t> kernel_microseconds, full_microseconds;
};

/// What one process does now: a crash leaves it there.
struct Running {
  std::atomic<std::uint64_t> program;
  std::atomic<int> stage;
};

struct Ledger {
  std::atomic<std::uint64_t> next, stop;
  Counts counts;
  Tally refusals, findings;
  Seen kernels;
  Seen emitted_kinds;  ///< kinds of kernels that ran as emitted text, each under numbers from 0
  Running running[256];

  /// Zero, in memory that children share.
  static Ledger& make();
};

std::uint64_t hash_of(const std::string& text);

}  // namespace epifuse::test
