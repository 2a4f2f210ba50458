// Draws chains and layouts. Weights favour what tails look like, and leave nothing out.
#include "support/random_case.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace epifuse::test {
namespace {

class ChainBuilder {
 public:
  ChainBuilder(Random& random, const std::vector<DType>& inputs, int scalars, bool exact)
      : random_(random), exact_(exact) {
    for (std::size_t i = 0; i < inputs.size(); ++i) add(chain_.input(static_cast<int>(i)), inputs[i] == DType::boolean);
    for (int i = 0; i < scalars; ++i) add(chain_.scalar(i), false);
    last_ = 0;
  }

  Chain build(int operations, int results) {
    for (int i = 0; i < operations; ++i) step();
    chain_.results.push_back(last_);
    while (static_cast<int>(chain_.results.size()) < results) {
      // Operations before operands: an input as a result is rare, but allowed.
      const int candidate = random_.below(static_cast<int>(chain_.steps.size()));
      const auto kind = chain_.steps[static_cast<std::size_t>(candidate)].kind;
      if (kind == Step::Kind::op || kind == Step::Kind::cast || random_.percent(5)) chain_.results.push_back(candidate);
    }
    return chain_;
  }

 private:
  void add(int value, bool truth) {
    truths_.resize(static_cast<std::size_t>(value) + 1, false);
    truths_[static_cast<std::size_t>(value)] = truth;
  }

  void step() {
    const auto table = definitions();
    if (random_.percent(8)) {
      const DType type = random_.pick(std::span<const DType>(kAllDTypes));
      last_ = chain_.cast(last_, type == DType::f64 && random_.percent(80) ? DType::f32 : type);
      add(last_, type == DType::boolean);
      return;
    }
    const Definition* definition = &random_.pick(table);
    while ((exact_ && !definition->is_exact()) ||
           (definition->kinds[0] == 'n' && truths_[static_cast<std::size_t>(last_)])) {
      definition = &random_.pick(table);
    }
    std::vector<int> args;
    // Most operations take the latest value first, so that little is left dead; some take it elsewhere.
    const int main_position = random_.percent(85) ? 0 : random_.below(definition->arity);
    for (int i = 0; i < definition->arity; ++i) args.push_back(i == main_position ? last_ : argument(*definition, i));
    last_ = chain_.op(definition->name, args);
    add(last_, definition->truth || passes_truth_on(*definition, args));
  }

  // `b * 1` of a bool operand b simplifies to b, which `neg` then refuses as it refuses b.
  bool passes_truth_on(const Definition& definition, const std::vector<int>& args) const {
    static constexpr std::string_view kMayDoNothing[] = {"where", "mul", "div",     "pow",
                                                         "add",   "sub", "minimum", "maximum"};
    return std::ranges::find(kMayDoNothing, definition.name) != std::end(kMayDoNothing) &&
           std::ranges::any_of(args, [&](int arg) { return truths_[static_cast<std::size_t>(arg)]; });
  }

  int argument(const Definition& definition, int position) {
    const int first_default = definition.arity - static_cast<int>(definition.defaults.size());
    if (position >= first_default && random_.percent(50)) {
      return constant(definition.defaults[static_cast<std::size_t>(position - first_default)]);
    }
    if (random_.percent(30)) return constant(draw_constant(random_));
    while (true) {
      const int value = random_.below(static_cast<int>(chain_.steps.size()));
      const bool truth = truths_[static_cast<std::size_t>(value)];
      if (!(definition.kinds[static_cast<std::size_t>(position)] == 'n' && truth)) return value;
    }
  }

  int constant(double value) {
    const int step = chain_.constant(value);
    add(step, false);
    return step;
  }

  Random& random_;
  bool exact_;
  Chain chain_;
  std::vector<bool> truths_;
  int last_ = 0;
};

bool uses_an_input(const Chain& chain) {
  return std::ranges::any_of(chain.steps, [](const Step& step) { return step.kind == Step::Kind::input; });
}

int draw_length(Random& random) {
  if (random.percent(70)) return random.between(1, 6);
  return random.percent(80) ? random.between(7, 16) : random.between(17, 40);
}

}  // namespace

DType draw_type(Random& random) {
  if (random.percent(30)) return DType::f32;
  if (random.percent(40)) return random.pick({DType::f16, DType::bf16});
  return random.pick(std::span<const DType>(kAllDTypes));
}

Fill draw_row_fill(Random& random) {
  return random.percent(70) ? Fill::plain : random.pick({Fill::rows, Fill::specials, Fill::bits});
}

double draw_constant(Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  if (random.percent(60)) return std::round(random.uniform(-8, 8) * 4) / 4;
  if (random.percent(60)) return random.uniform(-3, 3);
  return random.pick({0.0, -0.0, 1.0, -1.0, 2.0, 0.1, 1e-8, 1e30, -1e300, kInf, -kInf,
                      std::numeric_limits<double>::quiet_NaN(), 16777217.0});
}

Chain random_chain(Random& random, int operations, const std::vector<DType>& inputs, int scalars, int results,
                   bool exact) {
  return ChainBuilder(random, inputs, scalars, exact).build(operations, results);
}

