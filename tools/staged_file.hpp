// A file that appears whole or not at all: written beside its target and renamed over it. A failed run leaves nothing.
#pragma once

#include <filesystem>
#include <string_view>

namespace epifuse::tool {

/// The name of standard input and output in the place of a file.
inline constexpr std::string_view kStandardStream = "-";

/// Error(invalid_argument) if `path` cannot be a file at all: its folder does not exist, or it is a folder itself. So
/// is standard output if it is a terminal.
void check_target(const std::filesystem::path& path);

class StagedFile {
 public:
  /// Error(io) if the file cannot be made. A device, a pipe and standard output (`-`) are written to directly. `mode`
  /// less the umask is the file's.
  explicit StagedFile(const std::filesystem::path& path, unsigned mode = 0666);
  StagedFile(StagedFile&& other) noexcept;
  StagedFile& operator=(StagedFile&&) = delete;
  /// Removes what was not committed.
  ~StagedFile();

  void write(std::string_view bytes);
  /// The file now has its name.
  void commit();

 private:
  [[noreturn]] void fail_write() const;

  std::filesystem::path path_;       // the target, links resolved
  std::filesystem::path temporary_;  // empty if written to directly or committed
  int descriptor_ = -1;
};

}  // namespace epifuse::tool
