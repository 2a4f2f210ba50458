// What people see: colours and progress on a terminal only, errors in one form, numbers with units.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <spdlog/fmt/fmt.h>

namespace epifuse::tool {

/// First of all: a standard stream that is closed gets a descriptor that takes nothing, so that no file that is opened
/// later stands in its place, and writing to a pipe that nobody reads is a failure and no end of the process.
void secure_standard_streams();

/// Nobody reads standard output any more. Not worth a word: whoever closed it knows.
struct ReaderLeft {};

/// On standard output. Error(io) or ReaderLeft if it takes nothing, here or in flush_output().
void write_output(std::string_view text);
void flush_output();
template <class... Args>
void print_text(fmt::format_string<Args...> format, Args&&... args) {
  write_output(fmt::format(format, std::forward<Args>(args)...));
}

/// On standard error, now. What cannot be written there is lost: there is no place left to say so.
void write_message(std::string_view text) noexcept;
/// "epifuse: error: …" on standard error.
void print_error(std::string_view message);
/// `text` in bold where standard output is a terminal.
std::string heading(std::string_view text);

/// "1.50 GB", decimal as bandwidths are.
std::string format_bytes(double bytes);
/// "12.34 µs", "4.56 ms", "7.89 s"
std::string format_time(double seconds);

/// Shows on standard error what is being done once it takes longer than a second; shows nothing if that is no terminal.
class Progress {
 public:
  explicit Progress(std::string stage);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void stage(std::string text);

 private:
  void show();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::string stage_;
  bool done_ = false;
  std::thread painter_;
};

}  // namespace epifuse::tool
