// From the operands' dimensions through the split, some stages of reductions and back. Weights favour softmax and
// norms, and tame operations: what multiplies errors leaves the oracle nothing to judge.
#include "support/reduction_chain.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "support/composites.hpp"

namespace epifuse::test {
namespace {

struct Value {
  int step = 0;
  unsigned span = 0;  // dimensions over which it varies, after the split
  bool truth = false;
  bool whole_rank = true;  // false: a reduction without keepdim is in it
  bool linked =
      true;  // to the main operand, by operations on elements: nothing else says that their dimensions are the same
};

constexpr std::string_view kTame[] = {"add",     "sub",  "mul",  "add",   "sub",      "mul",        "maximum",
                                      "minimum", "relu", "gelu", "silu",  "tanh",     "sigmoid",    "abs",
                                      "square",  "exp",  "div",  "where", "hardtanh", "leaky_relu", "clamp"};

class Drawer {
 public:
  Drawer(Random& random, const Frame& frame, const std::vector<Source>& sources, const std::vector<bool>& truths)
      : random_(random), frame_(frame), sources_(sources) {
    for (std::size_t i = 0; i < sources.size(); ++i) {
      inputs_.push_back(
          {chain_.input(static_cast<int>(i)), span_of(sources[i]), truths[i], sources[i].dropped == 0, i == 0});
    }
  }

  Chain draw() {
    rank_ = frame_.base_rank();
    last_ = inputs_[0];
    take_inputs(false);
    elementwise_steps(random_.percent(50) ? random_.between(1, 3) : 0);
    if (frame_.split >= 0) split();
    const bool trailing_only = random_.percent(30);
    if (!trailing_only) {
      const int stages = random_.percent(60) ? 1 : random_.between(2, 3);
      for (int i = 0; i < stages; ++i) stage();
    }
    if (frame_.split >= 0 && !trailing_only && random_.percent(75)) merge();
    results(trailing_only);
    return chain_;
  }

 private:
  unsigned span_of(const Source& source) const {
    const auto segment_of = [&](int base) {
      if (frame_.split < 0 || source.after_split || base < frame_.split) return 1u << base;
      return base == frame_.split ? 3u << base : 1u << (base + 1);
    };
    unsigned span = 0;
    const int own = source.after_split ? frame_.rank : frame_.base_rank();
    for (int d = 0; d < own; ++d) {
      const bool has =
          source.along >= 0 ? d == source.along : d >= source.dropped && ((source.repeated >> d) & 1u) == 0;
      if (has) span |= segment_of(d);
    }
    return span;
  }

  // The operands of this form, beside the value at hand.
  void take_inputs(bool after_split) {
    pool_ = {last_};
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      Value value = inputs_[i];
      if (sources_[i].after_split != after_split) continue;
      if (sources_[i].along >= 0) value.step = chain_.along(value.step, last_.step, sources_[i].along);
      pool_.push_back(value);
    }
  }

  double tame_constant() {
    const double value = std::round(random_.uniform(-3, 3) * 4) / 4;
    return value == 0 ? 0.5 : value;
  }

  const Value& any_of_pool() { return random_.pick(std::span<const Value>(pool_)); }

  // An operation with `main` among its arguments.
  Value elementwise(const Value& main) {
    const bool tame = random_.percent(92);
    const Definition* d = nullptr;
    do {
      d = tame ? &definition(random_.pick(std::span<const std::string_view>(kTame))) : &random_.pick(definitions());
    } while (d->kinds[0] == 'n' && main.truth);
    const int position = d->name == "where" ? random_.between(1, 2) : random_.percent(85) ? 0 : random_.below(d->arity);
    Value out{0, 0, d->truth, main.whole_rank, main.linked};
    std::vector<int> args;
    bool passes_truth = false;
    for (int i = 0; i < d->arity; ++i) {
      const auto kind = d->kinds[static_cast<std::size_t>(i)];
      Value arg = i == position ? main : any_of_pool();
      const bool number =
          i != position && (random_.percent(45) || (kind == 'n' && arg.truth) || (d->name == "div" && i == 1));
      if (number) arg = {chain_.constant(tame_constant()), 0, false, true, false};
      if (d->name == "where" && i == 0) arg.step = chain_.op("gt", {arg.step, chain_.constant(tame_constant())});
      out.span |= arg.span;
      out.linked |= arg.linked;
      out.whole_rank |= arg.span != 0 && arg.whole_rank;
      passes_truth |= arg.truth;
      args.push_back(arg.step);
    }
    static constexpr std::string_view kMayDoNothing[] = {"where", "mul", "div",     "pow",
                                                         "add",   "sub", "minimum", "maximum"};
    out.truth |= passes_truth && std::ranges::find(kMayDoNothing, d->name) != std::end(kMayDoNothing);
    out.step = chain_.op(d->name, args);
    return out;
  }

