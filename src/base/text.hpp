// Small text helpers shared by several components: error sentences, suggestions, environment variables.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include <epifuse/error.hpp>

namespace epifuse::base {

/// throw Error(code, fmt::format(...)) in one line: fail(ErrorCode::io, "cannot open {}", path).
template <class... Args>
[[noreturn]] void fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(code, fmt::format(format, std::forward<Args>(args)...));
}

/// The candidate with the smallest edit distance to `word`, if it is close enough to be a typing error.
std::optional<std::string_view> nearest(std::string_view word, std::span<const std::string_view> candidates);

/// Text of a user for a message: its first 64 bytes, with '?' for all but plain ASCII, so that no message moves a
/// terminal's cursor.
std::string shown(std::string_view text);

/// Without the spaces around it.
std::string_view trim(std::string_view text);

/// An environment variable, empty and unset both as nothing.
std::optional<std::string> environment(const char* name);

/// "1.50 GB": decimal units, as bandwidths use.
std::string format_bytes(double bytes);

}  // namespace epifuse::base
