// What people see: colours and progress on a terminal only, errors in one form, numbers with units.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

namespace epifuse::tool {

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
