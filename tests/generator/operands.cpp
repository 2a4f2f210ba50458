// Shapes, layouts, aliases and contents of a drawn program's tensors.
#include <algorithm>
#include <numeric>

#include "generator/draw.hpp"
#include "support/layout.hpp"
#include "support/random_case.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

constexpr std::int64_t kSmall[] = {1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33, 64, 128, 257};
constexpr std::int64_t kMedium[] = {1, 2, 3, 4, 6, 8, 16, 31, 64, 100, 256, 1000, 2048, 3601, 4100, 9000};
constexpr std::int64_t kLarge[] = {1,   2,   3,   8,    16,   32,   48,   64,   128,   254,   256,
                                   300, 512, 768, 1000, 1601, 2048, 3601, 4096, 11008, 65536, 131072};

std::int64_t most_elements(Size size) {
  if (size == Size::small) return 800;
  return size == Size::medium ? 40'000 : std::int64_t{1} << 27;
}

std::span<const std::int64_t> extents_of(Size size) {
  if (size == Size::small) return kSmall;
  return size == Size::medium ? std::span<const std::int64_t>(kMedium) : std::span<const std::int64_t>(kLarge);
}

int draw_rank(Random& random) {
  if (random.percent(85)) return random.between(1, 4);
  return random.percent(25) ? 0 : random.between(5, 7);
}

Operand draw_layout(Random& random, DType dtype, const Dims& shape, bool output) {
  Operand operand = Operand::dense(dtype, shape);
  if (random.percent(40) && shape.size() > 0) {
    Order order = dense_order(shape.size());
    draw_kind(order, random, output);
    operand.strides = strides_of(order, random, shape, 0);
  }
  if (random.percent(40)) operand.lead = random.between(0, 17);
  return operand;
}

bool repeats_elements(const Operand& operand) {
  for (int d = 0; d < operand.shape.size(); ++d) {
    if (operand.strides[d] == 0 && operand.shape[d] > 1) return true;
  }
  return false;
}

// An input whose memory the output may be: as large, of elements as large.
void draw_place(Random& random, Case& test, std::size_t output) {
  test.in_place.push_back(-1);
  if (!random.percent(15) || test.inputs.empty()) return;
  const int input = random.below(static_cast<int>(test.inputs.size()));
  const Operand& operand = test.inputs[static_cast<std::size_t>(input)];
  Operand& result = test.outputs[output];
  if (operand.shape != result.shape || repeats_elements(operand)) return;
  const std::size_t memory = test.memory_of(static_cast<std::size_t>(input));
  for (std::size_t i = 0; i < output; ++i) {
    if (test.in_place[i] >= 0 && test.memory_of(static_cast<std::size_t>(test.in_place[i])) == memory) return;
  }
  if (size_of(operand.dtype) != size_of(result.dtype)) result.dtype = operand.dtype;
  result.strides = operand.strides;
  result.lead = operand.lead;
  test.in_place.back() = input;
}

Fill draw_fill(Random& random) {
  if (random.percent(50)) return Fill::plain;
  return random.pick({Fill::rows, Fill::specials, Fill::bits});
}

std::vector<Dims> output_shapes(const Case& test) {
  if (test.chain.has_shaping()) return test.result_shapes();
  Dims all;
  for (const Operand& input : test.inputs) all = broadcast(all, input.shape);
  return std::vector<Dims>(test.chain.results.size(), all);
}

}  // namespace

Dims draw_frame(Random& random, Size size) {
  const int rank = draw_rank(random);
  Dims frame;
  std::vector<int> order;
  for (int d = 0; d < rank; ++d) {
    frame.push_back(1);
    order.insert(order.begin() + random.below(d + 1), d);
  }
  // Long rows, where there are many elements.
  if (size == Size::medium && rank > 0 && random.percent(60)) {
    frame[rank - 1] = random.pick({2048, 2049, 3601, 4096, 9000});
    std::erase(order, rank - 1);
  }
  std::int64_t left = most_elements(size) / (rank > 0 ? frame[rank - 1] : 1);
  for (const int d : order) {
    frame[d] = std::max<std::int64_t>(1, std::min(random.pick(extents_of(size)), left));
    left /= frame[d];
  }
  // Programs over nothing cost nothing.
  const int empty = size == Size::chain ? 0 : size == Size::small ? 25 : 8;
  if (rank > 0 && random.percent(empty)) frame[random.below(rank)] = 0;
  return frame;
}