  void elementwise_steps(int count) {
    for (int i = 0; i < count; ++i) {
      last_ = elementwise(last_);
      pool_.push_back(last_);
    }
  }

  void split() {
    const int rank = rank_;
    rank_ = frame_.rank;
    last_.step =
        chain_.unflatten(last_.step, random_.percent(30) ? frame_.split - rank : frame_.split, {frame_.groups, -1});
    take_inputs(true);
  }

  void merge() {
    const bool from_back = random_.percent(30);
    const int shift = from_back ? -rank_ : 0;
    last_.step = chain_.flatten(last_.step, frame_.split + shift, frame_.split + 1 + shift);
    rank_ = frame_.base_rank();
    merged_ = true;
    take_inputs(false);
    elementwise_steps(random_.between(0, 2));
  }

  // The mask as someone might write it.
  AxisList axes(unsigned mask) {
    AxisList out;
    const unsigned all = (1u << rank_) - 1;
    if (mask == all && random_.percent(40)) return out;
    for (int d = 0; d < rank_; ++d) {
      if (((mask >> d) & 1u) != 0) out.at.push_back(random_.percent(30) ? d - rank_ : d);
    }
    const int first = out.at.front() < 0 ? out.at.front() + rank_ : out.at.front();
    if ((mask >> first) == (all >> first) && random_.percent(30)) {
      out.at.resize(1);
      out.rest = true;
    } else if (random_.percent(20)) {
      std::ranges::reverse(out.at);
    }
    return out;
  }

  Value reduce(Value arg, unsigned mask, bool keep) {
    static constexpr Reduction kWeighted[] = {Reduction::sum,  Reduction::sum,  Reduction::sum,  Reduction::mean,
                                              Reduction::mean, Reduction::mean, Reduction::amax, Reduction::amax,
                                              Reduction::amax, Reduction::amin, Reduction::amin, Reduction::var,
                                              Reduction::var,  Reduction::prod, Reduction::any,  Reduction::all};
    const Reduction kind = random_.pick(std::span<const Reduction>(kWeighted));
    const bool truth = kind == Reduction::any || kind == Reduction::all;
    if (truth && random_.percent(80)) {
      arg.step = chain_.op(random_.percent(50) ? "gt" : "lt", {arg.step, chain_.constant(tame_constant())});
    }
    // Factors near 1: a product of usual numbers is 0 or infinity.
    if (kind == Reduction::prod && random_.percent(90)) {
      const int near = chain_.op("mul", {arg.step, chain_.constant(0.0078125)});
      arg.step = chain_.op("add", {near, chain_.constant(1)});
    }
    const double correction = random_.pick({1.0, 0.0, 0.0, 2.0, 0.5});
    const int step = chain_.reduce(kind, arg.step, axes(mask), keep, correction);
    return {step, arg.span & ~mask, truth, keep, true};
  }

  // Without keepdim what is left must stand at the end, so that it still aligns.
  bool may_drop() const {
    return (frame_.inner & (frame_.inner + 1)) == 0;  // 0 … k: all dimensions, or leading ones
  }

  void stage() {
    if (random_.percent(50)) {
      known_stage();
    } else {
      free_stage();
    }
    pool_.push_back(last_);
    elementwise_steps(random_.between(0, 2));
  }

  void known_stage() {
    const AxisList reduced = axes(frame_.inner);
    const int x = last_.step;
    switch (random_.below(7)) {
      case 0:
      case 1:
        last_.step = softmax(chain_, x, reduced);
        break;
      case 2:
        last_.step = log_softmax(chain_, x, reduced);
        break;
      case 3:
        last_.step = rms_norm(chain_, x, kNoOperand, 1e-5, reduced);
        break;
      case 4:
        last_.step = normalize(chain_, x, 1e-12, reduced);
        break;
      case 5:
        last_.step = chain_.op("sub", {x, logsumexp(chain_, x, reduced, true)});
        break;
      default: {
        const Normalised norm = normalised(chain_, x, random_.percent(80) ? 1e-5 : 0, reduced);
        last_.step = norm.value;
        for (const int row : {norm.mean, norm.inverse_deviation})
          rows_.push_back({row, last_.span & ~frame_.inner, false, true, true});
      }
    }
    last_.truth = false;
  }

