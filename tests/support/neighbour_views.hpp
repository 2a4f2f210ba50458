// Cases of views that stand side by side in memory: pooling windows, and every so-manieth element of rows. Rows of
// results are multiples of two, four or eight, as kernels need to read such views together. The expected values come
// from loops over the views' definitions.
#pragma once

#include <cstdint>

#include "support/views.hpp"

namespace epifuse::test {

ViewCase draw_neighbour_views(std::uint64_t seed);

}  // namespace epifuse::test
