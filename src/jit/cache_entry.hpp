// The bytes of one file of the disk cache: a header and the image. Called by disk_cache.cpp only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "jit/digest.hpp"

namespace epifuse::jit {

/// magic 8, format version 4, header size 4, EpiFuse version 16, key 16, payload size 8, checksum 16: little endian.
inline constexpr std::size_t kEntryHeaderSize = 72;

/// What can be wrong with a file that stands under an entry's name.
enum class Defect : std::uint8_t {
  none,
  damaged,    ///< cut short, lengthened, or bits flipped
  outdated,   ///< of another version of EpiFuse or of the format
  misplaced,  ///< the entry of another key: another kernel, architecture or compiler
  foreign,    ///< not a plain file that the directory's owner alone may write
};

/// "damaged", …: for messages and reports.
const char* to_string(Defect defect) noexcept;

/// What precedes the payload in the file.
std::string entry_header(const Digest& key, std::string_view payload);

/// Of the bytes: `none` when `file` is a whole and undamaged entry of that key (its payload follows the header).
Defect defect_of(std::string_view file, const Digest& key);

/// Empty for a whole and undamaged entry of that key, else what is wrong, as a sentence.
std::string why_bad_entry(std::string_view file, const Digest& key);

}  // namespace epifuse::jit
