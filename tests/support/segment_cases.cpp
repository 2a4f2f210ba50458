// Segments are the innermost dimensions of a row here: every case must become one kernel.
#include "support/segment_cases.hpp"

#include <algorithm>

#include "support/composites.hpp"
#include "support/random_case.hpp"

namespace epifuse::test {
namespace {

constexpr int kX = 0, kGamma = 1, kBeta = 2, kExtra = 3;

int mean_of_segments(Chain& c, int value) { return c.reduce(Reduction::mean, value, {{2}, true}, false); }

// x, gamma and beta of a group norm.
std::vector<Operand> normed(DType type, const Dims& shape) {
  const Operand channels = Operand::dense(type, {shape[1]});
  return {Operand::dense(type, shape), channels, channels};
}

std::vector<int> mean_of_relu(Chain& c) {
  return {mean_of_segments(c, c.op("relu", {group_norm(c, kX, 2, kGamma, kBeta, 1e-5)}))};
}

void add_lengths(std::vector<Case>& cases, DType type) {
  // Rows of a thread, of lanes, of a warp, of warps, of a block, of a cluster; segments of one element and more, at any
  // address.
  for (const Dims& shape :
       {Dims{5, 4, 1, 3}, Dims{200, 4, 3}, Dims{7, 8, 13}, Dims{3, 4, 5, 50}, Dims{66, 16, 9, 9}, Dims{3, 4, 31, 33},
        Dims{3, 6, 1024}, Dims{2, 4, 70, 71}, Dims{66, 4, 1025}, Dims{1, 4, 130, 131}, Dims{1, 26, 61, 31},
        Dims{1, 6, 191, 97}, Dims{66, 32, 7, 7}, Dims{1, 600, 33}})
    cases.push_back(built(normed(type, shape), mean_of_relu, {type}));
}

// Segments that a few lanes reduce each, in vectors that other segments share, of rows that begin anywhere; many more
// segments than lanes, and fewer.
void add_short(std::vector<Case>& cases, DType type) {
  for (const Dims& shape :
       {Dims{40, 32, 2}, Dims{21, 32, 3}, Dims{33, 32, 4, 4}, Dims{17, 64, 8, 8}, Dims{9, 30, 7, 7}, Dims{3, 600, 5},
        Dims{3, 256, 7, 7}, Dims{5, 10, 28, 28}, Dims{2, 64, 14, 14}, Dims{37, 2, 6}})
    cases.push_back(built(normed(type, shape), mean_of_relu, {type}));
}

void add_neighbours(std::vector<Case>& cases, const Dims& shape) {
  const Dims segments = {shape[0], shape[1]};
  const auto inputs = [&](const Operand& extra) {
    std::vector<Operand> all = normed(DType::f32, shape);
    all.push_back(extra);
    return all;
  };
  const Build after = [](Chain& c) {
    const int mean = mean_of_segments(c, group_norm(c, kX, 2, kGamma, kBeta, 1e-5));
    return std::vector{c.op("sigmoid", {c.op("add", {c.op("mul", {mean, c.constant(2)}), kExtra})})};
  };
  cases.push_back(built(inputs(Operand::dense(DType::f32, {shape[1]})), after));
  cases.push_back(built(inputs(Operand::dense(DType::f16, segments)), after));
  cases.push_back(built(inputs(Operand::dense(DType::f32, {shape[0], 1})), after));
  cases.push_back(built(inputs(Operand::dense(DType::f32, segments)), after));
  cases.back().in_place = {kExtra};
  // Every reduction, of the same segments; an operand of each segment in the pass, too.
  cases.push_back(built(inputs(Operand::dense(DType::f32, {shape[1]})), [](Chain& c) {
    const int y = group_norm(c, kX, 2, kGamma, kBeta, 1e-5);
    std::vector<int> results;
    for (const Reduction reduction :
         {Reduction::sum, Reduction::mean, Reduction::amax, Reduction::amin, Reduction::var})
      results.push_back(c.reduce(reduction, y, {{2}, true}, false, 0));
    const int truth = c.op("gt", {y, c.constant(0.5)});
    for (const Reduction reduction : {Reduction::any, Reduction::all})
      results.push_back(c.reduce(reduction, truth, {{2}, true}, false));
    const int near = c.op("add", {c.op("mul", {y, c.constant(0.0078125)}), c.constant(1)});
    results.push_back(c.op("mul", {c.reduce(Reduction::prod, near, {{2}, true}, false), kExtra}));
    return results;
  }));
  // Beside the normalised tensor, in place, and statistics of rows and of all.
  cases.push_back(built(normed(DType::f32, shape), [](Chain& c) {
    const Normalised norm = normalised(c, c.unflatten(kX, 1, {2, -1}), 1e-5, {{2}, true});
    const int y = c.flatten(norm.value, 1, 2);
    return std::vector{y, norm.mean, mean_of_segments(c, c.op("gelu", {y})), c.reduce(Reduction::amax, y, {}, false)};
  }));
  cases.push_back(cases.back());
  cases.back().in_place[0] = kX;
}

}  // namespace

std::vector<Case> segment_cases() {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16}) add_lengths(cases, type);
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) add_short(cases, type);
  for (const Dims& shape : {Dims{7, 8, 13}, Dims{3, 6, 1024}, Dims{1, 4, 130, 131}})
    cases.push_back(built(normed(DType::f64, shape), mean_of_relu, {DType::f64}));
  for (const Dims& shape : {Dims{6, 8, 11}, Dims{19, 64, 16}, Dims{5, 46, 7, 7}, Dims{3, 8, 40, 41}, Dims{2, 4, 90, 91},
                            Dims{1, 4, 150, 151}})
    add_neighbours(cases, shape);
  // A weight for each element of the row; a segment of several dimensions, and a bias along one of them; gaps between
  // lines.
  for (const std::int64_t rows : {3, 160}) {
    for (const std::int64_t lines : {5, 41}) {
      const Build weighed = [](Chain& c) {
        const int y = c.op("add", {layer_norm(c, kX, kGamma, kNoOperand, 1e-5, {{1}, true}), kBeta});
        return std::vector{c.reduce(Reduction::amax, y, {{2}, true}, true)};
      };
      const Operand weight = Operand::dense(DType::f32, {6, lines, 37});
      const Operand bias = Operand::dense(DType::f32, {37});
      Operand x = Operand::dense(DType::f32, {rows, 6, lines, 37});
      cases.push_back(built({x, weight, bias}, weighed));
      x.strides = Dims{6 * lines * 40, lines * 40, 40, 1};
      cases.push_back(built({x, weight, bias}, weighed));
    }
  }
  // Segments in more warps than a warp has lanes.
  cases.push_back(
      built({Operand::dense(DType::f32, {2, 2, 49'999}), Operand::dense(DType::f32, {2, 49'999})}, [](Chain& c) {
        const int y = layer_norm(c, kX, kGamma, kNoOperand, 1e-5, {{1}, true});
        return std::vector{c.reduce(Reduction::sum, y, {{2}, true}, true),
                           c.reduce(Reduction::var, y, {{2}, true}, true, 1)};
      }));
  // The sum of a segment divided by that of its row: a statistic that nothing but segments needs.
  cases.push_back(built({Operand::dense(DType::f32, {9, 7, 45})}, [](Chain& c) {
    const int segment = c.reduce(Reduction::sum, c.op("abs", {kX}), {{2}}, true);
    return std::vector{c.op("div", {segment, c.reduce(Reduction::sum, c.op("abs", {kX}), {{1, 2}}, true)})};
  }));
  // No elements: of each part, of the row, of all.
  for (const Dims& shape : {Dims{3, 4, 0}, Dims{0, 4, 5}})
    cases.push_back(built(normed(DType::f32, shape), [](Chain& c) {
      const int y = group_norm(c, kX, 2, kGamma, kBeta, 1e-5);
      return std::vector{mean_of_segments(c, y), c.reduce(Reduction::sum, y, {{2}, true}, false)};
    }));
  return cases;
}

