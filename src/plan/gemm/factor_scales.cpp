// A scale for all lines, or for all of the depth, has a stride of 0: a kernel of blocks reads it, too.
#include "plan/gemm/factor_scales.hpp"

#include "base/text.hpp"
#include "plan/bind/block_scales.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;

ScaledLines lines_of(const ScaleView& scales) { return scales.is_of_each ? ScaledLines::each : ScaledLines::blocks; }

GemmFactorScales placed(const ScaleView& scales) {
  const TensorView& values = scales.values;
  return {values.data, values.strides[0], values.strides[1], values.shape[0] * values.shape[1]};
}

}  // namespace

void place_scales(GemmPlan& plan, const GemmScaling& scaling) {
  if (scaling.is_empty()) return;
  GemmClass& made = plan.gemm_class;
  static_assert(WarpGroupTile::kDepthBytes == kScaledBlock && kScaledBlock % WarpTile::kDepthBytes == 0,
                "sums of float8 numbers end where a block of the depth does");
  if (!made.promotes() || plan.batches > 1)
    fail(unsupported, "scales that vary along the depth are of one product of float8 factors; this has {} of {}",
         plan.batches, to_string(made.factor));
  if (scaling.left) {
    made.left_scales = lines_of(*scaling.left);
    plan.factor_scales.push_back(placed(*scaling.left));
  }
  if (scaling.rights.empty()) return;
  made.right_scales = lines_of(scaling.rights[0]);
  for (const ScaleView& scales : scaling.rights) {
    if (lines_of(scales) != made.right_scales)
      fail(unsupported, "the right factors of two products have scales of columns, and of 128 columns");
    plan.factor_scales.push_back(placed(scales));
  }
}

void move_scales(GemmPlan& plan, const GemmScaling& scaling) {
  std::size_t next = 0;
  if (scaling.left) plan.factor_scales[next++].data = scaling.left->values.data;
  for (const ScaleView& scales : scaling.rights) plan.factor_scales[next++].data = scales.values.data;
}

void check_scales_apart(const OutputView& output, const GemmScaling& scaling) {
  const auto check = [&](const ScaleView& scales) {
    if (output.data != nullptr && scales.values.data != nullptr && overlap(output, scales.values))
      fail(invalid_argument,
           "the result overlaps the scales of a factor, of which other elements are still to be read");
  };
  if (scaling.left) check(*scaling.left);
  for (const ScaleView& scales : scaling.rights) check(scales);
}

}  // namespace epifuse::plan
