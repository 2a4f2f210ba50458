// Writing launches down. The grammar is that of the command's operands (tools/operands.hpp, docs/guide/cli.md).
#include "api/record.hpp"

#include <fcntl.h>

#include <cerrno>
#include <cmath>
#include <mutex>
#include <optional>
#include <unordered_set>

#include <spdlog/fmt/ranges.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/files.hpp"

namespace epifuse {
namespace {

constexpr std::uintptr_t kBoundary = 256;

std::string joined(const Dims& dims) { return fmt::format("{}", fmt::join(dims.begin(), dims.end(), ",")); }

// Where it lies: nothing for a dense tensor on a boundary.
std::string layout_text(const TensorView& view) {
  std::string text;
  if (view.strides != row_major(view.shape)) text += ":strides(" + joined(view.strides) + ")";
  const auto bytes = reinterpret_cast<std::uintptr_t>(view.data) % kBoundary;
  if (bytes > 0) text += fmt::format(":offset({})", bytes / size_of(view.dtype));
  return text;
}

class Recorder {
 public:
  explicit Recorder(const std::string& path)
      // Appended to, a line at a time: several processes may write one file.
      : file_(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666)) {
    if (!file_) base::log().warn("EPIFUSE_RECORD: {} cannot be written: {}", path, jit::error_text(errno));
  }
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    if (!file_ || !lines_.insert(line).second) return;
    if (const int error = jit::write_all(file_.get(), line + "\n"))
      base::log().warn("EPIFUSE_RECORD: a launch is not recorded: {}", jit::error_text(error));
  }

 private:
  jit::FileDescriptor file_;
  std::mutex mutex_;
  std::unordered_set<std::string> lines_;
};

// Null where nothing is recorded. Leaked: engines may live in static storage.
Recorder* recorder() {
  static Recorder* const made = [] {
    const auto path = base::environment("EPIFUSE_RECORD");
    return path ? new Recorder(*path) : nullptr;
  }();
  return made;
}

}  // namespace

std::string launch_line(const ir::Program& program, std::span<const OutputView> outputs,
                        std::span<const TensorView> inputs, const plan::Machine& machine) {
  std::string results;
  for (const OutputView& output : outputs) {
    if (!results.empty()) results += ",";
    results += fmt::format("{}{}", to_string(output.dtype), layout_text(output));
  }
  std::string line = fmt::format("--arch sm_{}:{}:{}:{} --out {}", machine.architecture, machine.multiprocessors,
                                 machine.l2_bytes, std::llround(machine.bandwidth), results);
  if (program.math() != Math::standard) line += fmt::format(" --math {}", to_string(program.math()));
  // Behind "--" a chain may begin with a minus sign.
  line += fmt::format(" -- \"{}\"", ir::print(program));
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    line += fmt::format(" {}={}[{}]{}", program.inputs()[i], to_string(inputs[i].dtype), joined(inputs[i].shape),
                        layout_text(inputs[i]));
  }
  for (const std::string& scalar : program.scalars()) line += fmt::format(" {}=1", scalar);
  return line;
}

void record_launch(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
                   const plan::Machine& machine) {
  if (Recorder* const file = recorder()) file->add(launch_line(program, outputs, inputs, machine));
}

}  // namespace epifuse
