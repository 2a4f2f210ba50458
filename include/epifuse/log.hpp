// Where the library's log goes. Silent unless the environment's EPIFUSE_LOG or the application asks.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace epifuse {

enum class LogLevel : std::uint8_t {
  debug,  ///< what each stage did, and how long it took
  info,   ///< what was compiled or loaded, and why something else was chosen than was asked for
  warn,   ///< what was found bad and could be done without: an entry of the cache, say
  off
};

/// Takes one message: a line without its end, or several, all but the first of them indented.
using LogWriter = std::function<void(LogLevel, std::string_view)>;

/// From now on messages of `least` and above go to `writer`, whatever EPIFUSE_LOG says. An empty writer is standard
/// error. The writer is called from the threads that log, one call at a time; it must not call EpiFuse, and what it
/// throws is dropped. Thread-safe.
void set_log(LogLevel least, LogWriter writer = {});

}  // namespace epifuse
