// What both families say alike, and which one a class is of.
#include "codegen/gemm/family.hpp"

#include <bit>
#include <variant>

#include "codegen/chain.hpp"
#include "codegen/params.hpp"

namespace epifuse::codegen {

void Family::add_operands(std::string& settings) const {
  using plan::GemmRole;
  add(settings, "int", "kTileInputs", made_.count(GemmRole::tile), "operands with a value for each element");
  add(settings, "int", "kRowVectors", made_.count(GemmRole::row), "operands with a value for each column");
  add(settings, "int", "kColumnVectors", made_.count(GemmRole::column), "operands with a value for each row");
  add(settings, "int", "kRowPartials", made_.count(plan::GemmScope::row), "values that rows of a tile are reduced to");
  add(settings, "int", "kColumnPartials", made_.count(plan::GemmScope::column),
      "values that columns of 64 rows are reduced to");
  add(settings, "int", "kGroupColumns", made_.group_columns(), "that the chain goes on with when they are reduced");
  add(settings, "int", "kScales", made_.groups ? made_.groups->results.size() : 0,
      "results with a value for each group");
  add(settings, "int", "kPartials", made_.reductions.size(), "values that are reduced");
  add(settings, "int", "kFactorBytes", size_of(made_.factor), "of a number of a factor");
}

void Family::add_layout(std::string& settings) const {
  add(settings, "int", "kResultAt", made_.result_at(), "where a slot holds the result");
  add(settings, "int", "kSlotBytes", made_.slot_bytes(), "");
  add(settings, "bool", "kLeftTransposed", made_.left_transposed, "its rows are contiguous, not its depth");
  add(settings, "bool", "kRightTransposed", made_.right_transposed, "its columns are contiguous, not its depth");
}

void Family::add_scales(std::string& settings, int rows, int columns) const {
  if (made_.is_scaled()) {
    add(settings, "int", "kScaledRows", rows, "from one pair of a thread's rows to the next");
    add(settings, "int", "kScaledColumns", columns, "of a product, that a warp multiplies");
  }
  settings += fmt::format("//@let kScaled = {}\n", made_.is_scaled());
  settings += fmt::format("//@let kPrefetchesScales = {}\n", made_.prefetches_scales());
  settings += fmt::format("//@let kLeftScales = {}\n", static_cast<int>(made_.left_scales));
  settings += fmt::format("//@let kRightScales = {}\n", static_cast<int>(made_.right_scales));
}

std::string_view Family::factor_in_ptx() const {
  switch (made_.factor) {
    case DType::f8e4m3:
      return "e4m3";
    case DType::f8e5m2:
      return "e5m2";
    case DType::i8:
      return "s8";
    case DType::f32:
      return "tf32";
    default:
      return to_string(made_.factor);
  }
}

// The last 13 bits of a number in TF32 count for nothing (PTX ISA, "Alternate floating-point data formats").
std::string Family::number_of_bits() const {
  if (made_.factor == DType::f32) return "__builtin_bit_cast(float, bits & 0xffffe000u)";
  return fmt::format("to_real<float>(__builtin_bit_cast({}, static_cast<unsigned {}>(bits)))",
                     storage_type(made_.factor), size_of(made_.factor) == 2 ? "short" : "char");
}

std::unique_ptr<const Family> family_of(const plan::GemmClass& made) {
  return std::visit([&](const auto& tile) { return family_of(made, tile); }, made.tile);
}

namespace {

// Of a convolution whose rows are pixels in their order.
void add_windows(std::vector<std::int64_t>& numbers, const plan::Convolution& of) {
  const auto& [stride, padding, dilation] = of.windows;
  numbers.insert(numbers.end(),
                 {of.channels, of.filter_width * dilation[1], of.input_height, of.input_width, of.height, of.width});
  for (const std::int64_t extent : {of.height, of.width}) {
    const auto [multiplier, shift] = divisor32(extent);
    numbers.insert(numbers.end(), {multiplier, shift});
  }
  numbers.insert(numbers.end(), {stride[1], stride[0], padding[1], padding[0], dilation[1], dilation[0]});
}

}  // namespace

std::vector<std::int64_t> numbers_of(const plan::GemmPlan& plan) {
  if (plan.gemm_class.warp_tile() != nullptr) {
    std::vector<std::int64_t> numbers = {plan.rows,         plan.columns,      plan.depth,
                                         plan.cluster_rows, plan.tile_columns, plan.band};
    if (plan.convolution) add_windows(numbers, *plan.convolution);
    return numbers;
  }
  const int depth = plan.gemm_class.depth();
  std::vector<std::int64_t> numbers = {plan.rows,         plan.columns,      (plan.depth + depth - 1) / depth,
                                       plan.cluster_rows, plan.tile_columns, plan.tiles,
                                       plan.band};
  if (plan.convolution) {
    const plan::Convolution& of = *plan.convolution;
    const auto& [stride, padding, dilation] = of.windows;
    const auto shift = [](int extent) { return std::countr_zero(static_cast<unsigned>(extent)); };
    numbers.insert(numbers.end(),
                   {of.channels, of.filter_width, of.patches_across(), of.patches_down(), shift(of.patch->width),
                    shift(of.patch->height), stride[1], stride[0], padding[1], padding[0], dilation[1], dilation[0]});
  }
  return numbers;
}

}  // namespace epifuse::codegen
