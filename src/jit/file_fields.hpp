// Fields of the files that jit/ writes: numbers, lowest byte first, and digests. For cache_entry.cpp and bundle.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "jit/digest.hpp"

namespace epifuse::jit {

/// EpiFuse's version in a header, filled up with zeros.
inline constexpr std::size_t kVersionField = 16;

inline void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

/// The number of `size` bytes at a place that `bytes` has.
inline std::uint64_t number_at(std::string_view bytes, std::size_t at, int size) {
  std::uint64_t value = 0;
  for (int i = 0; i < size; ++i)
    value |= std::uint64_t{static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)])} << (8 * i);
  return value;
}

inline void append_digest(std::string& out, const Digest& digest) {
  append_number(out, digest.high, 8);
  append_number(out, digest.low, 8);
}

inline Digest digest_at(std::string_view bytes, std::size_t at) {
  return {number_at(bytes, at, 8), number_at(bytes, at + 8, 8)};
}

inline std::string version_field() {
  std::string version = EPIFUSE_VERSION;
  version.resize(kVersionField, '\0');
  return version;
}

}  // namespace epifuse::jit