std::vector<Case> long_segment_cases() {
  std::vector<Case> cases;
  // Rounds within segments, segments within rounds, at any address.
  const std::pair<DType, Dims> norms[] = {{DType::f32, {1, 4, 90, 101}},
                                          {DType::f32, {1, 600, 67}},
                                          {DType::f32, {1, 4, 16'384}},
                                          {DType::f16, {1, 4, 130, 131}},
                                          {DType::f64, {1, 4, 70, 71}}};
  for (const auto& [type, shape] : norms) {
    cases.push_back(
        built(normed(type, shape),
              [](Chain& c) {
                const int y = group_norm(c, kX, 2, kGamma, kBeta, 1e-5);
                return std::vector{mean_of_segments(c, y), c.reduce(Reduction::var, y, {{2}, true}, false, 1)};
              },
              {type}));
  }
  // A weight for each element.
  cases.push_back(
      built({Operand::dense(DType::f32, {2, 5, 33, 121}), Operand::dense(DType::f32, {5, 33, 121})}, [](Chain& c) {
        const int y = layer_norm(c, kX, kGamma, kNoOperand, 1e-5, {{1}, true});
        return std::vector{c.reduce(Reduction::sum, c.op("relu", {y}), {{2}, true}, true)};
      }));
  return cases;
}

// ---- means for which segment means suffice

namespace {

void add_means(std::vector<Case>& cases, DType type, const Dims& shape) {
  const auto norm = [](Chain& c, int value) { return group_norm(c, value, 2, kGamma, kBeta, 1e-5); };
  const auto add = [&](const Build& build) { cases.push_back(built(normed(type, shape), build, {type})); };
  // Over pixels, with a nonlinear operation before; over all but the batch; both, and what is known of the rows.
  add([&](Chain& c) { return std::vector{mean_of_segments(c, norm(c, c.op("silu", {kX})))}; });
  add([&](Chain& c) { return std::vector{c.reduce(Reduction::mean, norm(c, kX), {{1}, true}, false)}; });
  add([&](Chain& c) {
    const Normalised rows = normalised(c, c.unflatten(kX, 1, {2, -1}), 1e-5, {{2}, true});
    const int y = c.flatten(rows.value, 1, 2);
    const int all = c.reduce(Reduction::mean, y, {{1}, true}, true);
    return std::vector{mean_of_segments(c, y), rows.inverse_deviation, c.op("exp", {all}), rows.mean};
  });
}

// All rows of a result are one block's.
void add_mean_across(std::vector<Case>& cases, DType type, std::int64_t batch, int groups) {
  const Build mean = [&](Chain& c) {
    const int norm = group_norm(c, kX, groups, kGamma, kBeta, 1e-5);
    return std::vector{c.reduce(Reduction::mean, norm, {{1}, true}, false)};
  };
  cases.push_back(built(normed(type, {batch, 3 * groups, 1029}), mean, {type}));
}

void add_other_means(std::vector<Case>& cases, const Dims& shape) {
  const DType type = DType::f32;
  const auto with = [&](const Operand& extra) {
    std::vector<Operand> inputs = normed(type, shape);
    inputs.push_back(extra);
    return inputs;
  };
  // More of the tail behind the mean, over an operand of segments, in place too; and a bias within the average.
  const Build after = [](Chain& c) {
    const int mean = mean_of_segments(c, group_norm(c, kX, 2, kGamma, kBeta, 1e-5));
    return std::vector{c.op("sigmoid", {c.op("add", {c.op("mul", {mean, c.constant(2)}), kExtra})})};
  };
  cases.push_back(built(with(Operand::dense(type, {shape[0], shape[1]})), after));
  cases.push_back(cases.back());
  cases.back().in_place = {kExtra};
  const Build before = [](Chain& c) {
    const int biased = c.op("relu", {c.op("add", {kX, kExtra})});
    return std::vector{mean_of_segments(c, group_norm(c, biased, 2, kGamma, kBeta, 1e-5))};
  };
  cases.push_back(built(with(Operand::dense(type, {shape[1], 1})), before));
  cases.push_back(built(with(Operand::dense(DType::f16, {shape[2]})), before));
  cases.push_back(built(with(Operand::dense(DType::f16, shape)), before));
  // Gaps between lines, as many segments as channels; quotients, differences and signs.
  Operand x = Operand::dense(type, shape);
  x.strides = {shape[1] * (shape[2] + 5), shape[2] + 5, 1};
  cases.push_back(built({x}, [](Chain& c) {
    const AxisList axes = {{1}, true};
    const int largest = c.reduce(Reduction::amax, c.op("abs", {kX}), axes, true);
    const int scaled = c.op("div", {c.op("neg", {c.op("sub", {c.constant(3), kX})}), largest});
    return std::vector{mean_of_segments(c, c.op("sub", {scaled, c.op("mul", {scaled, c.constant(0.25)})}))};
  }));
}

}  // namespace

std::vector<Case> segment_mean_cases(std::int64_t batch) {
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::f64}) add_means(cases, type, {batch, 6, 2077});
  add_means(cases, DType::f32, {batch, 8, 3 * 1024});
  add_means(cases, DType::f16, {batch, 4, 8192 + 64});
  add_means(cases, DType::f16, {batch, 40, 2048});
  const std::int64_t at_once = std::max<std::int64_t>(batch - 30, 1);  // of 1024 threads, on most of a device
  for (const int groups : {4, 8}) {
    for (const DType type : {DType::f32, DType::bf16}) add_mean_across(cases, type, at_once, groups);
  }
  for (const std::int64_t pixels : {2063, 4096}) add_other_means(cases, {batch, 6, pixels});
  for (const Fill fill : {Fill::rows, Fill::specials, Fill::bits}) {
    add_means(cases, DType::f32, {batch, 4, 1029});
    for (std::size_t i = 0; i < 3; ++i) cases.rbegin()[static_cast<std::ptrdiff_t>(i)].fill = fill;
  }
  return cases;
}

