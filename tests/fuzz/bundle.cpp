// The checks between a bundle, in memory or in a file, and the driver. Random bytes never pass a checksum of 128 bits,
// so bundles are made whole here and then damaged as the input says; some get a checksum that fits the damage, so that
// what lies behind it is met.
#include "jit/bundle.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <epifuse/error.hpp>

#include "fuzz/targets.hpp"

namespace epifuse::fuzz {
namespace {

using jit::Bundle;

// A damaged bundle is read from memory of exactly its size, so that the sanitizers see a byte beyond it. Nothing where
// it is refused.
std::optional<std::vector<std::string>> images_of(const std::vector<char>& file) {
  try {
    const Bundle bundle = Bundle::of_memory(std::as_bytes(std::span(file)), "fuzzed");
    std::vector<std::string> images;
    std::size_t texts = 0;
    for (std::size_t i = 0; i < bundle.size(); ++i) {
      const Bundle::Listed entry = bundle.entry(i);
      texts += entry.chain.size() + entry.kernel_class.size();
      const Bundle::Found found = bundle.image(i);
      require(found.problem.empty() || found.image.empty(), "an image that is not what was written is not given out");
      const auto same = bundle.load(entry.key);
      require(same && same->image == found.image, "a kernel is found by its key");
      images.push_back(found.image);
    }
    require(texts <= file.size(), "texts are those of the file");
    return images;
  } catch (const Error& error) {
    require(error.code() == ErrorCode::io && std::string_view(error.what()).size() > 20, "a refusal is a sentence");
    return std::nullopt;
  }
}

std::uint8_t take(Bytes& bytes) {
  if (bytes.empty()) return 0;
  const std::uint8_t byte = bytes.front();
  bytes = bytes.subspan(1);
  return byte;
}

std::string text(Bytes& bytes, std::size_t size) {
  std::string taken;
  for (size = std::min(size, bytes.size()); size > 0; --size) taken.push_back(static_cast<char>(take(bytes)));
  return taken;
}

void mend_checksum(std::string& file) {
  constexpr std::size_t kChecksumAt = jit::kBundleHeaderSize - 16;
  constexpr std::size_t kIndexBytesAt = 40;
  if (file.size() < jit::kBundleHeaderSize) return;
  std::uint64_t index = 0;
  for (std::size_t i = 8; i-- > 0;) index = index << 8 | static_cast<unsigned char>(file[kIndexBytesAt + i]);
  index = std::min<std::uint64_t>(index, file.size() - jit::kBundleHeaderSize);
  const std::string_view view = file;
  const jit::Digest checksum =
      jit::checksum_of(view.substr(0, kChecksumAt), view.substr(jit::kBundleHeaderSize, index));
  for (std::size_t i = 0; i < 8; ++i) {
    file[kChecksumAt + i] = static_cast<char>(checksum.high >> 8 * i & 0xff);
    file[kChecksumAt + 8 + i] = static_cast<char>(checksum.low >> 8 * i & 0xff);
  }
}

}  // namespace

// The input: how many entries; of each the key, the architecture and the lengths of its texts and image, then these;
// how many damages, each a place, what to do there and with which byte. All of it is also tried as a file.
void bundle(Bytes bytes) {
  images_of({bytes.begin(), bytes.end()});

  std::vector<jit::BundleEntry> entries(take(bytes) % 5);
  for (jit::BundleEntry& entry : entries) {
    entry.key = {take(bytes), take(bytes)};
    entry.target = {take(bytes), jit::ImageKind::cubin};
    entry.chain = text(bytes, take(bytes) % 32);
    entry.kernel_class = text(bytes, take(bytes) % 16);
    entry.image = text(bytes, take(bytes));
  }
  const std::string whole = jit::write_bundle(entries);
  std::ranges::reverse(entries);
  const auto images = images_of({whole.begin(), whole.end()});
  require(images.has_value(), "a bundle that was just made is one");
  for (const std::string& image : *images) {
    require(std::ranges::find(entries, image, &jit::BundleEntry::image) != entries.end(), "images are those given");
  }

  const unsigned damages = take(bytes) % 8;
  const bool mends = damages % 2 == 1;
  std::string damaged = whole;
  for (unsigned i = 0; i < damages && !damaged.empty(); ++i) {
    const std::size_t place = (std::size_t{take(bytes)} << 8 | take(bytes)) % damaged.size();
    const unsigned what = take(bytes) % 4;
    const auto byte = static_cast<char>(take(bytes));
    if (what == 0) damaged[place] = byte;
    if (what == 1) damaged.resize(place);
    if (what == 2) damaged.insert(place, 1, byte);
    if (what == 3) damaged.erase(place, 1 + static_cast<unsigned char>(byte) % 64U);
  }
  if (mends) mend_checksum(damaged);
  const auto left = images_of({damaged.begin(), damaged.end()});
  if (mends || !left) return;
  require(left->size() == images->size(), "a bundle with another index is refused");
  for (std::size_t i = 0; i < left->size(); ++i)
    require((*left)[i].empty() || (*left)[i] == (*images)[i], "a damaged image is refused");
}

}  // namespace epifuse::fuzz
