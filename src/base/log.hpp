// The logger of every component: spdlog's logger "epifuse", silent unless EPIFUSE_LOG names a level or the application
// sets one. spdlog's headers are seen by log.cpp alone: they cost every file that includes them six seconds of
// compilation.
#pragma once

#include <utility>

#include <spdlog/fmt/fmt.h>

#include <epifuse/log.hpp>

namespace epifuse::base {

/// Formats only what the level lets through. Thread-safe.
class Log {
 public:
  using Level = LogLevel;

  /// For who has to compute what it would write.
  bool lets_through(Level level) const;

  template <class... Args>
  void debug(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::debug, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void info(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::info, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void warn(fmt::format_string<Args...> format, Args&&... args) const {
    write(Level::warn, format, std::forward<Args>(args)...);
  }
  template <class... Args>
  void write(Level level, fmt::format_string<Args...> format, Args&&... args) const {
    if (lets_through(level)) write_text(level, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void write_text(Level level, const std::string& text) const;
};

/// Until set_log() is called: spdlog's logger "epifuse", which is made and registered on first use, so that an
/// application that shares spdlog with the library can replace its sinks or level. Its first level is EPIFUSE_LOG
/// (trace, debug, info, warn, err, off), `off` when unset.
const Log& log();

}  // namespace epifuse::base
