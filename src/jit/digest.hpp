// XXH3-128 of things: the name under which an image is cached, and the checksum that guards a cache file.
// Called by jit/ and by whoever keys by content (the engine's kernel table). Not cryptographic, and need not be:
// a cache directory that anybody else may write is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

namespace epifuse::jit {

struct Digest {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const Digest&, const Digest&) = default;
};

/// 32 hexadecimal digits.
std::string to_string(const Digest& digest);

/// Of the fields in order, each with its length: moving a character from one field to the next changes the digest.
Digest digest_of(std::initializer_list<std::string_view> fields);

/// Of two blocks as if they were one.
Digest checksum_of(std::string_view first, std::string_view second);

struct DigestHash {
  std::size_t operator()(const Digest& digest) const noexcept { return static_cast<std::size_t>(digest.low); }
};

}  // namespace epifuse::jit
