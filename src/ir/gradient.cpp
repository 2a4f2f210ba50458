// Which values the forward pass saves, and the cut of the sweep's one chain in two.
//
// The policy: pointwise values are computed again from what is in memory anyway. Of reductions, which would need a pass
// of their own, what one row leaves is saved: a mean, 1 / deviation. A stored result takes the place of operands where
// backward then reads less, or as much and computes less; but where the rows are read anyway, not of an operand that
// may be smaller, such as a bias. A truth value is saved where computing it would read two operands that backward reads
// for nothing else.
#include "ir/gradient.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "ir/reverse_sweep.hpp"

namespace epifuse::ir {
namespace {

using base::fail;
using enum ErrorCode;

// What computing some values takes.
struct Reading {
  std::vector<Value> operands;  // of the tensors' size as far as one knows, that are read
  int operations = 0;
};

class Cut {
 public:
  Cut(const Program& program, ReverseSweep& sweep, std::span<const std::string> wrt, const GradientOptions& options)
      : program_(program), sweep_(sweep), b_(sweep.builder), wrt_(wrt), size_(0) {
    for (const Value g : sweep.of_wrt) targets_.push_back(g);
    size_ = index(*std::ranges::max_element(targets_)) + 1;
    for (const Value value : sweep.forward) size_ = std::max(size_, index(value) + 1);
    for (const Value value : sweep.gradients) size_ = value == kNone ? size_ : std::max(size_, index(value) + 1);
    for (const std::string& name : options.overwritten) overwritten_.push_back(operand_of(name));
    is_forward_.assign(size_, false);
    for (const Value value : sweep.forward) is_forward_[index(value)] = true;
    find_dependent();
    is_cut_.assign(size_, false);
  }

  Gradient run() {
    for (const Value value : sweep_.gradients) {
      if (value != kNone) is_cut_[index(value)] = true;
    }
    save_statistics();
    save_largest();
    use_results();
    save_pooled();
    save_masks();
    check_overwritten();
    find_references();
    return made();
  }

 private:
  const Node& node(Value value) const { return b_.node(value); }

  int operand_of(const std::string& name) const {
    const auto it = std::ranges::find(program_.inputs(), name);
    if (it == program_.inputs().end())
      fail(invalid_argument, "the chain has no operand '{}' that could be overwritten", base::shown(name));
    return static_cast<int>(it - program_.inputs().begin());
  }

  // By value: a gradient has a part in it.
  void find_dependent() {
    depends_.assign(size_, false);
    for (const Value value : sweep_.gradients) {
      if (value != kNone) depends_[index(value)] = true;
    }
    for (std::size_t i = 0; i < size_; ++i) {
      const Node& n = node(static_cast<Value>(i));
      for (int k = 0; k < n.computed_arity(); ++k)
        depends_[i] = depends_[i] || depends_[index(n.args[static_cast<std::size_t>(k)])];
    }
  }

  // By value: computing the targets computes or reads it. Values that are cut are read.
  std::vector<bool> needed() const {
    std::vector<bool> all(size_, false);
    for (const Value target : targets_) all[index(target)] = true;
    for (std::size_t i = size_; i-- > 0;) {
      if (!all[i] || is_cut_[i]) continue;
      const Node& n = node(static_cast<Value>(i));
      for (int k = 0; k < n.computed_arity(); ++k) all[index(n.args[static_cast<std::size_t>(k)])] = true;
    }
    return all;
  }

  bool is_overwritten(Value value) const {
    return node(value).op == Op::input && std::ranges::find(overwritten_, node(value).ordinal) != overwritten_.end();
  }

  Reading reading() {
    Reading all;
    const std::vector<bool> is_needed = needed();
    for (std::size_t i = 0; i < size_; ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_needed[i]) continue;
      const bool is_read = (is_cut_[i] && !is_small(value)) || node(value).op == Op::input;
      // What is gone cannot be read: anything is better.
      for (int times = is_overwritten(value) ? kGone : 1; is_read && times > 0; --times) all.operands.push_back(value);
      if (!is_cut_[i] && is_computed(node(value).op) && !is_movement(node(value).op)) ++all.operations;
    }
    return all;
  }

  // Few elements: what reductions left of many.
  bool is_small(Value value) { return sweep_.shapes.is_reduced(sweep_.shapes.of(value)); }

  // ---- statistics of rows

