// Finds nvdisasm or cuobjdump and runs it on a temporary file, without a shell.
#include "disassembler.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include "support.hpp"

extern char** environ;

namespace epifuse::tool {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> search_path() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const auto colon = std::min(rest.find(':'), rest.size());
    if (colon > 0) folders.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(std::min(colon + 1, rest.size()));
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const char* home = std::getenv(name); home != nullptr && *home != '\0') {
      folders.push_back(fs::path(home) / "bin");
    }
  }
  folders.emplace_back("/usr/local/cuda/bin");
  return folders;
}

std::optional<fs::path> find_program(const std::string& name) {
  for (const fs::path& folder : search_path()) {
    const fs::path candidate = folder / name;
    std::error_code ignored;
    if (fs::is_regular_file(candidate, ignored) && access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

// nvdisasm first: it prints labels. Both print what is code, without the debug and note sections.
std::vector<std::string> command_line() {
  if (const auto nvdisasm = find_program("nvdisasm")) return {nvdisasm->string(), "--print-code"};
  if (const auto cuobjdump = find_program("cuobjdump")) return {cuobjdump->string(), "--dump-sass"};
  fail(ErrorCode::io,
       "no disassembler is installed: neither nvdisasm nor cuobjdump is on PATH, in $CUDA_HOME/bin or in "
       "/usr/local/cuda/bin; "
       "install the CUDA toolkit's package cuda-nvdisasm (or cuda-cuobjdump), or ask for --emit ptx");
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& bytes) {
    std::error_code error;
    fs::path folder = fs::temp_directory_path(error);
    if (error) folder = "/tmp";
    path_ = (folder / "epifuse-XXXXXX").string();
    const int descriptor = mkostemp(path_.data(), O_CLOEXEC);
    if (descriptor < 0) fail(ErrorCode::io, "{}: cannot be made: {}", path_, std::strerror(errno));
    const bool written = ::write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    close(descriptor);
    if (!written) {
      unlink(path_.c_str());
      fail(ErrorCode::io, "{}: cannot be written; is the disk full?", path_);
    }
  }
  ~TemporaryFile() { unlink(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const noexcept { return path_; }

 private:
  std::string path_;
};

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 1 << 16> buffer;
  for (;;) {
    const auto got = read(descriptor, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

struct Finished {
  int status = -1;
  std::string output;  // standard output and error together: on failure the words are in either
};

Finished run_program(std::vector<std::string> arguments) {
  std::array<int, 2> pipe_ends{};
  if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0) fail(ErrorCode::io, "no pipe: {}", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
  std::vector<char*> argv;
  argv.reserve(arguments.size() + 1);
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_ends[1]);
  Finished finished;
  if (error == 0) {
    finished.output = read_all(pipe_ends[0]);
    while (waitpid(child, &finished.status, 0) < 0 && errno == EINTR) {
    }
  } else {
    finished.output = std::strerror(error);
  }
  close(pipe_ends[0]);
  return finished;
}

}  // namespace

std::string disassemble(const std::string& cubin) {
  std::vector<std::string> arguments = command_line();
  const TemporaryFile file(cubin);
  arguments.push_back(file.path());
  Finished finished = run_program(arguments);
  if (finished.status != 0) fail(ErrorCode::io, "{} failed: {}", arguments.front(), finished.output);
  return std::move(finished.output);
}

}  // namespace epifuse::tool
