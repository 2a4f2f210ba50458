// Writing and reading bundles. Everything is checked before it is used: the index when a bundle is opened, an image
// when it is loaded. A file that is cut short or written over while it is open is found out then: it is read, and not
// mapped.
#include "jit/bundle.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "base/text.hpp"
#include "jit/file_fields.hpp"

namespace epifuse::jit {
namespace {

constexpr std::string_view kBundleMagic{"EPIBNDL\x1a", 8};
// Raised when the layout or the meaning of a field changes; bundles of other formats are refused.
constexpr std::uint32_t kBundleFormatVersion = 1;
constexpr std::size_t kBundleFormatAt = 8;
constexpr std::size_t kBundleVersionAt = 16;
constexpr std::size_t kBundleCountAt = kBundleVersionAt + kVersionField;
constexpr std::size_t kBundleIndexAt = kBundleCountAt + 8;
constexpr std::size_t kBundleBytesAt = kBundleIndexAt + 8;
constexpr std::size_t kBundleChecksumAt = kBundleBytesAt + 8;
static_assert(kBundleChecksumAt + 16 == kBundleHeaderSize);
// Texts of a million kernels; keeps a foreign file of terabytes from being read into memory.
constexpr std::uint64_t kLargestIndex = 1ULL << 30;

bool comes_before(const Digest& a, const Digest& b) { return a.high != b.high ? a.high < b.high : a.low < b.low; }

// Of the header of another version, for the message.
std::string version_in(std::string_view header) {
  const std::string_view field = header.substr(kBundleVersionAt, kVersionField);
  return base::shown(field.substr(0, field.find('\0')));
}

}  // namespace

Digest bundle_key(std::string_view identity, const Target& target) {
  std::string options;
  for (const std::string& option : compile_options(target)) options += option + ' ';
  return digest_of({identity, to_string(target), options, EPIFUSE_VERSION});
}

// ---- writing

std::string write_bundle(std::vector<BundleEntry> entries) {
  std::ranges::stable_sort(entries, comes_before, &BundleEntry::key);
  // Not std::ranges::unique: clang 14 cannot read libstdc++'s.
  const auto is_same = [](const BundleEntry& a, const BundleEntry& b) { return a.key == b.key; };
  entries.erase(std::unique(entries.begin(), entries.end(), is_same), entries.end());

  std::uint64_t index_bytes = entries.size() * kBundleRecordSize;
  for (const BundleEntry& entry : entries) index_bytes += entry.chain.size() + entry.kernel_class.size();
  std::uint64_t offset = kBundleHeaderSize + index_bytes;
  std::string index;
  index.reserve(index_bytes);
  for (const BundleEntry& entry : entries) {
    append_digest(index, entry.key);
    append_digest(index, checksum_of(entry.image, {}));
    append_number(index, offset, 8);
    append_number(index, entry.image.size(), 8);
    append_number(index, static_cast<std::uint64_t>(entry.target.kind), 2);
    append_number(index, static_cast<std::uint64_t>(entry.target.architecture), 2);
    append_number(index, 0, 4);
    append_number(index, entry.chain.size(), 4);
    append_number(index, entry.kernel_class.size(), 4);
    offset += entry.image.size();
  }
  for (const BundleEntry& entry : entries) index += entry.chain + entry.kernel_class;

  std::string bytes(kBundleMagic);
  append_number(bytes, kBundleFormatVersion, 4);
  append_number(bytes, kBundleHeaderSize, 4);
  bytes += version_field();
  append_number(bytes, entries.size(), 8);
  append_number(bytes, index_bytes, 8);
  append_number(bytes, offset, 8);
  append_digest(bytes, checksum_of(bytes, index));
  bytes.reserve(offset);
  bytes += index;
  for (const BundleEntry& entry : entries) bytes += entry.image;
  return bytes;
}

// ---- reading

struct Bundle::Record {
  Digest key;
  Digest checksum;
  std::uint64_t offset;
  std::uint64_t size;
  Target target;
  unsigned kind;
  std::uint64_t chain_bytes;
  std::uint64_t class_bytes;
};

void Bundle::refuse(const std::string& why) const { base::fail(ErrorCode::io, "the bundle '{}' {}", name_, why); }

Bundle Bundle::open(const std::filesystem::path& file) {
  Bundle bundle;
  bundle.name_ = file.string();
  // O_NONBLOCK: opening must not wait, should the name be a pipe.
  bundle.file_ = FileDescriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!bundle.file_) bundle.refuse("cannot be opened: " + error_text(errno));
  struct stat status {};
  if (::fstat(bundle.file_.get(), &status) != 0) bundle.refuse("cannot be read: " + error_text(errno));
  if (!S_ISREG(status.st_mode)) bundle.refuse("is not a file; expected one that `epifuse bundle` wrote");
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    bundle.refuse(
        fmt::format("may be written by others than its owner (mode {:o}), who could run code in this process; take "
                    "that from them: chmod go-w",
                    status.st_mode & 07777U));
  }
  bundle.bytes_ = static_cast<std::uint64_t>(status.st_size);
  bundle.read_index();
  return bundle;
}

Bundle Bundle::of_memory(std::span<const std::byte> bytes, std::string name) {
  Bundle bundle;
  bundle.name_ = std::move(name);
  bundle.memory_ = bytes;
  bundle.bytes_ = bytes.size();
  bundle.read_index();
  return bundle;
}

