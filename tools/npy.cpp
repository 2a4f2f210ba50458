// Reading .npy files; npy_writer.cpp writes them.
#include "npy.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

#include "support.hpp"

namespace epifuse::tool {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are written as they lie in memory");

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// Standard input, kept in memory: its header is read long before its data, and a pipe cannot be read twice.
int kept_input() {
  const int kept = memfd_create("epifuse-input", MFD_CLOEXEC);
  std::array<char, 1 << 16> piece{};
  while (kept >= 0) {
    const ssize_t got = ::read(STDIN_FILENO, piece.data(), piece.size());
    if (got == 0) break;
    if (got < 0 && errno == EINTR) continue;
    if (got > 0 && write_all(kept, {piece.data(), static_cast<std::size_t>(got)})) continue;
    const int problem = errno;
    close(kept);
    errno = problem;
    return -1;
  }
  return kept;
}

int open_input(const std::filesystem::path& path) {
  if (path != kStandardStream) return open(path.c_str(), O_RDONLY | O_CLOEXEC);
  static const int kept = kept_input();
  return kept < 0 ? -1 : fcntl(kept, F_DUPFD_CLOEXEC, 0);
}

class InputFile {
 public:
  InputFile(const std::filesystem::path& path, std::string_view operand)
      : who_(fmt::format("operand '{}': {}", operand,
                         path == kStandardStream ? std::string("standard input") : path.string())),
        descriptor_(open_input(path)) {
    if (descriptor_ < 0) refuse("{}: cannot be opened: {}", who_, std::strerror(errno));
    struct stat status {};
    if (fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(descriptor_);
      refuse("{}: is no regular file; expected a .npy file", who_);
    }
    bytes_ = static_cast<std::uint64_t>(status.st_size);
  }
  ~InputFile() { close(descriptor_); }
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& who() const noexcept { return who_; }
  std::uint64_t bytes() const noexcept { return bytes_; }

  /// Reads up to `size` bytes from `at`; fewer only at the end of the file.
  std::size_t read(void* to, std::size_t size, std::uint64_t at) const {
    std::size_t done = 0;
    while (done < size) {
      const auto got = pread(descriptor_, static_cast<char*>(to) + done, size - done, static_cast<off_t>(at + done));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) refuse("{}: cannot be read: {}", who_, std::strerror(errno));
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
  std::string read_text(std::size_t size, std::uint64_t at) const {
    std::string text(size, '\0');
    text.resize(read(text.data(), size, at));
    return text;
  }

 private:
  std::string who_;
  int descriptor_;
  std::uint64_t bytes_ = 0;
};

struct Located {
  NpyHeader header;
  std::uint64_t data_at = 0;
};

Located locate(const InputFile& file) {
  const NpyPrelude prelude = parse_npy_prelude(file.read_text(kNpyPreludeBytes, 0), file.who());
  const std::string text = file.read_text(prelude.header_bytes, prelude.header_at);
  if (text.size() < prelude.header_bytes) {
    refuse("{}: ends after {} bytes, inside the .npy header of {} bytes", file.who(), file.bytes(),
           prelude.header_bytes);
  }
  Located located{parse_npy_header(text, file.who()), prelude.header_at + prelude.header_bytes};
  const std::uint64_t found = file.bytes() - std::min(file.bytes(), located.data_at);
  if (found != located.header.data_bytes) {
    refuse("{}: has {} bytes of data; expected {} for {} {}", file.who(), found, located.header.data_bytes,
           to_string(located.header.dtype), to_string(located.header.shape));
  }
  return located;
}

void swap_bytes(std::byte* data, std::uint64_t bytes, std::size_t size) {
  parallel_pieces(bytes / size, 1 << 16, [=](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t i = first; i < last; ++i) std::reverse(data + i * size, data + (i + 1) * size);
  });
}

}  // namespace

NpyHeader inspect_npy(const std::filesystem::path& path, std::string_view operand) {
  return locate(InputFile(path, operand)).header;
}

TensorInfo npy_tensor_info(const NpyHeader& header, std::string_view operand) {
  TensorInfo info{std::string(operand), header.dtype, header.shape, row_major(header.shape), 0};
  std::uint64_t step = 1;  // unsigned: beside an extent of 0 the others may be anything
  for (int i = 0; header.column_major && i < header.shape.size(); ++i) {
    info.strides[i] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(header.shape[i], 1));
  }
  return info;
}

HostTensor read_npy(const std::filesystem::path& path, std::string_view operand) {
  const InputFile file(path, operand);
  const auto [header, data_at] = locate(file);
  HostTensor tensor = HostTensor::uninitialised(npy_tensor_info(header, operand));
  if (file.read(tensor.memory(), header.data_bytes, data_at) != header.data_bytes) {
    refuse("{}: became shorter while it was read", file.who());
  }
  if (header.big_endian) swap_bytes(tensor.memory(), header.data_bytes, size_of(header.dtype));
  return tensor;
}

}  // namespace epifuse::tool
