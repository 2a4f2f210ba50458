// The logger of every room: spdlog's logger "epifuse", silent unless EPIFUSE_LOG names a level or the application sets one.
#pragma once

#include <spdlog/logger.h>

namespace epifuse::base {

/// Never null. Registered with spdlog under "epifuse" on first use, so that an application can replace its sinks or level.
/// The initial level is EPIFUSE_LOG (trace, debug, info, warn, error, off), `off` when unset.
spdlog::logger& log();

}  // namespace epifuse::base
