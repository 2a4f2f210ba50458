// The bytes of one file of the disk cache: a header and the image. Called by disk_cache.cpp only.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "jit/digest.hpp"

namespace epifuse::jit {

/// magic 8, format version 4, header size 4, EpiFuse version 16, key 16, payload size 8, checksum 16: little endian.
inline constexpr std::size_t kEntryHeaderSize = 72;

/// What precedes the payload in the file.
std::string entry_header(const Digest& key, std::string_view payload);

/// Empty when `file` is a whole and undamaged entry of that key (its payload follows the header), else what is wrong.
std::string why_bad_entry(std::string_view file, const Digest& key);

}  // namespace epifuse::jit