  // The mean of what the chain takes the variance of comes with that.
  bool is_known_forward(Value value) const {
    if (is_forward_[index(value)]) return true;
    const Node& mean = node(value);
    if (mean.op != Op::mean) return false;
    return std::ranges::any_of(sweep_.forward, [&](Value other) {
      const Node& var = node(other);
      return var.op == Op::var && var.args[0] == mean.args[0] && var.shaping == mean.shaping;
    });
  }

  bool may_be_saved(Value value) {
    const Node& n = node(value);
    return is_computed(n.op) && !is_movement(n.op) && !depends_[index(value)] && is_known_forward(value) &&
           is_small(value);
  }

  // Those that are met first on the way from the targets; or the reductions behind them, if these are fewer.
  std::vector<Value> statistics(bool reductions_only) {
    std::vector<bool> met(size_, false);
    std::vector<Value> found;
    for (const Value target : targets_) met[index(target)] = true;
    for (std::size_t i = size_; i-- > 0;) {
      const auto value = static_cast<Value>(i);
      if (!met[i] || is_cut_[i]) continue;
      const Node& n = node(value);
      if ((!reductions_only || is_reduction(n.op)) && may_be_saved(value)) {
        found.push_back(value);
        continue;
      }
      for (int k = 0; k < n.computed_arity(); ++k) met[index(n.args[static_cast<std::size_t>(k)])] = true;
    }
    return found;
  }

  void save_statistics() {
    const std::vector<Value> first = statistics(false);
    const std::vector<Value> reductions = statistics(true);
    for (const Value value : reductions.size() < first.size() ? reductions : first) is_cut_[index(value)] = true;
  }

  // Whether the value has the same shape where it is stored.
  bool keeps_shape(Value value) { return sweep_.written_shape(value) == sweep_.shapes.of(value); }

  // ---- results

  bool gives_less(Value value, bool or_computes_less) {
    const Reading before = reading();
    is_cut_[index(value)] = true;
    const Reading after = reading();
    const bool reads_less = after.operands.size() < before.operands.size();
    const bool reads_as_much = after.operands.size() == before.operands.size() &&
                               (!reads_rows(after) || replaced(before, after) == sweep_.shapes.of(value));
    const bool better = reads_less || (or_computes_less && reads_as_much && after.operations < before.operations);
    is_cut_[index(value)] = better;
    return better;
  }

  // The shape of the operands that are read no more.
  Atoms replaced(const Reading& before, const Reading& after) {
    Atoms shape;
    for (const Value operand : before.operands) {
      if (std::ranges::find(after.operands, operand) == after.operands.end())
        shape = sweep_.shapes.joined(shape, sweep_.shapes.of(operand));
    }
    return shape;
  }

  // Whether the rows of a reduction are computed of operands that are read. Then others, such as a bias, may be smaller
  // than the result is.
  bool reads_rows(const Reading& reading) const {
    std::vector<bool> is_known(size_, true);
    for (std::size_t i = 0; i < size_; ++i) {
      const auto value = static_cast<Value>(i);
      const Node& n = node(value);
      if (n.op == Op::input) is_known[i] = std::ranges::find(reading.operands, value) != reading.operands.end();
      for (int k = 0; k < n.arity(); ++k)
        is_known[i] = is_known[i] && is_known[index(n.args[static_cast<std::size_t>(k)])];
      if (is_known[i] && is_forward_[i] && is_reduction(n.op)) return true;
    }
    return false;
  }

  void use_results() {
    for (const Result& result : program_.results()) {
      const Value value = sweep_.forward[index(result.value)];
      const Node& n = node(value);
      if (is_cut_[index(value)] || !keeps_shape(value) || !is_computed(n.op) || n.op == Op::cast || gives_truth(n))
        continue;
      gives_less(value, true);
    }
  }

  // ---- pools: overlapping windows would be computed again for each element that they share

  // A result that chains without reductions can write beside their own.
  bool has_place(Value value) {
    const auto has_shape = [&](const Result& r) {
      const Value result = sweep_.forward[index(r.value)];
      return keeps_shape(result) && sweep_.shapes.of(result) == sweep_.shapes.of(value);
    };
    const auto reduces = [](const Node& n) { return is_reduction(n.op); };
    return std::ranges::any_of(program_.nodes(), reduces) || std::ranges::all_of(program_.results(), has_shape);
  }

  void save_largest() {
    for (const Value value : sweep_.largest_elements) {
      if (index(value) < size_ && needed()[index(value)] && has_place(value)) is_cut_[index(value)] = true;
    }
  }

