// Rows are dimensions 1 and behind, segments dimensions 2 and behind: every case must become one kernel.
#include "support/lane_segment_cases.hpp"

#include <algorithm>

#include "support/composites.hpp"
#include "support/random_case.hpp"

namespace epifuse::test {
namespace {

constexpr int kTensor = 0, kSecond = 1, kThird = 2;
const AxisList kRow{{1}, true};
const AxisList kSegment{{2}, true};

struct Scaled {
  int values, scale;
};

// The largest of a segment becomes 1.
Scaled scaled_segments(Chain& c, int value) {
  const int largest = c.reduce(Reduction::amax, c.op("abs", {value}), kSegment, true);
  const int scale = c.op("maximum", {largest, c.constant(1e-4)});
  return {c.op("mul", {value, c.op("div", {c.constant(1), scale})}), scale};
}

int norm_of_row(Chain& c, int value) { return rms_norm(c, value, kNoOperand, 1e-6, kRow); }

// A residual, its norm with a weight, and its scaled segments: the new residual, the values and the scales.
std::vector<int> residual_and_scales(Chain& c) {
  const int h = c.op("add", {kTensor, kSecond});
  const Scaled scaled = scaled_segments(c, c.op("mul", {norm_of_row(c, h), kThird}));
  return {h, scaled.values, scaled.scale};
}

std::vector<Operand> residual_operands(DType type, const Dims& shape) {
  Dims weight;
  for (int d = 1; d < shape.size(); ++d) weight.push_back(shape[d]);
  return {Operand::dense(type, shape), Operand::dense(type, shape), Operand::dense(type, weight)};
}

void add_lane_lengths(std::vector<Case>& cases, DType type) {
  // One lane to a warp for a segment; rows of lanes, a warp, warps, a cluster; more rows than a block has thread
  // groups, and fewer.
  for (const Dims& shape : {Dims{5, 3, 16}, Dims{3, 4, 32}, Dims{130, 2, 8}, Dims{70, 3, 4}, Dims{9, 6, 2},
                            Dims{7, 2, 512}, Dims{2, 5, 256}, Dims{2, 224, 32}, Dims{1, 40, 128}, Dims{3, 7, 64},
                            Dims{2, 200, 128}, Dims{2, 3, 4, 16}, Dims{3, 5, 2, 2}})
    cases.push_back(built(residual_operands(type, shape), residual_and_scales, {type}));
}

void add_lane_chains(std::vector<Case>& cases, DType type, const Dims& shape) {
  const auto add = [&](const Build& build) { cases.push_back(built(residual_operands(type, shape), build)); };
  // Softmax of segments of a norm; a norm of segments of a softmax; one reduction of a segment behind another one.
  add([](Chain& c) { return std::vector{softmax(c, norm_of_row(c, kTensor), kSegment)}; });
  add([](Chain& c) {
    const int centred = c.op("sub", {norm_of_row(c, kTensor), kSecond});
    return std::vector{normalised(c, centred, 1e-5, kSegment).value};
  });
  add([](Chain& c) {
    const Scaled first = scaled_segments(c, norm_of_row(c, kTensor));
    const Scaled second = scaled_segments(c, c.op("add", {first.values, kSecond}));
    return std::vector{second.values, first.scale, second.scale};
  });
  // Segments first, then the row: its reduction is of what segments have made of the elements.
  add([](Chain& c) {
    const Scaled first = scaled_segments(c, kTensor);
    return std::vector{norm_of_row(c, first.values), first.scale};
  });
  add([](Chain& c) {
    const int y = norm_of_row(c, scaled_segments(c, kTensor).values);
    const Scaled again = scaled_segments(c, c.op("mul", {y, kThird}));
    return std::vector{again.values, again.scale};
  });
  // Beside results of rows and of the grid, and with a pass that both accumulates and writes.
  add([](Chain& c) {
    const Normalised row = normalised(c, kTensor, 1e-5, kRow);
    const Scaled scaled = scaled_segments(c, row.value);
    const int all = c.reduce(Reduction::amax, c.op("abs", {row.value}), {}, false);
    return std::vector{scaled.scale, row.mean, scaled.values, all, row.inverse_deviation};
  });
  add([](Chain& c) {
    const Scaled scaled = scaled_segments(c, kTensor);
    const int centred = c.op("sub", {kTensor, c.reduce(Reduction::mean, kTensor, kRow, true)});
    const int spread = c.reduce(Reduction::mean, c.op("square", {centred}), kRow, true);
    return std::vector{scaled.values, scaled.scale, spread};
  });
  // The other reductions.
  add([](Chain& c) {
    const int y = c.op("sub", {kTensor, c.reduce(Reduction::mean, kTensor, kRow, true)});
    const int least = c.reduce(Reduction::amin, y, kSegment, true);
    const int any = c.reduce(Reduction::any, c.op("gt", {y, c.constant(2)}), kSegment, true);
    const int all = c.reduce(Reduction::all, c.op("lt", {y, c.constant(3)}), kSegment, true);
    const int sum = c.reduce(Reduction::sum, y, kSegment, true);
    const int raised = c.op("where", {any, c.op("sub", {y, least}), y});
    return std::vector{c.op("add", {raised, sum}), c.op("where", {all, sum, least})};
  });
}

// Operands of one element per segment, alone and beside what its lanes have found out.
void add_segment_operands(std::vector<Case>& cases, DType type, const Dims& shape) {
  const std::vector<Operand> inputs = {Operand::dense(type, shape), Operand::dense(DType::f32, {shape[0], shape[1], 1}),
                                       Operand::dense(type, {shape[1], 1})};
  cases.push_back(built(inputs, [](Chain& c) {
    const int y = norm_of_row(c, c.op("mul", {kTensor, kSecond}));
    const Scaled scaled = scaled_segments(c, c.op("mul", {y, kThird}));
    return std::vector{scaled.values, c.op("mul", {scaled.scale, c.op("add", {kSecond, kThird})})};
  }));
}

}  // namespace

std::vector<Case> lane_segment_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) add_lane_lengths(cases, type);
  for (const Dims& shape : {Dims{3, 4, 32}, Dims{5, 3, 8}, Dims{2, 40, 64}}) add_lane_chains(cases, DType::f32, shape);
  add_lane_chains(cases, DType::bf16, {2, 64, 32});
  for (const Dims& shape : {Dims{3, 4, 32}, Dims{2, 48, 16}}) {
    add_segment_operands(cases, DType::f16, shape);
    add_segment_operands(cases, DType::f32, shape);
  }
  for (const Fill fill : {Fill::rows, Fill::specials, Fill::bits}) {
    cases.push_back(built(residual_operands(DType::f32, {9, 4, 32}), residual_and_scales));
    cases.back().fill = fill;
    cases.back().row_dims = 4;
  }
  // The new residual takes the old one's place.
  cases.push_back(built(residual_operands(DType::bf16, {6, 8, 32}), residual_and_scales, {DType::bf16}));
  cases.back().in_place[0] = kSecond;
  return cases;
}

