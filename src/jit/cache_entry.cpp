// Packing and checking the header of a cache file. Everything is checked at every load: a file may have been cut short
// by a crash, mangled by a file system, or written by another version. Called by disk_cache.cpp only.
#include "jit/cache_entry.hpp"

#include <array>
#include <cstdint>

#include <spdlog/fmt/fmt.h>

#include "jit/file_fields.hpp"

namespace epifuse::jit {
namespace {

constexpr std::string_view kMagic{"EPIFUSE\x1a", 8};  // ^Z ends `type` on a terminal before the binary part
// Raised when the layout of the header or the meaning of the payload changes; older files are then misses, and removed.
// 2: four bytes of compile time in the payload.
constexpr std::uint32_t kFormatVersion = 2;
// Where the fields begin.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kKeyAt = kVersionAt + 8 + kVersionField;
constexpr std::size_t kSizeAt = kKeyAt + 16;
constexpr std::size_t kChecksumAt = kSizeAt + 8;
static_assert(kChecksumAt + 16 == kEntryHeaderSize);

// All that the checksum covers before the payload.
std::string covered_header(const Digest& key, std::uint64_t payload_size) {
  std::string header(kMagic);
  append_number(header, kFormatVersion, 4);
  append_number(header, kEntryHeaderSize, 4);
  header += version_field();
  append_digest(header, key);
  append_number(header, payload_size, 8);
  return header;
}

}  // namespace

std::string entry_header(const Digest& key, std::string_view payload) {
  std::string header = covered_header(key, payload.size());
  append_digest(header, checksum_of(header, payload));
  return header;
}

const char* to_string(Defect defect) noexcept {
  constexpr std::array kNames = {"good", "damaged", "outdated", "misplaced", "foreign"};
  return kNames[static_cast<std::size_t>(defect)];
}

Defect defect_of(std::string_view file, const Digest& key) {
  if (file.size() < kEntryHeaderSize) return Defect::damaged;
  // The header that belongs here is known to the last bit, so comparing beats parsing: no field of a damaged file is
  // used.
  const std::string expected = covered_header(key, file.size() - kEntryHeaderSize);
  const auto differs = [&](std::size_t at, std::size_t size) {
    return file.substr(at, size) != std::string_view(expected).substr(at, size);
  };
  // The layout of another format is not known, so no more is asked of such a file.
  if (!differs(0, kVersionAt) && differs(kVersionAt, 8)) return Defect::outdated;
  const Digest checksum = checksum_of(file.substr(0, kChecksumAt), file.substr(kEntryHeaderSize));
  if (digest_at(file, kChecksumAt) != checksum || differs(0, kVersionAt) || differs(kSizeAt, kChecksumAt - kSizeAt))
    return Defect::damaged;
  if (differs(kVersionAt, kKeyAt - kVersionAt)) return Defect::outdated;
  return differs(kKeyAt, kSizeAt - kKeyAt) ? Defect::misplaced : Defect::none;
}

std::string why_bad_entry(std::string_view file, const Digest& key) {
  switch (defect_of(file, key)) {
    case Defect::none:
      return {};
    case Defect::outdated:
      return "another version of EpiFuse wrote it";
    case Defect::misplaced:
      return "it is the entry of another kernel";
    default:
      return fmt::format("its {} bytes are not what was written", file.size());
  }
}

}  // namespace epifuse::jit