Dims draw_operand_shape(Random& random, const Dims& frame) {
  const int rank = frame.size();
  const unsigned all = (1u << rank) - 1;
  unsigned kept = all;
  int dropped = 0;
  switch (rank == 0 ? 0 : random.below(8)) {
    case 0:
    case 1:
      return frame;
    case 2:  // a row
      return Dims{frame[rank - 1]};
    case 3:  // a column
      kept = all & ~(1u << (rank - 1));
      break;
    case 4:
      kept = 1u << random.below(rank);
      dropped = random.percent(50) ? random.below(rank) : 0;
      break;
    case 5:
      kept = static_cast<unsigned>(random.bits()) & all;
      dropped = random.percent(30) ? random.below(rank) : 0;
      break;
    case 6:  // one element, of any rank
      kept = 0;
      dropped = random.below(rank);
      break;
    default:
      return {};
  }
  Dims shape;
  for (int d = dropped; d < rank; ++d) shape.push_back(((kept >> d) & 1u) != 0 ? frame[d] : 1);
  return shape;
}

DType draw_any_type(Random& random) { return random.pick(std::span<const DType>(kAllDTypes)); }

void draw_tensors(Random& random, Program& program, const std::vector<DType>& types, const std::vector<Dims>& shapes) {
  Case& test = program.test;
  for (std::size_t i = 0; i < types.size(); ++i) {
    test.inputs.push_back(draw_layout(random, types[i], shapes[i], false));
    test.same.push_back(-1);
    for (std::size_t twin = 0; twin < i; ++twin) {
      const bool alike = types[twin] == types[i] && shapes[twin] == shapes[i] && test.same[twin] < 0;
      if (!alike || !random.percent(25)) continue;
      test.inputs[i] = test.inputs[twin];
      test.same[i] = static_cast<int>(twin);
      break;
    }
  }
  if (std::ranges::all_of(test.same, [](int twin) { return twin < 0; })) test.same.clear();
  const std::vector<Dims> results = output_shapes(test);
  for (std::size_t i = 0; i < results.size(); ++i) {
    test.outputs.push_back(draw_layout(random, draw_any_type(random), results[i], true));
    draw_place(random, test, i);
  }
  for (int i = 0; i < test.chain.scalars; ++i) test.scalars.push_back(draw_constant(random));
  test.fill = draw_fill(random);
  test.row_dims = static_cast<unsigned>(random.below(256));
  test.data_seed = random.bits();
}

Views pretended_views(const Case& test, const Epilogue& tail) {
  std::vector<std::size_t> inputs, scalars;  // `x3` is operand 3 of the case, `s1` its scalar 1
  for (const std::string& name : tail.inputs()) inputs.push_back(std::stoul(name.substr(1)));
  for (const std::string& name : tail.scalars()) scalars.push_back(std::stoul(name.substr(1)));
  return pretended_views(test, inputs, scalars);
}

Views pretended_views(const Case& test, const std::vector<std::size_t>& inputs,
                      const std::vector<std::size_t>& scalars) {
  // The image's bytes are not made, only where they would lie.
  const auto base_of = [](const Operand& operand, std::size_t place) {
    std::int64_t lowest = operand.lead;
    for (int d = 0; d < operand.shape.size(); ++d)
      lowest -= std::min<std::int64_t>(0, (operand.shape[d] - 1) * operand.strides[d]);
    const auto bytes = lowest * static_cast<std::int64_t>(size_of(operand.dtype));
    return reinterpret_cast<unsigned char*>((place + 1) << 44) + (operand.elements() == 0 ? 0 : bytes);
  };
  const auto data_of = [&](const Operand& operand, std::size_t place) {
    return operand.elements() == 0 ? nullptr : base_of(operand, place);
  };
  Views views;
  for (const std::size_t i : inputs) {
    const Operand& operand = test.inputs[i];
    views.inputs.emplace_back(data_of(operand, test.memory_of(i)), operand.dtype, operand.shape, operand.strides);
  }
  for (const std::size_t i : scalars) views.scalars.push_back(test.scalars[i]);
  for (std::size_t i = 0; i < test.outputs.size(); ++i) {
    const Operand& operand = test.outputs[i];
    const bool own = test.in_place[i] < 0;
    const std::size_t place = own ? test.inputs.size() + i : test.memory_of(static_cast<std::size_t>(test.in_place[i]));
    views.outputs.emplace_back(data_of(operand, place), operand.dtype, operand.shape, operand.strides);
  }
  return views;
}

}  // namespace epifuse::test
