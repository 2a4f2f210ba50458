// `epifuse warm`: compiles the kernels of a list of launches on all cores, so that the processes that need them find them on disk.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "report.hpp"
#include "support.hpp"
#include "task.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct WarmOptions {
  std::string list;
  std::string device = "auto";
  std::uint64_t threads = 0;
  bool json = false;
};
constexpr std::uint64_t kMostThreads = 1024;

// One line of the list, as it stands on the command line of `epifuse dump`.
Task parse_line(const std::string& line) {
  TaskOptions options;
  CLI::App app;
  app.set_help_flag();
  add_task_options(app, options);
  add_in_place(app, options);
  app.parse(line);
  return make_task(options);
}

// The list: what is well-formed of it, and what became of the rest.
class Launches {
 public:
  explicit Launches(const std::string& path) : name_(path == "-" ? "standard input" : path) {
    if (path == "-") {
      read(std::cin);
      return;
    }
    std::error_code ignored;
    std::ifstream file(path);
    if (!file || std::filesystem::is_directory(path, ignored)) {
      refuse("'{}' cannot be read; expected a file with one launch per line, or -", path);
    }
    read(file);
  }

  const std::vector<Preparation>& list() const noexcept { return list_; }
  std::size_t count() const noexcept { return list_.size() + refused_; }
  std::size_t failed() const noexcept { return failed_; }

  /// Says why the launch at `index` of list() fails.
  void fail(std::size_t index, const Error& error) { fail_line(lines_[index], error.code(), error.what()); }
  void check() const {
    if (failed_ == 0) return;
    throw Error(worst_, fmt::format("{} of {} launches failed", failed_, count()));
  }

 private:
  void read(std::istream& file) {
    std::string line;
    for (std::size_t number = 1; std::getline(file, line); ++number) {
      const auto first = line.find_first_not_of(" \t\r");
      if (first != line.npos && line[first] != '#') read_line(number, line);
    }
    if (file.bad()) tool::fail(ErrorCode::io, "{} could not be read", name_);
  }

  void read_line(std::size_t number, const std::string& line) {
    const auto refuse_line = [&](ErrorCode code, const char* what) {
      ++refused_;
      fail_line(number, code, what);
    };
    try {
      const Task task = parse_line(line);
      list_.push_back({task.tail, task.planned_outputs(), task.planned_inputs()});
      lines_.push_back(number);
    } catch (const Error& error) {
      refuse_line(error.code(), error.what());
    } catch (const CLI::ParseError& error) {
      refuse_line(ErrorCode::invalid_argument, error.what());
    }
  }

  // A mistake in the list outweighs what happened at run time: it is the user's to mend.
  void fail_line(std::size_t number, ErrorCode code, std::string_view what) {
    print_error(fmt::format("{}, line {}: {}", name_, number, what));
    if (failed_++ == 0 || Error(code, "").is_bad_input()) worst_ = code;
  }

  std::string name_;
  std::vector<Preparation> list_;
  std::vector<std::size_t> lines_;  // of `list_`
  std::size_t refused_ = 0;         // lines that are no launch
  std::size_t failed_ = 0;          // these, and launches that could not be prepared
  ErrorCode worst_ = ErrorCode::invalid_argument;
};

void prepare(Engine& engine, Launches& launches, const WarmOptions& options) {
  const bool shows = isatty(STDERR_FILENO) == 1;
  const auto progress = [&](const PreparationProgress& at) {
    if (shows) write_message("\r\033[K");
    if (at.error != nullptr) launches.fail(at.index, *at.error);
    if (!shows || at.done == at.total) return;
    write_message(fmt::format("{} of {}, the last in {}: {}", at.done, at.total, format_time(at.ms / 1e3),
                              launches.list()[at.index].tail.str().substr(0, 60)));
  };
  const std::size_t refused = launches.failed();
  try {
    engine.prepare(launches.list(), progress, static_cast<unsigned>(options.threads));
  } catch (const Error&) {
    if (launches.failed() == refused) throw;  // else it was told with its line
  }
}

// Where there is no GPU, "auto" checks the launches for the GPU that plans are made for: no kernel is compiled.
void plan(Launches& launches) {
  for (std::size_t i = 0; i < launches.list().size(); ++i) {
    const Preparation& launch = launches.list()[i];
    try {
      const Inspection inspection(launch.tail, launch.outputs, launch.inputs);
    } catch (const Error& error) {
      launches.fail(i, error);
    }
  }
}

void report(const Launches& launches, const Engine& engine, const WarmOptions& options) {
  const EngineStats stats = engine.stats();
  const bool compiles = engine.device().kind == Device::Kind::cuda;
  if (options.json) {
    print_json({{"device", to_string(engine.device())},
                {"launches", launches.count()},
                {"failed", launches.failed()},
                {"kernels", compiles ? stats.kernels : 0},
                {"compiled", stats.compiles},
                {"from_disk", stats.disk_hits},
                {"compile_ms", stats.compile_ms}});
  } else if (compiles) {
    print_text("{} launches on {}: {} kernels, {} compiled in {}, {} from disk\n", launches.count(),
               to_string(engine.device()), stats.kernels, stats.compiles, format_time(stats.compile_ms / 1e3),
               stats.disk_hits);
  } else {
    print_text(
        "{} launches checked, no kernel compiled: {}\n", launches.count(),
        options.device == "auto" ? "there is no usable GPU (`epifuse doctor` says why)" : "the CPU device has none");
  }
  flush_output();
}

void warm(const WarmOptions& options) {
  Launches launches(options.list);
  Engine engine(chosen_device(options.device));
  if (options.device == "auto" && engine.device().kind == Device::Kind::cpu) {
    plan(launches);
  } else {
    prepare(engine, launches, options);
  }
  report(launches, engine, options);
  launches.check();
}

}  // namespace

void add_warm(CLI::App& app) {
  auto* command = app.add_subcommand("warm", "Compile the kernels of a list of launches, for later processes");
  auto options = std::make_shared<WarmOptions>();
  command->add_option("list", options->list, "A file with one launch per line; - reads standard input")->required();
  add_device(*command, options->device);
  add_integer(*command, "--threads", options->threads, kMostThreads, "Compilers at once; 0: one for each core");
  add_switch(*command, "--json", options->json, "Print JSON");
  command->footer(
      "A line is what 'epifuse dump' takes: the chain in quotes, its operands, --out, --inplace. # begins a comment.\n"
      "A line that fails is named, and the others are prepared all the same.\n"
      "Example:\n"
      "  echo '\"relu(x + bias)\" x=f16[8,16] bias=f32[16]' | epifuse warm -\n");
  command->callback([options] { warm(*options); });
}

}  // namespace epifuse::tool
