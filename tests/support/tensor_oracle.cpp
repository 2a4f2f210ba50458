// Evaluates step by step; a tensor is dropped after its last use, so that long chains over many elements fit.
#include "support/tensor_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "support/reductions.hpp"

namespace epifuse::test {
namespace {

// Positions in a tensor of `shape`, broadcast to `space`, in the space's row-major order.
class Positions {
 public:
  Positions(const Dims& shape, const Dims& space) : space_(space) {
    std::int64_t step = 1;
    for (int d = 0; d < space.size(); ++d) {
      at_.push_back(0);
      steps_.push_back(0);
    }
    for (int i = 1; i <= shape.size(); ++i) {
      const std::int64_t extent = shape[shape.size() - i];
      if (extent != 1) steps_[space.size() - i] = step;
      step *= extent;
    }
  }
  std::size_t now() const { return static_cast<std::size_t>(position_); }
  void next() {
    for (int d = space_.size(); d-- > 0;) {
      position_ += steps_[d];
      if (++at_[d] < space_[d]) return;
      position_ -= steps_[d] * space_[d];
      at_[d] = 0;
    }
  }

 private:
  Dims space_, at_, steps_;
  std::int64_t position_ = 0;
};

class Evaluation {
 public:
  Evaluation(const Chain& chain, Compute compute, std::span<const double> scalars,
             std::span<const Tensor<double>> inputs, const Slack& slack)
      : chain_(chain), slack_(slack), compute_(compute), scalars_(scalars), inputs_(inputs) {
    std::vector<Dims> shapes;
    for (const Tensor<double>& input : inputs) shapes.push_back(input.shape);
    const std::vector<Dims> inferred = infer_shapes(chain, shapes);
    uses_.assign(chain.steps.size(), 0);
    for (const Step& step : chain.steps) {
      for (const int arg : step.args) ++uses_[static_cast<std::size_t>(arg)];
    }
    for (const int result : chain.results) ++uses_[static_cast<std::size_t>(result)];
    for (std::size_t i = 0; i < chain.steps.size(); ++i) {
      const Step& step = chain.steps[i];
      constant_.push_back(step.kind == Step::Kind::constant ||
                          ((step.kind == Step::Kind::op || step.kind == Step::Kind::cast) &&
                           std::ranges::all_of(step.args, [&](int arg) { return is_constant(arg); })));
      tensors_.push_back({inferred[i], {}});
      compute_step(step, tensors_.back(), constant_.back() != 0 ? Compute::f64 : compute_);
      for (const int arg : step.args) release(arg);
    }
  }

  std::vector<Tensor<Range>> results() const {
    std::vector<Tensor<Range>> out;
    for (const int result : chain_.results) out.push_back(as(result, compute_));
    return out;
  }

 private:
  bool is_constant(int step) const { return constant_[static_cast<std::size_t>(step)] != 0; }
  const Tensor<Range>& tensor(int step) const { return tensors_[static_cast<std::size_t>(step)]; }

  void release(int step) {
    if (--uses_[static_cast<std::size_t>(step)] == 0) tensors_[static_cast<std::size_t>(step)].values = {};
  }

  // A constant is rounded where it meets anything that is none.
  Tensor<Range> as(int step, Compute compute) const {
    Tensor<Range> out = tensor(step);
    if (!is_constant(step) || compute != compute_) return out;
    const Range exact = out.values[0];
    out.values[0] = {.nan = exact.nan};
    if (!exact.has_number()) return out;
    out.values[0].include(rounded(compute, exact.low));
    out.values[0].include(rounded(compute, exact.high));
    return out;
  }

  void compute_step(const Step& step, Tensor<Range>& out, Compute compute) {
    switch (step.kind) {
      case Step::Kind::input:
        for (const double value : inputs_[static_cast<std::size_t>(step.ordinal)].values)
          out.values.push_back(Range::of(value));
        return;
      case Step::Kind::scalar:
        out.values = {Range::of(rounded(compute_, scalars_[static_cast<std::size_t>(step.ordinal)]))};
        return;
      case Step::Kind::constant:
        out.values = {Range::of(step.constant)};
        return;
      case Step::Kind::cast:
        out.values = as(step.args[0], compute).values;
        for (Range& value : out.values) value = cast_to(step.dtype, value, compute);
        return;
      case Step::Kind::op:
        return compute_operation(step, out, compute);
      case Step::Kind::reduce:
      case Step::Kind::sum_to:
        return compute_reduction(step, out);
      case Step::Kind::count:
        out.values = {Range::of(rounded(compute_, static_cast<double>(reduced_elements(step))))};
        return;
      case Step::Kind::expand_as:
        return expand(as(step.args[0], compute_), out);
      default:  // other shapes of the same elements in the same order
        out.values = as(step.args[0], compute_).values;
    }
  }

