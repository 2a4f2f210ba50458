// Creates the logger once. It writes to standard error; nothing is written unless asked for.
#include "base/log.hpp"

#include <memory>

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

spdlog::level::level_enum to_spdlog(Log::Level level) {
  switch (level) {
    case Log::Level::debug:
      return spdlog::level::debug;
    case Log::Level::info:
      return spdlog::level::info;
    case Log::Level::warn:
      return spdlog::level::warn;
  }
  return spdlog::level::off;
}

}  // namespace

bool Log::lets_through(Level level) const { return logger().should_log(to_spdlog(level)); }

void Log::write_text(Level level, const std::string& text) const { logger().log(to_spdlog(level), text); }

const Log& log() {
  static constexpr Log kLog;
  return kLog;
}

}  // namespace epifuse::base
