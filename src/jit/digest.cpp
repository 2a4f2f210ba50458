// XXH3-128, compiled into this one file (header-only use: nothing to link, no symbols of xxHash in ours).
// Called by jit/ through digest.hpp.
#include "jit/digest.hpp"

#include <spdlog/fmt/fmt.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace epifuse::jit {
namespace {

// On the stack: the state is 576 bytes with an alignment that plain new does not promise.
class Hasher {
 public:
  Hasher() { XXH3_128bits_reset(&state_); }
  void add(const void* data, std::size_t size) { XXH3_128bits_update(&state_, data, size); }
  Digest finish() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.high64, hash.low64};
  }

 private:
  XXH3_state_t state_{};
};

}  // namespace

std::string to_string(const Digest& digest) { return fmt::format("{:016x}{:016x}", digest.high, digest.low); }

Digest digest_of(std::initializer_list<std::string_view> fields) {
  Hasher hasher;
  for (const std::string_view field : fields) {
    const std::uint64_t size = field.size();
    hasher.add(&size, sizeof size);
    hasher.add(field.data(), field.size());
  }
  return hasher.finish();
}

Digest checksum_of(std::string_view first, std::string_view second) {
  Hasher hasher;
  hasher.add(first.data(), first.size());
  hasher.add(second.data(), second.size());
  return hasher.finish();
}

}  // namespace epifuse::jit