std::vector<Case> few_segment_mean_cases() {
  std::vector<Case> cases;
  const auto add = [&](DType type, const Dims& shape) {
    const auto mean_of_norm = [](Chain& c) {
      const int norm = group_norm(c, c.op("silu", {kX}), 2, kGamma, kBeta, 1e-5);
      return std::vector{mean_of_segments(c, norm)};
    };
    cases.push_back(built(normed(type, shape), mean_of_norm, {type}));
  };
  for (const std::int64_t pixels : {16'384, 16'385, 20'011}) add(DType::f32, {1, 6, pixels});
  add(DType::f32, {2, 4, 24'002});
  for (const DType type : {DType::f16, DType::bf16}) add(type, {1, 8, 24'001});
  return cases;
}

// ---- random chains

SegmentFamily::SegmentFamily(std::uint64_t seed) : random_(seed) {
  const bool is_group_norm = random_.percent(40);
  row_ = is_group_norm ? 1 : random_.between(1, 2);
  segment_ = row_ + (is_group_norm || random_.percent(70) ? 1 : 2);
  rank_ = segment_ + random_.between(1, 2);
  if (is_group_norm) groups_ = random_.pick({1, 2, 4});
  keepdim_ = random_.percent(40);
  draw_operand(0, false);
  const int y = value_of_rows();
  const int count = random_.percent(60) ? 1 : random_.between(2, 4);
  for (int i = 0; i < count; ++i) chain_.results.push_back(segment_result(y));
  if (random_.percent(25)) chain_.results.push_back(y);
  if (groups_ == 0 && random_.percent(25))
    chain_.results.push_back(chain_.reduce(Reduction::amin, kX, {{row_}, true}, true));
  if (random_.percent(10)) chain_.results.push_back(chain_.reduce(Reduction::amax, chain_.op("abs", {y}), {}, false));
  if (random_.percent(30)) std::ranges::reverse(chain_.results);
  for (std::size_t i = 0; i < chain_.results.size(); ++i)
    output_types_.push_back(random_.percent(60) ? sources_[0].dtype : draw_type(random_));
  const auto full = std::ranges::find(chain_.results, y);
  if (full != chain_.results.end() && random_.percent(40)) {
    in_place_ = static_cast<int>(full - chain_.results.begin());
    output_types_[static_cast<std::size_t>(in_place_)] = sources_[0].dtype;
  }
}

int SegmentFamily::draw_operand(unsigned repeated, bool of_segment) {
  Source source;
  source.dtype = random_.percent(60) && !sources_.empty() ? sources_[0].dtype : draw_type(random_);
  if (source.dtype == DType::boolean) source.dtype = DType::f16;
  source.repeated = repeated;
  source.padded = !of_segment && random_.percent(20);
  source.aligned = random_.percent(50);
  source.of_segment = of_segment;
  sources_.push_back(source);
  return chain_.input(static_cast<int>(sources_.size()) - 1);
}

unsigned SegmentFamily::draw_subset(unsigned dimensions) { return static_cast<unsigned>(random_.bits()) & dimensions; }

int SegmentFamily::value_of_rows() {
  static constexpr std::string_view kActivations[] = {"gelu", "relu", "sigmoid", "tanh", "silu", "abs", "square"};
  const auto activation = [&](int value) {
    return chain_.op(random_.pick(std::span<const std::string_view>(kActivations)), {value});
  };
  const AxisList axes{{row_}, true};
  int y = kX;
  if (random_.percent(30)) y = chain_.op("add", {y, draw_operand(0, false)});
  if (random_.percent(20)) y = chain_.op("mul", {y, draw_operand(draw_subset(all()), false)});
  if (random_.percent(40)) y = activation(y);
  if (groups_ > 0) {
    y = group_norm(chain_, y, groups_, kNoOperand, kNoOperand, 1e-5);
  } else {
    switch (random_.below(4)) {
      case 0:
        y = softmax(chain_, y, axes);
        break;
      case 1:
        y = rms_norm(chain_, y, kNoOperand, 1e-5, axes);
        break;
      case 2:
        y = chain_.op("sub", {y, chain_.reduce(Reduction::amax, y, axes, true)});
        break;
      default:
        y = normalised(chain_, y, 1e-5, axes).value;
    }
  }
  if (random_.percent(50)) y = chain_.op("mul", {y, draw_operand(draw_subset(all()), false)});
  if (random_.percent(50)) y = chain_.op("add", {y, draw_operand(inner() | draw_subset(all()), false)});
  if (random_.percent(40)) y = activation(y);
  return y;
}

int SegmentFamily::segment_result(int value) {
  const Reduction reduction = random_.pick({Reduction::sum, Reduction::mean, Reduction::mean, Reduction::amax,
                                            Reduction::amin, Reduction::var, Reduction::any});
  int argument = value;
  if (random_.percent(30)) argument = chain_.op("maximum", {argument, chain_.constant(-0.25)});
  if (reduction == Reduction::any) argument = chain_.op("gt", {argument, chain_.constant(0.5)});
  int result = chain_.reduce(reduction, argument, {{segment_}, true}, keepdim_, random_.pick({0.0, 1.0}));
  if (random_.percent(30)) result = chain_.op("mul", {result, chain_.constant(2)});
  if (random_.percent(40)) result = chain_.op("add", {result, draw_operand(draw_subset(all() & ~inner()), true)});
  return random_.percent(30) ? chain_.op("tanh", {result}) : result;
}

Case SegmentFamily::next(int elements) {
  std::vector<int> order;
  for (int d = rank_; d-- > 0;) order.push_back(d);
  if (random_.percent(50)) std::ranges::swap(order.front(), order[static_cast<std::size_t>(rank_ - segment_)]);
  const bool many = random_.percent(10);  // rows for all multiprocessors
  Dims extents = draw_extents(random_, order, many ? elements / 20 : elements);
  extents[0] = many ? 150 : random_.between(1, 3);
  if (groups_ > 0) extents[1] *= groups_;
  Case test;
  test.chain = chain_;
  for (const Source& source : sources_) {
    Operand operand;
    operand.dtype = source.dtype;
    Dims padded;
    for (int d = 0; d < (source.of_segment && !keepdim_ ? segment_ : rank_); ++d) {
      const bool one = (source.repeated >> d & 1u) != 0 || (source.of_segment && d >= segment_);
      operand.shape.push_back(one ? 1 : extents[d]);
      padded.push_back(operand.shape[d] + (source.padded && d > 0 ? 3 : 0));
    }
    operand.strides = row_major(padded);
    operand.lead = source.aligned ? 0 : random_.between(0, 17);
    test.inputs.push_back(operand);
  }
  give_outputs(test, output_types_, in_place_);
  test.fill = draw_row_fill(random_);
  for (int d = 0; d < row_; ++d) test.row_dims |= 1u << (rank_ - 1 - d);
  test.data_seed = random_.bits();
  return test;
}

std::vector<Case> random_segment_cases(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  return draw_cases<SegmentFamily>(seed, count, per_family, elements);
}

// ---- random chains whose means need segment means only

SegmentMeanFamily::SegmentMeanFamily(std::uint64_t seed) : random_(seed) {
  is_image_ = random_.percent(40);
  is_padded_ = !is_image_ && random_.percent(20);
  groups_ = random_.pick({1, 2, 4});
  draw_operand(true);
  const int y = value_of_rows();
  const int count = random_.percent(60) ? 1 : random_.between(2, 3);
  for (int i = 0; i < count; ++i) chain_.results.push_back(mean_of(y, random_.percent(60)));
  // Where rows are groups, a statistic of all channels is none of one row.
  if (random_.percent(20) && groups_ == 1)
    chain_.results.push_back(chain_.reduce(Reduction::amax, kX, {{1}, true}, true));
  for (std::size_t i = 0; i < chain_.results.size(); ++i)
    output_types_.push_back(random_.percent(60) ? sources_[0].dtype : draw_type(random_));
}

// The first is the tensor itself; others have an element per channel, or per sample and channel.
int SegmentMeanFamily::draw_operand(bool per_sample) {
  DType type = random_.percent(60) && !sources_.empty() ? sources_[0].dtype : draw_type(random_);
  if (type == DType::boolean) type = DType::f16;
  sources_.push_back({type, per_sample});
  return chain_.input(static_cast<int>(sources_.size()) - 1);
}

int SegmentMeanFamily::value_of_rows() {
  int y = kX;
  if (random_.percent(30)) y = chain_.op("add", {y, draw_operand(false)});
  if (random_.percent(50)) y = chain_.op(random_.pick({"gelu", "relu", "silu", "tanh", "abs"}), {y});
  if (groups_ > 1 || random_.percent(50)) {
    y = group_norm(chain_, y, groups_, kNoOperand, kNoOperand, 1e-5);
  } else if (random_.percent(50)) {
    y = normalised(chain_, y, 1e-5, {{1}, true}).value;
  } else {
    const int largest = chain_.reduce(Reduction::amax, chain_.op("abs", {y}), {{1}, true}, true);
    y = chain_.op("div", {y, chain_.op("add", {largest, chain_.constant(1)})});
  }
  if (random_.percent(40)) y = chain_.op("mul", {y, draw_operand(random_.percent(30))});
  if (random_.percent(40)) y = chain_.op("add", {draw_operand(random_.percent(30)), y});
  if (random_.percent(30)) y = chain_.op("sub", {chain_.constant(0.5), y});
  return random_.percent(20) ? chain_.op("neg", {y}) : y;
}

int SegmentMeanFamily::mean_of(int value, bool over_segments) {
  const int mean = chain_.reduce(Reduction::mean, value, {{over_segments ? 2 : 1}, true}, random_.percent(50));
  return random_.percent(30) ? chain_.op("tanh", {chain_.op("mul", {mean, chain_.constant(2)})}) : mean;
}

Case SegmentMeanFamily::next(int elements) {
  constexpr int kLeast = 2048;  // a block's step over elements of 8 bits
  const int channels = groups_ * random_.between(2, 4);
  const int pixels = random_.between(kLeast, std::max(kLeast, elements));
  const int lines = random_.between(2, 50);
  Dims extents = {random_.between(2, 4), channels};
  if (is_image_) {
    extents.push_back(lines);
    extents.push_back((pixels + lines - 1) / lines);
  } else {
    extents.push_back(pixels);
  }
  Case test;
  test.chain = chain_;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    Operand operand;
    operand.dtype = sources_[i].dtype;
    operand.shape = extents;
    for (int d = 2; i > 0 && d < extents.size(); ++d) operand.shape[d] = 1;
    if (!sources_[i].per_sample) operand.shape[0] = 1;
    Dims padded = operand.shape;
    if (i == 0 && is_padded_) padded[2] += random_.between(1, 9);
    operand.strides = row_major(padded);
    operand.lead = random_.percent(50) ? 0 : random_.between(0, 17);
    test.inputs.push_back(operand);
  }
  give_outputs(test, output_types_);
  test.fill = draw_row_fill(random_);
  test.row_dims = 1u << (extents.size() - 1);
  test.data_seed = random_.bits();
  return test;
}

std::vector<Case> random_segment_mean_cases(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  return draw_cases<SegmentMeanFamily>(seed, count, per_family, elements);
}

}  // namespace epifuse::test
