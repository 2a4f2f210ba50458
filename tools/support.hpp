// Helpers that every file of the command uses: errors in one line, a cursor for small grammars, work on all cores.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include <epifuse/error.hpp>

namespace epifuse::tool {

template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The user's input is at fault: exit code 2.
template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw Error(ErrorCode::invalid_argument, fmt::format(format, std::forward<Args>(args)...));
}

/// Reads a small grammar from left to right. Nothing is copied and nothing throws.
class Cursor {
 public:
  explicit Cursor(std::string_view text) noexcept : text_(text) {}

  bool done() const noexcept { return at_ == text_.size(); }
  std::size_t position() const noexcept { return at_; }
  std::string_view rest() const noexcept { return text_.substr(at_); }
  char peek() const noexcept { return done() ? '\0' : text_[at_]; }

  bool accept(char c) noexcept {
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_spaces() noexcept {
    while (!done() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }
  /// Letters, digits and '_', not starting with a digit; empty if there is none here.
  std::string_view word() noexcept {
    const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    std::size_t end = at_;
    while (end < text_.size() && (is_letter(text_[end]) || (end > at_ && is_digit(text_[end])))) ++end;
    return text_.substr(std::exchange(at_, end), end - at_);
  }
  /// A decimal integer with an optional '-'; nothing if there is none here or it does not fit 64 bits.
  std::optional<std::int64_t> integer() noexcept {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (status != std::errc()) return std::nullopt;
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// The whole text as a number ("2", "-1e-3", "+inf", "nan"), or nothing.
inline std::optional<double> parse_number(std::string_view text) noexcept {
  if (text.starts_with("+-") || text.find('(') != text.npos) return std::nullopt;  // "nan(0)" is C's
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// body(first, last) over pieces of [0, count) on all cores. Pieces start at multiples of `grain`. `body` must not
/// throw.
template <class Body>
void parallel_pieces(std::uint64_t count, std::uint64_t grain, const Body& body) {
  const std::uint64_t grains = (count + grain - 1) / grain;
  const std::uint64_t threads =
      std::clamp<std::uint64_t>(std::thread::hardware_concurrency(), 1, std::max<std::uint64_t>(grains, 1));
  const std::uint64_t piece = (grains + threads - 1) / threads * grain;
  std::vector<std::jthread> workers;
  for (std::uint64_t first = piece; first < count; first += piece) {
    workers.emplace_back([&body, first, last = std::min(first + piece, count)] { body(first, last); });
  }
  body(std::uint64_t{0}, std::min(piece, count));
}

}  // namespace epifuse::tool
