// Creates the logger once. It writes to standard error; nothing is written unless asked for.
#include "base/log.hpp"

#include <memory>

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/text.hpp"

namespace epifuse::base {

spdlog::logger& log() {
  // Leaked on purpose: engines may be destroyed, and may log, during static destruction.
  static const auto& logger = *new std::shared_ptr<spdlog::logger>([] {
    if (auto existing = spdlog::get("epifuse")) return existing;
    auto created = std::make_shared<spdlog::logger>("epifuse", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    created->set_level(spdlog::level::from_str(environment("EPIFUSE_LOG").value_or("off")));
    spdlog::register_logger(created);
    return created;
  }());
  return *logger;
}

}  // namespace epifuse::base
