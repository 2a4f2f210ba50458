// Pools of what is expensive to compute, with what they give by their definitions.
#pragma once

#include <cstdint>

#include "support/views.hpp"

namespace epifuse::test {

/// `max_pool` or `avg_pool` over one or two dimensions, whose windows overlap, with padding, dilation or ceil_mode.
ViewCase draw_window_function(std::uint64_t seed);

}  // namespace epifuse::test
