// Packing and checking the header of a cache file. Everything is checked at every load: a file may have been cut short
// by a crash, mangled by a file system, or written by another version. Called by disk_cache.cpp only.
#include "jit/cache_entry.hpp"

#include <cstdint>

#include <spdlog/fmt/fmt.h>

namespace epifuse::jit {
namespace {

constexpr std::string_view kMagic{"EPIFUSE\x1a", 8};  // ^Z ends `type` on a terminal before the binary part
// Raised when the layout of the header or the meaning of the payload changes; older files are then misses, and removed.
constexpr std::uint32_t kFormatVersion = 1;
constexpr std::size_t kVersionField = 16;
constexpr std::size_t kChecksumAt = kEntryHeaderSize - 16;

void append_number(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
}

// All that the checksum covers before the payload.
std::string covered_header(const Digest& key, std::uint64_t payload_size) {
  std::string header(kMagic);
  append_number(header, kFormatVersion, 4);
  append_number(header, kEntryHeaderSize, 4);
  std::string version = EPIFUSE_VERSION;
  version.resize(kVersionField, '\0');
  header += version;
  append_number(header, key.high, 8);
  append_number(header, key.low, 8);
  append_number(header, payload_size, 8);
  return header;
}

std::string pack(const Digest& checksum) {
  std::string bytes;
  append_number(bytes, checksum.high, 8);
  append_number(bytes, checksum.low, 8);
  return bytes;
}

}  // namespace

std::string entry_header(const Digest& key, std::string_view payload) {
  std::string header = covered_header(key, payload.size());
  header += pack(checksum_of(header, payload));
  return header;
}

std::string why_bad_entry(std::string_view file, const Digest& key) {
  if (file.size() < kEntryHeaderSize) return fmt::format("it has {} bytes, fewer than a header", file.size());
  const std::string_view payload = file.substr(kEntryHeaderSize);
  // The header that belongs here is known to the last bit, so comparing beats parsing: no field of a damaged file is
  // used.
  const std::string expected = covered_header(key, payload.size());
  if (file.substr(0, kChecksumAt) != expected) return "its header is not that of a whole entry of this version and key";
  if (file.substr(kChecksumAt, 16) != pack(checksum_of(expected, payload))) return "its checksum does not match";
  return {};
}

}  // namespace epifuse::jit