  void compute_operation(const Step& step, Tensor<Range>& out, Compute compute) {
    std::vector<Tensor<Range>> args;
    std::vector<Positions> positions;
    for (std::size_t i = 0; i < step.args.size(); ++i) {
      const bool truth = step.definition->kinds[i] == 'b' && is_constant(step.args[i]);
      args.push_back(truth ? tensor(step.args[i]) : as(step.args[i], compute));
      if (truth) args.back().values[0] = truth_of_constant(args.back().values[0]);
    }
    for (const Tensor<Range>& arg : args) positions.emplace_back(arg.shape, out.shape);
    const auto count = static_cast<std::size_t>(elements_of(out.shape));
    out.values.reserve(count);
    std::array<Range, 3> values;
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t k = 0; k < args.size(); ++k) {
        values[k] = args[k].values[positions[k].now()];
        positions[k].next();
      }
      out.values.push_back(apply(*step.definition, std::span(values.data(), args.size()), compute,
                                 compute == compute_ ? slack_ : Slack{}));
      if (step.definition->name == "div" && compute == Compute::f32) loosen_tiny_quotient(values[0], out.values.back());
      if (step.definition->name == "add" && compute == compute_ && may_be_fused(step))
        include_fused(values[0], values[1], out.values.back());
    }
    if (!is_exp_below_maximum(static_cast<int>(tensors_.size()) - 1)) return;
    for (Range& value : out.values) loosen_exponential(value);
  }

  // exp(v - m) may be exp(v - n) * exp(n - m), n the largest of some of the elements: three arguments are rounded where
  // one was, either exponential is within 3 ulp, and what is no normal number may be 0 (docs/guide/accuracy.md).
  void loosen_exponential(Range& value) const {
    if (!value.has_number() || value.high <= 0) return;
    const double unit = compute_ == Compute::f32 ? 0x1p-24 : 0x1p-53;
    const double least = compute_ == Compute::f32 ? 0x1p-126 : 0x1p-1022;
    const auto slack = [&](double end) { return end * unit * (2 * std::fabs(std::log(std::max(end, least))) + 13); };
    const Range given = value;
    value.include(given.low < least ? 0 : rounded(compute_, std::max(given.low - slack(given.low) - least, 0.0)));
    value.include(rounded(compute_, given.high + slack(given.high)));
  }

  // In chains with reductions whose results have few bits a product and what is added to it are one operation: where
  // the product alone overflows, they need not (docs/guide/accuracy.md).
  bool may_be_fused(const Step& sum) const {
    const Step& product = chain_.steps[static_cast<std::size_t>(sum.args[0])];
    return slack_ != Slack{} && product.kind == Step::Kind::op && product.definition->name == "mul" &&
           std::ranges::any_of(chain_.steps, &Step::is_reduction);
  }
  // An infinite product may be any number beyond the largest.
  void include_fused(const Range& product, const Range& added, Range& sum) const {
    if (!product.has_number() || !added.has_number()) return;
    constexpr double largest = std::numeric_limits<float>::max();  // few bits are computed in f32
    if (product.high == std::numeric_limits<double>::infinity()) sum.include(rounded(compute_, largest + added.low));
    if (product.low == -std::numeric_limits<double>::infinity()) sum.include(rounded(compute_, added.high - largest));
  }

  // Quotients by a number of the row come from its reciprocal, and what that rounds off is lost where it is smaller
  // than all numbers: one step of f32 either way (docs/guide/accuracy.md).
  static void loosen_tiny_quotient(const Range& dividend, Range& quotient) {
    const auto largest = [](const Range& range) { return std::max(std::fabs(range.low), std::fabs(range.high)); };
    if (!quotient.has_number() || !dividend.has_number() || largest(dividend) == 0) return;
    if (largest(dividend) >= 0x1p-100 && largest(quotient) >= 0x1p-90) return;
    const auto beside = [](double value, float side) {
      return static_cast<double>(std::nextafter(static_cast<float>(value), side));
    };
    const Range given = quotient;
    quotient.include(beside(given.low, -std::numeric_limits<float>::infinity()));
    quotient.include(beside(given.high, std::numeric_limits<float>::infinity()));
  }

  // How many elements of the argument become one.
  std::int64_t reduced_elements(const Step& step) const {
    const Dims& shape = tensor(step.args[0]).shape;
    const unsigned mask = resolve(step.axes, shape.size());
    std::int64_t count = 1;
    for (int d = 0; d < shape.size(); ++d) {
      if (((mask >> d) & 1u) != 0) count *= shape[d];
    }
    return count;
  }

