// The drivers that the benchmarks run against without a GPU: one that does nothing, and one whose launch does to the
// processor's caches and branch predictor what a real driver's does, as it runs code and touches memory that have
// nothing to do with EpiFuse.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/quiet_driver.hpp"

namespace bench {

constexpr std::size_t kLine = 64;

/// A function of one cache line, with a branch that depends on data. There are many.
template <std::size_t I>
[[gnu::noinline, gnu::aligned(kLine)]] std::uint32_t line_of_code(std::uint32_t x) noexcept {
  if ((x >> I % 13 & 1U) != 0) {
    asm volatile("");  // else the compiler would select without a branch
    x += static_cast<std::uint32_t>(I) * 0x9e3779b9U;
  }
  return x ^ x >> 7 ^ static_cast<std::uint32_t>(I);
}

constexpr std::size_t kCodeLines = 2048;
using LineOfCode = std::uint32_t (*)(std::uint32_t) noexcept;
template <std::size_t... I>
constexpr std::array<LineOfCode, sizeof...(I)> lines_of_code(std::index_sequence<I...> /*numbers*/) {
  return {&line_of_code<I>...};
}
inline constexpr auto kLinesOfCode = lines_of_code(std::make_index_sequence<kCodeLines>());

/// Runs lines of code in a row, from `first` on, and reads and writes lines of data.
class Work {
 public:
  explicit Work(std::size_t data_bytes) : data_(data_bytes) {}
  void code(std::size_t first, std::size_t lines) noexcept {
    std::uint32_t state = 1;  // the same each time, so that branches can be predicted
    for (std::size_t i = 0; i < lines; ++i) state = kLinesOfCode[(first + i) % kCodeLines](state);
    state_ += state;
  }
  /// Goes on where the last call ended: they are cold if there are many more of them.
  void data(std::size_t lines) noexcept {
    for (std::size_t i = 0; i < lines; ++i) ++data_[next_++ * kLine % data_.size()];
  }
  /// A chain of arithmetic that needs neither code nor data.
  void arithmetic(std::size_t steps) noexcept {
    for (std::size_t i = 0; i < steps; ++i) state_ = state_ * 0x9e3779b9U + 1;
  }

 private:
  std::vector<std::uint8_t> data_;
  std::size_t next_ = 0;
  std::uint32_t state_ = 1;
};

/// For "stub" and "busy"; any other device has its own driver.
class StubDriver {
 public:
  explicit StubDriver(const std::string& device) {
    if (device == "stub" || device == "busy") quiet_.emplace();
    if (device != "busy") return;
    quiet_launch_ = epifuse::runtime::driver().launch_kernel;
    busy_ = epifuse::runtime::driver();
    busy_.launch_kernel = [](epifuse::runtime::FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
                             unsigned bx, unsigned by, unsigned bz, unsigned shared,
                             epifuse::runtime::StreamHandle stream, void** p, void** extra) {
      static thread_local Work work(kDataBytes);
      work.code(0, kLaunchCodeLines);
      work.data(kLaunchDataLines);
      return quiet_launch_(function, gx, gy, gz, bx, by, bz, shared, stream, p, extra);
    };
    epifuse::runtime::set_driver_for_testing(&busy_);
  }

 private:
  // Enough to leave neither code nor data in the first level of the caches.
  static constexpr std::size_t kLaunchCodeLines = 800;
  static constexpr std::size_t kLaunchDataLines = 1500;
  static constexpr std::size_t kDataBytes = std::size_t{512} << 10;
  static inline decltype(epifuse::runtime::DriverApi::launch_kernel) quiet_launch_ = nullptr;
  std::optional<epifuse::runtime::QuietDriver> quiet_;
  epifuse::runtime::DriverApi busy_;
};

}  // namespace bench
