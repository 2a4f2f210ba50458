// The reader of .npy files, on a file in memory.
#include "npy.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include <epifuse/error.hpp>

#include "fuzz/targets.hpp"

namespace epifuse::fuzz {
namespace {

class MemoryFile {
 public:
  explicit MemoryFile(Bytes bytes) : descriptor_(memfd_create("fuzz.npy", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "a file in memory can be made");
    require(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "and written");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

// A file of that header, which is valid, and no data: parsed back.
tool::NpyHeader reread(const tool::NpyHeader& header) {
  const std::string text = tool::format_npy_header(header.dtype, header.shape, header.column_major);
  const tool::NpyPrelude prelude = tool::parse_npy_prelude(std::string_view(text).substr(0, 12), "again");
  return tool::parse_npy_header(std::string_view(text).substr(prelude.header_at), "again");
}

}  // namespace

void npy(Bytes bytes) {
  const MemoryFile file(bytes);
  try {
    const tool::NpyHeader header = tool::inspect_npy(file.path(), "x");
    const tool::NpyHeader again = reread(header);
    require(again.dtype == header.dtype && again.shape == header.shape && again.column_major == header.column_major &&
                again.data_bytes == header.data_bytes,
            "a header that was read is written and read back as it is");
    const tool::HostTensor tensor = tool::read_npy(file.path(), "x");
    require(tensor.storage().bytes >= header.data_bytes && header.data_bytes < bytes.size(),
            "the data of a tensor fits its memory and comes from the file");
  } catch (const Error& error) {
    require(error.is_bad_input(), "a .npy file is refused as the user's mistake");
  }
}

}  // namespace epifuse::fuzz
