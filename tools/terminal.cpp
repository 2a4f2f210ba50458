// Colours, the progress line and units.
#include "terminal.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support.hpp"

namespace epifuse::tool {
namespace {

// https://no-color.org: set and not empty means no colours.
bool colours(int descriptor) {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool unwanted =
      (no_color != nullptr && *no_color != '\0') || (term != nullptr && std::string_view(term) == "dumb");
  return !unwanted && isatty(descriptor) == 1;
}

struct Unit {
  double size;
  const char* name;
};

template <std::size_t N>
std::string with_unit(double value, const std::array<Unit, N>& units) {
  for (const Unit& unit : units) {
    if (value >= unit.size) return fmt::format("{:.2f} {}", value / unit.size, unit.name);
  }
  return fmt::format("{:.2f} {}", value / units.back().size, units.back().name);
}

[[noreturn]] void fail_output() {
  if (errno == EPIPE) throw ReaderLeft();
  fail(ErrorCode::io, "the output could not be written: {}", std::strerror(errno));
}

}  // namespace

void secure_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(stream, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor, which is this one. Opened the wrong way round: reading input and writing output fail.
    open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN);
}

void write_output(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) fail_output();
}

void flush_output() {
  if (std::fflush(stdout) != 0) fail_output();
}

void write_message(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

// What a user typed may stand in a message: lines stay, nothing else that a terminal acts upon.
void print_error(std::string_view text) {
  const bool colour = colours(STDERR_FILENO);
  std::string message(text);
  std::ranges::replace_if(
      message, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; }, '?');
  write_message(fmt::format("epifuse: {}error:{} {}\n", colour ? "\033[1;31m" : "", colour ? "\033[0m" : "", message));
}

std::string heading(std::string_view text) {
  return colours(STDOUT_FILENO) ? fmt::format("\033[1m{}\033[0m", text) : std::string(text);
}

std::string format_bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  return with_unit(bytes, std::array<Unit, 5>{{{1e15, "PB"}, {1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}}});
}

std::string format_time(double seconds) {
  return with_unit(seconds, std::array<Unit, 4>{{{1, "s"}, {1e-3, "ms"}, {1e-6, "µs"}, {1e-9, "ns"}}});
}

Progress::Progress(std::string stage) : stage_(std::move(stage)) {
  if (isatty(STDERR_FILENO) == 1) painter_ = std::thread([this] { show(); });
}

Progress::~Progress() {
  if (!painter_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  painter_.join();
}

void Progress::stage(std::string text) {
  const std::lock_guard lock(mutex_);
  stage_ = std::move(text);
}

void Progress::show() {
  using namespace std::chrono_literals;
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, 1s, [this] { return done_; })) return;
  do {
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    write_message(fmt::format("\r\033[K{} … {:.0f} s", stage_, elapsed.count()));
  } while (!changed_.wait_for(lock, 250ms, [this] { return done_; }));
  write_message("\r\033[K");
}

}  // namespace epifuse::tool