  // By value: a sum or a maximum of elements of windows, or one of these.
  std::vector<bool> find_pooled() const {
    std::vector<bool> all(size_, false);
    for (std::size_t i = 0; i < size_; ++i) {
      const Node& n = node(static_cast<Value>(i));
      const View* const view = b_.view_of(n);
      const bool joins = n.op == Op::add || n.op == Op::maximum;
      all[i] =
          joins ? all[index(n.args[0])] && all[index(n.args[1])] : view != nullptr && view->kind == View::Kind::window;
    }
    return all;
  }

  // What a pool gives, where backward computes with it.
  void save_pooled() {
    if (!sweep_.has_windows) return;
    const std::vector<bool> is_pooled = find_pooled();
    for (std::size_t i = size_; i-- > 0;) {
      const auto value = static_cast<Value>(i);
      const bool is_one = is_pooled[i] && is_forward_[i] && is_computed(node(value).op) && !is_cut_[i];
      if (is_one && needed()[i] && has_place(value)) is_cut_[i] = true;
    }
  }

  // ---- masks

  // A chain of pointwise operations alone writes all results in one shape. With a saved value of another shape it is no
  // such chain any more, so its own results must have that shape anyway.
  bool may_save_any_shape() {
    return std::ranges::all_of(program_.results(),
                               [&](const Result& r) { return keeps_shape(sweep_.forward[index(r.value)]); });
  }

  void save_masks() {
    if (!may_save_any_shape()) return;
    for (std::size_t i = size_; i-- > 0;) {
      const auto value = static_cast<Value>(i);
      if (!is_forward_[i] || is_cut_[i] || !gives_truth(node(value)) || !needed()[i]) continue;
      gives_less(value, false);
    }
  }

  void check_overwritten() {
    const std::vector<bool> is_needed = needed();
    for (std::size_t i = 0; i < size_; ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_needed[i] || !is_overwritten(value)) continue;
      fail(invalid_argument,
           "the backward pass needs operand '{}', which the forward pass writes a result over: give the result memory "
           "of its own, or keep a "
           "copy of '{}'",
           program_.inputs()[static_cast<std::size_t>(node(value).ordinal)],
           program_.inputs()[static_cast<std::size_t>(node(value).ordinal)]);
    }
  }

  // ---- two chains of one