// False where there are not as many bytes as `bytes` is long, or reading fails.
bool Bundle::read(std::uint64_t offset, std::string& bytes) const {
  if (offset > bytes_ || bytes.size() > bytes_ - offset) return false;
  if (!file_) {
    std::memcpy(bytes.data(), memory_.data() + offset, bytes.size());
    return true;
  }
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(file_.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

void Bundle::read_index() {
  const std::string mended = "; make it anew with `epifuse bundle`";
  if (bytes_ == 0) refuse("is empty" + mended);
  std::string header(kBundleHeaderSize, '\0');
  if (bytes_ < kBundleMagic.size() || !read(0, header)) {
    std::string start(std::min<std::uint64_t>(bytes_, kBundleMagic.size()), '\0');
    const bool ours = read(0, start) && kBundleMagic.starts_with(start);
    refuse(ours ? "is cut short" + mended : "is no bundle; expected a file that `epifuse bundle` wrote");
  }
  const std::string_view view = header;
  if (!view.starts_with(kBundleMagic)) refuse("is no bundle; expected a file that `epifuse bundle` wrote");
  // The layout of another format is not known, so no more than the version is read of such a file.
  if (number_at(view, kBundleFormatAt, 4) != kBundleFormatVersion ||
      number_at(view, kBundleFormatAt + 4, 4) != kBundleHeaderSize ||
      view.substr(kBundleVersionAt, kVersionField) != version_field()) {
    refuse(fmt::format("is of version {} of EpiFuse (format {}), this is {} (format {}){}", version_in(view),
                       number_at(view, kBundleFormatAt, 4), EPIFUSE_VERSION, kBundleFormatVersion, mended));
  }
  const std::string damaged = "is damaged: its index is not what was written" + mended;
  const std::uint64_t count = number_at(view, kBundleCountAt, 8);
  const std::uint64_t index_bytes = number_at(view, kBundleIndexAt, 8);
  if (number_at(view, kBundleBytesAt, 8) != bytes_) {
    refuse(fmt::format("has {} bytes, but {} were written{}", bytes_, number_at(view, kBundleBytesAt, 8), mended));
  }
  if (index_bytes > std::min(kLargestIndex, bytes_ - kBundleHeaderSize) || count > index_bytes / kBundleRecordSize)
    refuse(damaged);
  index_.resize(index_bytes);
  if (!read(kBundleHeaderSize, index_)) refuse(damaged);
  if (digest_at(view, kBundleChecksumAt) != checksum_of(view.substr(0, kBundleChecksumAt), index_)) refuse(damaged);
  // A checksum finds accidents; whoever forges one gets no further than this: every record within its bounds, and no
  // key twice.
  count_ = count;
  std::uint64_t text = count * kBundleRecordSize;
  std::uint64_t offset = kBundleHeaderSize + index_bytes;
  texts_.reserve(count_);
  for (std::size_t i = 0; i < count_; ++i) {
    const Record record = this->record(i);
    texts_.push_back(text);
    text += record.chain_bytes + record.class_bytes;
    const bool fits = text <= index_bytes && record.offset == offset && record.size <= bytes_ - offset;
    if (!fits || record.kind > 1 || (i > 0 && !comes_before(this->record(i - 1).key, record.key))) refuse(damaged);
    offset += record.size;
  }
  if (text != index_bytes || offset != bytes_) refuse(damaged);
}

Bundle::Record Bundle::record(std::size_t i) const {
  const std::string_view bytes = std::string_view(index_).substr(i * kBundleRecordSize, kBundleRecordSize);
  const auto kind = static_cast<unsigned>(number_at(bytes, 48, 2));
  return {.key = digest_at(bytes, 0),
          .checksum = digest_at(bytes, 16),
          .offset = number_at(bytes, 32, 8),
          .size = number_at(bytes, 40, 8),
          .target = {static_cast<int>(number_at(bytes, 50, 2)), kind == 0 ? ImageKind::cubin : ImageKind::ptx},
          .kind = kind,
          .chain_bytes = number_at(bytes, 56, 4),
          .class_bytes = number_at(bytes, 60, 4)};
}

std::vector<int> Bundle::architectures() const {
  std::set<int> found;
  for (std::size_t i = 0; i < count_; ++i) found.insert(record(i).target.architecture);
  return {found.begin(), found.end()};
}

Bundle::Listed Bundle::entry(std::size_t i) const {
  const Record found = record(i);
  const std::string_view texts = std::string_view(index_).substr(texts_[i], found.chain_bytes + found.class_bytes);
  return {found.key, found.target, texts.substr(0, found.chain_bytes), texts.substr(found.chain_bytes), found.size};
}

Bundle::Found Bundle::image(std::size_t i) const {
  const Record found = record(i);
  Found result{found.target, std::string(found.size, '\0'), {}};
  if (read(found.offset, result.image) && checksum_of(result.image, {}) == found.checksum) return result;
  result.image.clear();
  result.problem = fmt::format("its {} bytes are not what was written", found.size);
  return result;
}

std::optional<Bundle::Found> Bundle::load(const Digest& key) const {
  std::size_t first = 0;
  for (std::size_t count = count_; count > 0;) {
    const std::size_t half = count / 2;
    const Digest middle = record(first + half).key;
    if (middle == key) return image(first + half);
    const bool behind = comes_before(middle, key);
    first += behind ? half + 1 : 0;
    count = behind ? count - half - 1 : half;
  }
  return std::nullopt;
}

}  // namespace epifuse::jit
