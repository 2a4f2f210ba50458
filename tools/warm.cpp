// `epifuse warm`: compiles the kernels of a list of launches on all cores, so that the processes that need them find them on disk.
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "report.hpp"
#include "support.hpp"
#include "task.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct WarmOptions {
  std::string list;
  std::string device = "auto";
  unsigned threads = 0;
  bool json = false;
};

// One line of the list, as it stands on the command line of `epifuse dump`.
Task parse_line(const std::string& line) {
  TaskOptions options;
  CLI::App app;
  app.set_help_flag();
  add_task_options(app, options);
  app.add_option("--inplace", options.in_place);
  app.parse(line);
  return make_task(options);
}

struct Entry {
  std::size_t line = 0;
  Preparation preparation;
};

std::vector<Entry> read_list(std::istream& file, const std::string& name) {
  std::vector<Entry> entries;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first == line.npos || line[first] == '#') continue;
    const auto where = [&](std::string_view what) { return fmt::format("{}, line {}: {}", name, number, what); };
    try {
      const Task task = parse_line(line);
      entries.push_back({number, {task.tail, task.planned_outputs(), task.planned_inputs()}});
    } catch (const Error& error) {
      throw Error(error.code(), where(error.what()));
    } catch (const CLI::ParseError& error) {
      refuse("{}", where(error.what()));
    }
  }
  if (file.bad()) fail(ErrorCode::io, "{} could not be read", name);
  return entries;
}

std::vector<Entry> read_list(const std::string& path) {
  if (path == "-") return read_list(std::cin, "standard input");
  std::ifstream file(path);
  if (!file) refuse("{}: the file cannot be read", path);
  return read_list(file, path);
}

void warm(const WarmOptions& options) {
  const std::vector<Entry> entries = read_list(options.list);
  std::vector<Preparation> list;
  for (const Entry& entry : entries) list.push_back(entry.preparation);
  Engine engine(options.device == "auto" ? Device::automatic() : Device::parse(options.device));
  const bool shows = isatty(STDERR_FILENO) == 1;
  std::size_t failed = 0;
  const auto progress = [&](const PreparationProgress& at) {
    if (shows) fmt::print(stderr, "\r\033[K");
    if (at.error != nullptr) {
      ++failed;
      print_error(fmt::format("line {}: {}", entries[at.index].line, at.error->what()));
    }
    if (!shows || at.done == at.total) return;
    fmt::print(stderr, "{} of {}, the last in {}: {}", at.done, at.total, format_time(at.ms / 1e3),
               list[at.index].tail.str().substr(0, 60));
    std::fflush(stderr);
  };
  const auto report = [&] {
    const EngineStats stats = engine.stats();
    if (options.json) {
      print_json({{"device", to_string(engine.device())},
                  {"launches", list.size()},
                  {"failed", failed},
                  {"kernels", stats.kernels},
                  {"compiled", stats.compiles},
                  {"from_disk", stats.disk_hits},
                  {"compile_ms", stats.compile_ms}});
    } else {
      fmt::print("{} launches on {}: {} kernels, {} compiled in {}, {} from disk\n", list.size(),
                 to_string(engine.device()), stats.kernels, stats.compiles, format_time(stats.compile_ms / 1e3),
                 stats.disk_hits);
    }
  };
  try {
    engine.prepare(list, progress, options.threads);
  } catch (const Error& error) {
    report();
    throw Error(error.code(), fmt::format("{} of {} launches could not be prepared", failed, list.size()));
  }
  report();
}

}  // namespace

void add_warm(CLI::App& app) {
  auto* command = app.add_subcommand("warm", "Compile the kernels of a list of launches, for later processes");
  auto options = std::make_shared<WarmOptions>();
  command->add_option("list", options->list, "A file with one launch per line; - reads standard input")->required();
  command->add_option("--device", options->device, "auto, cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", options->threads, "Compilers at once; 0: one for each core")->capture_default_str();
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "A line is what 'epifuse dump' takes: the chain in quotes, its operands, --out, --inplace. # begins a comment.\n"
      "Example:\n"
      "  echo '\"relu(x + bias)\" x=f16[8,16] bias=f32[16]' | epifuse warm -\n");
  command->callback([options] { warm(*options); });
}

}  // namespace epifuse::tool