  // Random numbers and positions need but a shape. Where the gradient of a result has it, backward takes no operand for
  // its sake.
  void find_references() {
    for (std::size_t i = 0; i < size_; ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_generated(node(value).op)) continue;
      const Atoms shape = sweep_.shapes.of(value);
      if (!shape.empty()) references_[value] = sweep_.shapes.like(shape);
    }
  }
  // The arguments of a value in the backward chain.
  std::array<Value, kMaxArity> backward_arguments(Value value) const {
    std::array<Value, kMaxArity> args = node(value).args;
    if (const auto it = references_.find(value); it != references_.end()) args[0] = it->second;
    return args;
  }

  // Values of one Builder, in another. What is cut is an operand there.
  class Copy {
   public:
    Copy(const Cut& cut, Builder& to, const std::map<Value, std::string>& operands, bool backward)
        : cut_(cut), to_(to), operands_(operands), backward_(backward) {}

    Value of(Value target) {
      std::vector<Value> open = {target};
      while (!open.empty()) {
        const Value value = open.back();
        const Node& n = cut_.node(value);
        const std::array<Value, kMaxArity> given = backward_ ? cut_.backward_arguments(value) : n.args;
        const auto name = operands_.find(value);
        bool ready = true;
        std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
        for (int k = 0; name == operands_.end() && k < n.arity(); ++k) {
          const auto at = static_cast<std::size_t>(k);
          const auto known = copied_.find(given[at]);
          if (known == copied_.end()) {
            open.push_back(given[at]);
            ready = false;
          } else {
            args[at] = known->second;
          }
        }
        if (!ready) continue;
        open.pop_back();
        if (copied_.contains(value)) continue;
        const Value copy = name != operands_.end() ? to_.input(name->second)
                                                   : rebuilt(to_, n, args, cut_.operand_name(n), cut_.view_of(n));
        copied_.emplace(value, copy);
      }
      return copied_.at(target);
    }

   private:
    const Cut& cut_;
    Builder& to_;
    const std::map<Value, std::string>& operands_;
    const bool backward_;
    std::map<Value, Value> copied_;
  };

  const View* view_of(const Node& n) const { return b_.view_of(n); }

  std::string operand_name(const Node& n) const {
    if (n.op == Op::scalar) return program_.scalars()[static_cast<std::size_t>(n.ordinal)];
    if (n.op != Op::input) return {};
    // Gradients are declared behind the chain's own operands.
    const auto ordinal = static_cast<std::size_t>(n.ordinal);
    return ordinal < program_.inputs().size() ? program_.inputs()[ordinal] : std::string();
  }

  std::string fresh(std::string name) {
    const auto is_taken = [&] {
      return std::ranges::find(program_.inputs(), name) != program_.inputs().end() ||
             std::ranges::find(program_.scalars(), name) != program_.scalars().end() ||
             std::ranges::find(taken_, name) != taken_.end() || is_reserved(name);
    };
    const std::string stem = name;
    for (int i = 2; is_taken(); ++i) name = fmt::format("{}{}", stem, i);
    taken_.push_back(name);
    return name;
  }

  Gradient made() {
    Builder forward;
    for (const std::string& name : program_.inputs()) forward.input(name);
    for (const std::string& name : program_.scalars()) forward.scalar(name);
    const std::map<Value, std::string> none;
    Copy to_forward(*this, forward, none, false);
    std::map<Value, std::string> operands;  // of the backward chain, by value: all but the chain's own
    std::vector<BackwardOperand> order;
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const Value value = sweep_.forward[index(program_.results()[i].value)];
      const std::string name = fresh(program_.result_name(i));
      forward.result(name, to_forward.of(value));
      if (sweep_.gradients[i] == kNone) continue;
      const std::string gradient = fresh("d" + program_.result_name(i));
      operands.emplace(sweep_.gradients[i], gradient);
      order.push_back({gradient, Source::gradient, i});
    }
    std::size_t saved = 0;
    const std::vector<bool> is_needed = needed();
    for (std::size_t i = 0; i < size_; ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_needed[i] || !is_cut_[i] || operands.contains(value)) continue;
      const auto result =
          std::ranges::find(program_.results(), value, [&](const Result& r) { return sweep_.forward[index(r.value)]; });
      // The gradient of an extreme asks which elements equal it. A stored result is rounded, and may equal none.
      if (result != program_.results().end() && !is_extreme(node(value).op)) {
        const auto at = static_cast<std::size_t>(result - program_.results().begin());
        operands.emplace(value, program_.result_name(at));
        order.push_back({program_.result_name(at), Source::result, at});
        continue;
      }
      const std::string name = fresh(fmt::format("saved_{}", name_of(node(value))));
      const Value stored = to_forward.of(value);
      forward.result(name, keeps_shape(value) ? stored : forward.expand_as(stored, stored));
      operands.emplace(value, name);
      order.push_back({name, Source::saved, program_.results().size() + saved++});
    }
    return {std::move(forward).finish().with(program_.math()), saved, backward(operands, order, is_needed), order};
  }

  // The gradients of results that lead nowhere are no operands.
  Program backward(const std::map<Value, std::string>& operands, std::vector<BackwardOperand>& order,
                   const std::vector<bool>& is_read) {
    const std::vector<bool> is_used = used(operands);
    const auto is_unused = [&](const BackwardOperand& operand) {
      const auto it = std::ranges::find(operands, operand.name, &std::pair<const Value, std::string>::second);
      return !is_used[index(it->first)];
    };
    std::erase_if(order, is_unused);
    for (const bool is_shape : {false, true}) {
      for (std::size_t i = 0; i < program_.inputs().size(); ++i) {
        const auto value = static_cast<Value>(i);  // operands were declared first
        if (is_used[i] && !operands.contains(value) && is_read[i] != is_shape)
          order.push_back({program_.inputs()[i], is_shape ? Source::shape : Source::operand, i});
      }
    }
    Builder b;
    for (const BackwardOperand& operand : order) b.input(operand.name);
    Copy copy(*this, b, operands, true);
    std::vector<Value> results;
    for (const Value target : targets_) results.push_back(copy.of(target));
    if (are_of_several_shapes(is_used))
      results[0] = b.expand_as(results[0], copy.of(sweep_.shapes.like(sweep_.shapes.of(targets_[0]))));
    for (std::size_t i = 0; i < results.size(); ++i) b.result(fresh("d" + wrt_[i]), results[i]);
    return std::move(b).finish().with(program_.math());
  }

  // A chain of pointwise operations alone writes all results in the shape that all operands broadcast to: where that is
  // not theirs, a shape operation makes it another chain.
  bool are_of_several_shapes(const std::vector<bool>& is_used) {
    Atoms all;
    for (std::size_t i = 0; i < is_used.size(); ++i) {
      const Node& n = node(static_cast<Value>(i));
      if (is_used[i] && !is_cut_at(i) &&
          (is_reduction(n.op) || is_movement(n.op) || n.op == Op::count || is_generated(n.op) || n.op == Op::cat ||
           is_indexing(n.op)))
        return false;
      if (is_used[i] && (n.op == Op::input || is_cut_at(i)))
        all = sweep_.shapes.joined(all, sweep_.shapes.of(static_cast<Value>(i)));
    }
    return std::ranges::any_of(targets_, [&](Value target) { return sweep_.shapes.of(target) != all; });
  }
  bool is_cut_at(std::size_t i) const { return i < size_ && is_cut_[i]; }

  // By value: the backward chain has it, if only for its shape.
  std::vector<bool> used(const std::map<Value, std::string>& operands) const {
    std::size_t size = size_;
    for (const Value target : targets_) size = std::max(size, index(target) + 1);
    for (const auto& [value, reference] : references_) size = std::max(size, index(reference) + 1);
    std::vector<bool> all(size, false);
    std::vector<Value> open(targets_.begin(), targets_.end());
    while (!open.empty()) {
      const Value value = open.back();
      open.pop_back();
      if (all[index(value)]) continue;
      all[index(value)] = true;
      if (operands.contains(value)) continue;
      const std::array<Value, kMaxArity> args = backward_arguments(value);
      open.insert(open.end(), args.begin(), args.begin() + node(value).arity());
    }
    return all;
  }

  static constexpr int kGone = 1000;

  const Program& program_;
  ReverseSweep& sweep_;
  Builder& b_;
  const std::span<const std::string> wrt_;
  std::size_t size_;  // values
  std::vector<Value> targets_;
  std::vector<int> overwritten_;
  std::vector<bool> is_forward_;  // by value: the chain computes it
  std::vector<bool> depends_;
  std::vector<bool> is_cut_;           // by value: an operand of the backward pass
  std::map<Value, Value> references_;  // of random numbers: what has their shape in the backward chain
  std::vector<std::string> taken_;
};