  static void expand(const Tensor<Range>& given, Tensor<Range>& out) {
    Positions position(given.shape, out.shape);
    for (std::int64_t i = 0; i < elements_of(out.shape); ++i) {
      out.values.push_back(given.values[position.now()]);
      position.next();
    }
  }

  // The shape of a reduction's result as with keepdim, of as many dimensions as the argument or of fewer.
  static Dims kept(const Step& step, const Dims& argument, const Dims& result) {
    if (step.kind == Step::Kind::sum_to) return result;
    Dims held = argument;
    const unsigned mask = resolve(step.axes, held.size());
    for (int d = 0; d < held.size(); ++d) {
      if (((mask >> d) & 1u) != 0) held[d] = 1;
    }
    return held;
  }

  void compute_reduction(const Step& step, Tensor<Range>& out) {
    const Tensor<Range> arg = as(step.args[0], compute_);
    const Dims held = kept(step, arg.shape, out.shape);
    std::vector<std::vector<Range>> groups(static_cast<std::size_t>(elements_of(held)));
    Positions group(held, arg.shape);
    const std::vector<Range> terms = terms_of(step, arg.values);
    for (const Range& value : terms) {
      groups[group.now()].push_back(value);
      group.next();
    }
    const bool rescaled = step.reduction == Reduction::sum && is_exp_below_maximum(step.args[0]);
    for (const std::vector<Range>& elements : groups)
      out.values.push_back(reduce(step.reduction, elements, step.constant, compute_, rescaled));
  }

  // Terms of sums in f32 may be off by 2^-21.9 of 1 or of the function's argument, whichever is larger
  // (docs/guide/accuracy.md).
  std::vector<Range> terms_of(const Step& sum, std::vector<Range> terms) const {
    const bool sums =
        sum.reduction == Reduction::sum || sum.reduction == Reduction::mean || sum.reduction == Reduction::var;
    int index = sum.args[0];
    while (is_moved(index)) index = chain_.steps[static_cast<std::size_t>(index)].args[0];
    const Step& term = chain_.steps[static_cast<std::size_t>(index)];
    constexpr std::array<std::string_view, 5> kCheaper = {"sigmoid", "tanh", "silu", "mish", "gelu"};
    if (!sums || compute_ != Compute::f32 || term.kind != Step::Kind::op ||
        std::ranges::find(kCheaper, term.definition->name) == kCheaper.end())
      return terms;
    // The argument of sigmoid and tanh does not matter, and of the others the result is nearly as large, or its error
    // vanishes beside 1.
    for (Range& value : terms) {
      if (!value.has_number()) continue;
      const Range given = value;
      const auto moved = [](double from, double sign) {
        return std::isinf(from) ? from : from + sign * 0x1.13p-22 * std::max(1.0, std::fabs(from));
      };
      value.include(moved(given.low, -1));
      value.include(moved(given.high, 1));
    }
    return terms;
  }
  bool is_moved(int index) const {
    const Step& step = chain_.steps[static_cast<std::size_t>(index)];
    return step.is_reshaped() || step.kind == Step::Kind::expand_as;
  }

  // exp(v - m) where m is made of an amax: a kernel may find the maximum and the sum in one pass.
  bool is_exp_below_maximum(int index) const {
    const auto is = [&](int i, std::string_view name) {
      const Step& step = chain_.steps[static_cast<std::size_t>(i)];
      return step.kind == Step::Kind::op && step.definition->name == name;
    };
    if (!is(index, "exp")) return false;
    const int difference = chain_.steps[static_cast<std::size_t>(index)].args[0];
    if (!is(difference, "sub")) return false;
    int subtrahend = chain_.steps[static_cast<std::size_t>(difference)].args[1];
    while (is_moved(subtrahend)) subtrahend = chain_.steps[static_cast<std::size_t>(subtrahend)].args[0];
    if (is(subtrahend, "where")) subtrahend = chain_.steps[static_cast<std::size_t>(subtrahend)].args[2];
    const Step& step = chain_.steps[static_cast<std::size_t>(subtrahend)];
    return step.kind == Step::Kind::reduce && step.reduction == Reduction::amax;
  }

  const Chain& chain_;
  Slack slack_;
  Compute compute_;
  std::span<const double> scalars_;
  std::span<const Tensor<double>> inputs_;
  std::vector<int> uses_;
  std::vector<char> constant_;
  std::vector<Tensor<Range>> tensors_;
};

}  // namespace

std::vector<Tensor<Range>> evaluate(const Chain& chain, Compute compute, std::span<const double> scalars,
                                    std::span<const Tensor<double>> inputs, const Slack& slack) {
  return Evaluation(chain, compute, scalars, inputs, slack).results();
}

}  // namespace epifuse::test