// ---- random chains

LaneSegmentFamily::LaneSegmentFamily(std::uint64_t seed) : random_(seed) {
  is_split_ = random_.percent(20);
  draw_operand(0);
  int y = pointwise(kTensor);
  const bool row_first = random_.percent(70);
  y = row_first ? with_row(y) : with_segment(y);
  y = pointwise(y);
  y = row_first ? with_segment(y) : with_row(y);
  if (random_.percent(20)) y = with_segment(pointwise(y));
  chain_.results.push_back(y);
  if (random_.percent(10)) chain_.results.push_back(chain_.reduce(Reduction::amax, chain_.op("abs", {y}), {}, false));
  if (random_.percent(30)) std::ranges::reverse(chain_.results);
  for (std::size_t i = 0; i < chain_.results.size(); ++i)
    output_types_.push_back(random_.percent(60) ? sources_[0].dtype : draw_type(random_));
  const auto full = std::ranges::find(chain_.results, y);
  if (random_.percent(30)) {
    in_place_ = static_cast<int>(full - chain_.results.begin());
    output_types_[static_cast<std::size_t>(in_place_)] = sources_[0].dtype;
  }
}

int LaneSegmentFamily::draw_operand(unsigned repeated) {
  Source source;
  source.dtype = random_.percent(60) && !sources_.empty() ? sources_[0].dtype : draw_type(random_);
  if (source.dtype == DType::boolean) source.dtype = DType::bf16;
  source.repeated = repeated;
  source.padded = random_.percent(15);
  sources_.push_back(source);
  return chain_.input(static_cast<int>(sources_.size()) - 1);
}