std::vector<int> ordinals_of(const Program& program, std::span<const std::string> wrt) {
  if (wrt.empty()) fail(invalid_argument, "a gradient is taken with respect to at least one operand; none was named");
  std::vector<int> ordinals;
  for (const std::string& name : wrt) {
    const auto it = std::ranges::find(program.inputs(), name);
    if (it == program.inputs().end()) {
      if (std::ranges::find(program.scalars(), name) != program.scalars().end())
        fail(unsupported,
             "'{}' is a run-time scalar: gradients are taken with respect to tensors. Pass it as a tensor of one "
             "element",
             name);
      const std::vector<std::string_view> known(program.inputs().begin(), program.inputs().end());
      const auto suggestion = base::nearest(name, known);
      fail(invalid_argument, "the chain has no operand '{}' to take the gradient with respect to{}; it has: {}",
           base::shown(name), suggestion ? fmt::format("; did you mean '{}'?", *suggestion) : "",
           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", ")));
    }
    const auto ordinal = static_cast<int>(it - program.inputs().begin());
    if (std::ranges::find(ordinals, ordinal) != ordinals.end())
      fail(invalid_argument, "the gradient with respect to '{}' is asked for twice", name);
    ordinals.push_back(ordinal);
  }
  return ordinals;
}

}  // namespace

Gradient gradient(const Program& program, std::span<const std::string> wrt, const GradientOptions& options) {
  const std::vector<int> ordinals = ordinals_of(program, wrt);
  ReverseSweep sweep(program, ordinals);
  for (std::size_t i = 0; i < wrt.size(); ++i) {
    if (sweep.of_wrt[i] != kNone) continue;
    fail(invalid_argument,
         "the chain has no gradient with respect to '{}': no result depends on it, or only through comparisons, truth "
         "values and casts to integers, which have no derivative",
         wrt[i]);
  }
  return Cut(program, sweep, wrt, options).run();
}

}  // namespace epifuse::ir
