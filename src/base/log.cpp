// Creates the logger once. It writes to standard error; nothing is written unless asked for.
#include "base/log.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/text.hpp"

namespace epifuse::base {
namespace {

spdlog::logger& logger() {
  // Leaked on purpose: engines may be destroyed, and may log, during static destruction.
  static const auto& shared = *new std::shared_ptr<spdlog::logger>([] {
    if (auto existing = spdlog::get("epifuse")) return existing;
    auto created = std::make_shared<spdlog::logger>("epifuse", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_level(spdlog::level::from_str(environment("EPIFUSE_LOG").value_or("off")));
    spdlog::register_logger(created);
    return created;
  }());
  return *shared;
}

spdlog::level::level_enum to_spdlog(LogLevel level) {
  switch (level) {
    case LogLevel::debug:
      return spdlog::level::debug;
    case LogLevel::info:
      return spdlog::level::info;
    case LogLevel::warn:
      return spdlog::level::warn;
    case LogLevel::off:
      break;
  }
  return spdlog::level::off;
}

// What the application set. Leaked for the same reason.
struct Writer {
  std::mutex mutex;
  LogWriter write;
};
Writer& writer() {
  static auto& shared = *new Writer;
  return shared;
}
std::atomic<bool> has_writer = false;
std::atomic<LogLevel> least_written = LogLevel::off;

}  // namespace

bool Log::lets_through(Level level) const {
  if (has_writer.load(std::memory_order_acquire)) return level >= least_written.load(std::memory_order_relaxed);
  return logger().should_log(to_spdlog(level));
}

void Log::write_text(Level level, const std::string& text) const {
  if (!has_writer.load(std::memory_order_acquire)) return logger().log(to_spdlog(level), text);
  const std::scoped_lock lock(writer().mutex);
  if (!writer().write) return;
  try {
    writer().write(level, text);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a log that fails must not fail a launch
  }
}

const Log& log() {
  static constexpr Log kLog;
  return kLog;
}

}  // namespace epifuse::base

namespace epifuse {

void set_log(LogLevel least, LogWriter writer) {
  using namespace base;
  const std::scoped_lock lock(base::writer().mutex);
  has_writer.store(writer != nullptr, std::memory_order_release);
  least_written.store(least, std::memory_order_relaxed);
  if (writer == nullptr) logger().set_level(to_spdlog(least));
  base::writer().write = std::move(writer);
}

}  // namespace epifuse
