// The check that stands between a file of the cache directory and the driver. Random bytes never pass a checksum of 128
// bits, so entries are made whole here and then damaged as the input says.
#include "jit/cache_entry.hpp"

#include <string>

#include "fuzz/targets.hpp"

namespace epifuse::fuzz {
namespace {

constexpr std::size_t kKeyBytes = 16;

std::uint64_t number(Bytes bytes) {
  std::uint64_t value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

std::string_view text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

// The input: a key; then how many damages, each a place, what to do there and with which byte; the rest is the file, or
// its payload.
void cache_entry(Bytes bytes) {
  if (bytes.size() < kKeyBytes + 1) return;
  const jit::Digest key{number(bytes.first(8)), number(bytes.subspan(8, 8))};
  std::size_t damages = bytes[kKeyBytes] % 8;
  bytes = bytes.subspan(kKeyBytes + 1);
  const std::string raw(text(bytes));
  if (raw.size() >= jit::kEntryHeaderSize) {
    const std::string payload = raw.substr(jit::kEntryHeaderSize);
    require(jit::why_bad_entry(raw, key).empty() == (raw == jit::entry_header(key, payload) + payload),
            "a file is an entry only if its header is the one of its payload");
  } else {
    require(!jit::why_bad_entry(raw, key).empty(), "what is shorter than a header is no entry");
  }

  const std::size_t used = std::min(bytes.size(), damages * 4);
  const std::string payload(text(bytes.subspan(used)));
  const std::string whole = jit::entry_header(key, payload) + payload;
  require(jit::why_bad_entry(whole, key).empty(), "an entry that was just made is one");
  std::string damaged = whole;
  for (std::size_t i = 0; i + 4 <= used && !damaged.empty(); i += 4) {
    const std::size_t place = number(bytes.subspan(i, 2)) % damaged.size();
    const auto byte = static_cast<char>(bytes[i + 3]);
    switch (bytes[i + 2] % 4) {
      case 0:
        damaged[place] = byte;
        break;
      case 1:
        damaged.resize(place);
        break;
      case 2:
        damaged.insert(place, 1, byte);
        break;
      default:
        damaged.erase(place, 1 + static_cast<unsigned char>(byte) % 64u);
    }
  }
  require(jit::why_bad_entry(damaged, key).empty() == (damaged == whole), "a damaged entry is refused");
  const jit::Digest other{key.low + 1, key.high};
  require(!jit::why_bad_entry(whole, other).empty(), "an entry of another key is refused");
}

}  // namespace epifuse::fuzz
