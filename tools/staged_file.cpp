// Temporary file, write, rename.
#include "staged_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "support.hpp"

namespace epifuse::tool {
namespace {

namespace fs = std::filesystem;

// Linux writes at most 2 GiB a call.
constexpr std::size_t kMostPerWrite = std::size_t{1} << 30;

fs::path folder_of(const fs::path& path) { return path.has_parent_path() ? path.parent_path() : fs::path("."); }

// mkstemp makes files that only their owner reads; a result gets what the umask allows.
mode_t usual_mode(unsigned wanted) {
  const mode_t mask = umask(0);
  umask(mask);
  return static_cast<mode_t>(wanted) & ~mask;
}

}  // namespace

void check_target(const fs::path& path) {
  std::error_code ignored;
  if (path.empty()) refuse("-o: found ''; expected a file name");
  if (path == kStandardStream) {
    if (isatty(STDOUT_FILENO) == 1) refuse("-o -: standard output is a terminal; expected a pipe or a file");
    return;
  }
  if (fs::is_directory(path, ignored)) {
    refuse("-o {}: is a folder; expected a file name", path.string());
  }
  if (!fs::is_directory(folder_of(path), ignored)) {
    refuse("-o {}: the folder {} does not exist", path.string(), folder_of(path).string());
  }
}

StagedFile::StagedFile(const fs::path& path, unsigned mode) {
  if (path == kStandardStream) {
    path_ = "standard output";
    descriptor_ = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (descriptor_ < 0) fail_write();
    return;
  }
  std::error_code error;
  path_ = fs::weakly_canonical(path, error);
  if (error) path_ = path;
  const auto status = fs::status(path_, error);
  if (fs::exists(status) && !fs::is_regular_file(status)) {
    descriptor_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (descriptor_ < 0) fail_write();
    return;
  }
  std::string name = (folder_of(path_) / fmt::format(".{}.XXXXXX", path_.filename().string().substr(0, 200))).string();
  descriptor_ = mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0) fail_write();
  temporary_ = name;
  fchmod(descriptor_, usual_mode(mode));
}

StagedFile::StagedFile(StagedFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

StagedFile::~StagedFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void StagedFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMostPerWrite));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail_write();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void StagedFile::commit() {
  // Network file systems report a full disk only here.
  if (close(std::exchange(descriptor_, -1)) != 0) fail_write();
  if (!temporary_.empty() && rename(temporary_.c_str(), path_.c_str()) != 0) fail_write();
  temporary_.clear();
}

void StagedFile::fail_write() const {
  fail(ErrorCode::io, "{}: cannot be written: {}", path_.string(), std::strerror(errno));
}

}  // namespace epifuse::tool