int LaneSegmentFamily::pointwise(int value) {
  const unsigned all = (1U << (is_split_ ? 4 : 3)) - 1;
  if (random_.percent(40)) value = chain_.op("mul", {value, draw_operand(draw_subset(all))});
  if (random_.percent(40)) value = chain_.op("add", {value, draw_operand(draw_subset(all))});
  return random_.percent(40) ? chain_.op(random_.pick({"silu", "tanh", "abs", "relu", "sigmoid"}), {value}) : value;
}

int LaneSegmentFamily::with_row(int value) {
  const int of = random_.percent(40) ? 0 : random_.between(1, 3);
  if (of == 0) return rms_norm(chain_, value, kNoOperand, 1e-5, kRow);
  if (of == 1) return normalised(chain_, value, 1e-5, kRow).value;
  if (of == 2) return softmax(chain_, value, kRow);
  const int largest = chain_.reduce(Reduction::amax, value, kRow, true);
  if (random_.percent(40)) chain_.results.push_back(largest);
  return chain_.op("sub", {value, largest});
}

int LaneSegmentFamily::with_segment(int value) {
  switch (random_.below(4)) {
    case 0:
      return softmax(chain_, value, kSegment);
    case 1:
      return normalised(chain_, value, 1e-5, kSegment).value;
    case 2: {
      const int mean = chain_.reduce(Reduction::mean, value, kSegment, true);
      return chain_.op("sub", {value, mean});
    }
    default: {
      const Scaled scaled = scaled_segments(chain_, value);
      if (random_.percent(70)) chain_.results.push_back(scaled.scale);
      return scaled.values;
    }
  }
}

Case LaneSegmentFamily::next(int elements) {
  const std::int64_t length = std::int64_t{1} << random_.between(1, 9);
  const bool many = random_.percent(10);  // rows, shorter ones
  const auto segments = static_cast<int>(std::max<std::int64_t>((many ? elements / 20 : elements) / length, 2));
  Dims extents = {many ? random_.between(20, 150) : random_.between(1, 5),
                  random_.percent(30) ? std::int64_t{segments} : random_.between(2, segments)};
  const std::int64_t inner = is_split_ && length > 2 ? std::int64_t{2} << random_.below(2) : length;
  if (is_split_) extents.push_back(length / inner);
  extents.push_back(inner);
  Case test;
  test.chain = chain_;
  for (const Source& source : sources_) {
    Operand operand;
    operand.dtype = source.dtype;
    Dims padded;
    for (int d = 0; d < extents.size(); ++d) {
      operand.shape.push_back((source.repeated >> d & 1U) != 0 ? 1 : extents[d]);
      padded.push_back(operand.shape[d] + (source.padded && d > 0 ? 3 : 0));
    }
    operand.strides = row_major(padded);
    operand.lead = random_.percent(70) ? 0 : random_.between(0, 17);
    test.inputs.push_back(operand);
  }
  give_outputs(test, output_types_, in_place_);
  test.fill = draw_row_fill(random_);
  test.row_dims = 1U << (extents.size() - 1);
  test.data_seed = random_.bits();
  return test;
}

std::vector<Case> random_lane_segment_cases(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  return draw_cases<LaneSegmentFamily>(seed, count, per_family, elements);
}

}  // namespace epifuse::test