Family::Family(std::uint64_t seed) : random_(seed) {
  const int results = random_.percent(75) ? 1 : random_.between(2, 3);
  do {
    input_types_.clear();
    const int inputs = random_.percent(70) ? random_.between(1, 3) : random_.between(4, 5);
    const DType main_type = draw_type(random_);
    for (int i = 0; i < inputs; ++i) input_types_.push_back(random_.percent(50) ? main_type : draw_type(random_));
    const int scalars = random_.percent(70) ? 0 : random_.between(1, 2);
    const Chain drawn =
        random_chain(random_, draw_length(random_), input_types_, scalars, results, random_.percent(50));
    std::vector<int> held_inputs, held_scalars;
    chain_ = without_dead_steps(drawn, held_inputs, held_scalars);
    std::vector<DType> types;
    for (const int i : held_inputs) types.push_back(input_types_[static_cast<std::size_t>(i)]);
    input_types_ = types;
  } while (!uses_an_input(chain_));

  rank_ = random_.percent(80) ? random_.between(1, 4) : random_.between(0, kMaxRank);
  for (int i = 0; i < results; ++i) {
    output_types_.push_back(random_.percent(50) ? input_types_[0] : draw_type(random_));
    output_layouts_.push_back(i > 0 && random_.percent(70) ? output_layouts_[0] : draw_layout(true));
  }
  for (std::size_t i = 0; i < input_types_.size(); ++i) {
    const bool like_output = random_.percent(35);
    input_layouts_.push_back(like_output ? output_layouts_[0] : draw_layout(false));
  }
  in_place_.assign(static_cast<std::size_t>(results), -1);
  if (random_.percent(15)) {
    const int input = random_.below(static_cast<int>(input_types_.size()));
    const auto i = static_cast<std::size_t>(input);
    in_place_[0] = input;
    input_layouts_[i] = output_layouts_[0];
    if (size_of(output_types_[0]) != size_of(input_types_[i])) output_types_[0] = input_types_[i];
  }
}

Family::Layout Family::draw_layout(bool output) {
  Layout layout;
  layout.order = dense_order(rank_);
  layout.aligned = random_.percent(50);
  if (!output && rank_ > 0 && random_.percent(35)) {
    // As a bias has it: one dimension kept, often with leading ones dropped; or any mixture.
    const unsigned all = (1u << rank_) - 1;
    layout.repeated =
        random_.percent(60) ? all & ~(1u << random_.below(rank_)) : static_cast<unsigned>(random_.bits()) & all;
    layout.dropped = 0;
    while (layout.dropped < rank_ && ((layout.repeated >> layout.dropped) & 1u) != 0 && random_.percent(70))
      ++layout.dropped;
  }
  if (random_.percent(output ? 65 : 50)) return layout;
  draw_kind(layout.order, random_, output);
  return layout;
}

Dims draw_extents(Random& random, std::span<const int> order, std::int64_t elements) {
  static constexpr std::int64_t kExtents[] = {1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 32, 33, 64, 97, 125, 128, 257};
  Dims shape;
  for (std::size_t i = 0; i < order.size(); ++i) shape.push_back(1);
  for (const int dim : order) {
    const std::int64_t drawn =
        random.percent(10) ? random.between(1, 1000) : random.pick(std::span<const std::int64_t>(kExtents));
    shape[dim] = std::max<std::int64_t>(1, std::min(drawn, elements));
    elements /= shape[dim];
  }
  return shape;
}

Dims Family::draw_shape(int elements) {
  const std::int64_t most = random_.percent(4) ? elements * std::int64_t{8} : elements;
  // From the innermost dimension out, sometimes the other way, so that the cap does not always cut the same ones.
  const bool inner_first = random_.percent(70);
  std::vector<int> order;
  for (int i = 0; i < rank_; ++i) order.push_back(inner_first ? rank_ - 1 - i : i);
  Dims shape = draw_extents(random_, order, most);
  if (rank_ > 0 && random_.percent(2)) shape[random_.below(rank_)] = 0;
  return shape;
}

Operand Family::make(const Layout& layout, DType dtype, const Dims& shape) {
  Operand operand;
  operand.dtype = dtype;
  for (int i = layout.dropped; i < rank_; ++i) {
    operand.shape.push_back(((layout.repeated >> i) & 1u) != 0 ? 1 : shape[i]);
  }
  operand.strides = strides_of(layout.order, random_, operand.shape, layout.dropped);
  operand.lead = layout.aligned ? 0 : random_.between(0, 17);
  return operand;
}

Case Family::next(int elements) {
  Case test;
  test.chain = chain_;
  Dims shape = draw_shape(elements);
  // A dimension that no input has is 1.
  Dims common;
  for (int i = 0; i < rank_; ++i) {
    const bool covered = std::ranges::any_of(input_layouts_, [&](const Layout& layout) {
      return i >= layout.dropped && ((layout.repeated >> i) & 1u) == 0;
    });
    common.push_back(covered ? shape[i] : 1);
  }
  const auto deepest = std::ranges::min(input_layouts_, {}, &Layout::dropped).dropped;
  Dims output_shape;
  for (int i = deepest; i < rank_; ++i) output_shape.push_back(common[i]);

  for (std::size_t i = 0; i < input_types_.size(); ++i)
    test.inputs.push_back(make(input_layouts_[i], input_types_[i], common));
  for (std::size_t i = 0; i < output_types_.size(); ++i) {
    Layout layout = output_layouts_[i];
    layout.dropped = deepest;
    Operand output = make(layout, output_types_[i], common);
    if (in_place_[i] >= 0) {
      const Operand& input = test.inputs[static_cast<std::size_t>(in_place_[i])];
      output.strides = input.strides;
      output.lead = input.lead;
    }
    test.outputs.push_back(output);
  }
  test.in_place = in_place_;
  for (int i = 0; i < chain_.scalars; ++i) test.scalars.push_back(draw_constant(random_));
  test.fill = random_.percent(70) ? Fill::plain : random_.pick({Fill::specials, Fill::bits});
  test.data_seed = random_.bits();
  return test;
}

}  // namespace epifuse::test
