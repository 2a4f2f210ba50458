// What a correct kernel may give for a reduction of elements that are ranges themselves, in whatever order it combines
// them.
#pragma once

#include <span>

#include "support/chain.hpp"
#include "support/range.hpp"

namespace epifuse::test {

/// `correction` is var's. `rescaled`: a sum of exp(v - amax(v)), which may have been made with a smaller maximum and
/// rescaled.
Range reduce(Reduction reduction, std::span<const Range> elements, double correction, Compute compute,
             bool rescaled = false);

}  // namespace epifuse::test