  void free_stage() {
    const int count = random_.between(1, 2);
    for (int i = 0; i < count; ++i) {
      Value arg = last_;
      if (random_.percent(20)) {
        const Value& other = any_of_pool();
        if ((other.span & frame_.inner) == frame_.inner && other.whole_rank && other.linked) arg = other;
      }
      if (random_.percent(30)) arg = elementwise(arg);
      Value row = reduce(arg, frame_.inner, !(may_drop() && random_.percent(50)));
      rows_.push_back(row);
      // One element: a reduction of what is reduced already.
      if (row.whole_rank && random_.percent(5)) row = reduce(row, frame_.inner, true);
      if (random_.percent(30)) row = unary(row);
      pool_.push_back(row);
      combine(row);
    }
  }

  Value unary(const Value& value) {
    const std::string_view name = random_.pick({"tanh", "sigmoid", "abs", "relu", "gelu", "square"});
    return {chain_.op(name, {value.step}), value.span, false, value.whole_rank, true};
  }

  void combine(const Value& row) {
    const std::string_view name = random_.pick({"sub", "mul", "add", "div", "maximum", "where"});
    int other = row.step;
    if (name == "div") other = chain_.op("add", {chain_.op("abs", {other}), chain_.constant(1)});
    if (name == "where") {
      last_.step = chain_.op("where", {chain_.op("gt", {last_.step, row.step}), last_.step, row.step});
    } else {
      last_.step = chain_.op(name, {last_.step, other});
    }
    last_.truth = false;
  }

  Value trailing() {
    Value arg = random_.percent(40) ? elementwise(last_) : last_;
    // Of two segments that are one again, both are reduced or none.
    const unsigned segments = merged_ ? 3u << frame_.split : 0;
    const unsigned whole = (frame_.outer & segments) != 0 ? frame_.outer | segments : frame_.outer;
    const unsigned mask = merged_ ? frame_.base_mask(whole) : frame_.outer;
    const bool keep = random_.percent(50);
    if (frame_.inner == frame_.outer && !merged_ && random_.percent(12)) {
      arg = {logsumexp(chain_, arg.step, axes(mask), keep), arg.span & ~mask, false, keep, true};
    } else {
      arg = reduce(arg, mask, keep);
    }
    return random_.percent(30) ? unary(arg) : arg;
  }

  void results(bool trailing_only) {
    const bool full = random_.percent(trailing_only ? 35 : 85);
    if (full) chain_.results.push_back(last_.step);
    if (full && random_.percent(10)) chain_.results.push_back(elementwise(last_).step);
    if (!rows_.empty() && random_.percent(30)) {
      for (const Value& row : rows_) {
        if (row.span == (frame_.all() & ~frame_.inner) && chain_.results.size() < 4) chain_.results.push_back(row.step);
      }
    }
    if (trailing_only || chain_.results.empty() || random_.percent(25)) {
      const int count = random_.percent(70) ? 1 : random_.between(2, 3);
      for (int i = 0; i < count; ++i) chain_.results.push_back(trailing().step);
    }
    if (random_.percent(15)) std::ranges::reverse(chain_.results);
  }

  Random& random_;
  const Frame& frame_;
  const std::vector<Source>& sources_;
  Chain chain_;
  int rank_ = 1;
  bool merged_ = false;
  std::vector<Value> inputs_;
  std::vector<Value> pool_;  // what operations may take: all broadcast against each other
  std::vector<Value> rows_;  // results of inner reductions
  Value last_;
};

}  // namespace

DrawnChain draw_reduction_chain(Random& random, const Frame& frame, std::vector<Source> sources,
                                const std::vector<bool>& truths) {
  std::vector<int> inputs, scalars;
  DrawnChain out;
  out.chain = without_dead_steps(Drawer(random, frame, sources, truths).draw(), inputs, scalars);
  for (const int i : inputs) out.sources.push_back(sources[static_cast<std::size_t>(i)]);
  return out;
}

}  // namespace epifuse::test
