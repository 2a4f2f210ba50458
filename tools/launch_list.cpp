// Reading a list of launches. A line is what stands on the command line of `epifuse dump`.
#include "launch_list.hpp"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <system_error>

#include <spdlog/fmt/fmt.h>

#include "options.hpp"
#include "support.hpp"
#include "task.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

Task parse_line(const std::string& line, std::vector<PlanTarget>& targets) {
  TaskOptions options;
  CLI::App app;
  app.set_help_flag();
  add_task_options(app, options);
  add_in_place(app, options);
  add_targets(app, targets, "");
  app.parse(line);
  return make_task(options);
}

}  // namespace

LaunchList::LaunchList(const std::string& path) : name_(path == "-" ? "standard input" : path) {
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

void LaunchList::read(std::istream& file) {
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    const auto first = line.find_first_not_of(" \t\r");
    if (first != line.npos && line[first] != '#') read_line(number, line);
  }
  if (file.bad()) tool::fail(ErrorCode::io, "{} could not be read", name_);
}

void LaunchList::read_line(std::size_t number, const std::string& line) {
  const auto refuse_line = [&](ErrorCode code, const char* what) {
    ++refused_;
    ++failed_;
    fail_line(number, code, what);
  };
  try {
    std::vector<PlanTarget> targets;
    const Task task = parse_line(line, targets);
    list_.emplace_back(task.tail, task.planned_outputs(), task.planned_inputs());
    chains_.push_back(task.chain);
    lines_.push_back(number);
    targets_.push_back(std::move(targets));
    is_failed_.push_back(false);
  } catch (const Error& error) {
    refuse_line(error.code(), error.what());
  } catch (const CLI::ParseError& error) {
    refuse_line(ErrorCode::invalid_argument, error.what());
  }
}

void LaunchList::precompile(Precompiler& precompiler, const std::vector<PlanTarget>& targets, unsigned threads) {
  std::vector<PrecompiledLaunch> launches;
  std::vector<std::size_t> of;
  for (std::size_t i = 0; i < list_.size(); ++i) {
    if (targets.empty() && targets_[i].empty())
      refuse("{}, line {}: no GPU is named; add --arch sm_90 to the command or to the line", name_, lines_[i]);
    std::vector<PlanTarget> wanted = targets;
    wanted.insert(wanted.end(), targets_[i].begin(), targets_[i].end());
    for (const PlanTarget& target : wanted) launches.push_back({list_[i], target});
    of.resize(launches.size(), i);
  }
  prepare([&](const Progress& progress) { precompiler.prepare(launches, progress, threads); },
          [&](std::size_t i) { return of[i]; });
}

void LaunchList::prepare(const std::function<void(const Progress&)>& prepare,
                         const std::function<std::size_t(std::size_t)>& line_of) {
  const bool shows = isatty(STDERR_FILENO) == 1;
  const auto progress = [&](const PreparationProgress& at) {
    if (shows) write_message("\r\033[K");
    if (at.error != nullptr && at.error->code() == ErrorCode::no_compiler) throw *at.error;
    if (at.error != nullptr) fail(line_of(at.index), *at.error);
    if (!shows || at.done == at.total) return;
    write_message(fmt::format("{} of {}, the last in {}: {}", at.done, at.total, format_time(at.ms / 1e3),
                              chains_[line_of(at.index)].substr(0, 60)));
  };
  const std::size_t refused = failed_;
  try {
    prepare(progress);
  } catch (const Error& error) {
    if (failed_ == refused || error.code() == ErrorCode::no_compiler) throw;  // else it was told with its line
  }
}

void LaunchList::fail(std::size_t index, const Error& error) {
  failed_ += is_failed_[index] ? 0 : 1;
  is_failed_[index] = true;
  fail_line(lines_[index], error.code(), error.what());
}

// A mistake in the list outweighs what happened at run time: it is the user's to mend.
void LaunchList::fail_line(std::size_t number, ErrorCode code, std::string_view what) {
  print_error(fmt::format("{}, line {}: {}", name_, number, what));
  if (failed_ <= 1 || Error(code, "").is_bad_input()) worst_ = code;
}

void LaunchList::check() const {
  if (failed_ == 0) return;
  throw Error(worst_, fmt::format("{} of {} launches failed", failed_, count()));
}

}  // namespace epifuse::tool
