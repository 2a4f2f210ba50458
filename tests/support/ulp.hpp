// Errors of functions in units of the last place, over a dense sweep of their arguments, measured on a device.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <epifuse/engine.hpp>

#include "support/range.hpp"

namespace epifuse::test {

struct UlpRow {
  std::string_view name;
  Compute compute = Compute::f32;
  double worst =
      0;  ///< infinite where NaN, an infinity or a zero was due and something else came, or the other way round
  double allowed = 0;
  double at[3] = {0, 0, 0};  ///< the arguments of the worst
  int arity = 1;
};

/// Every function with an error bound (exact operations are judged to the bit elsewhere), in f32 and f64.
std::vector<UlpRow> sweep_ulps(Engine& engine, int points);
std::string to_table(const std::vector<UlpRow>& rows);

}  // namespace epifuse::test
