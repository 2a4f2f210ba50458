// Errors are carried from the operands to the results, through the intervals that values lie in (intervals.hpp). All
// values start with their cheapest formula; while some result would show the error, the values whose formulas err most
// take the next better ones.
#include "plan/analysis/accuracy.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "plan/analysis/intervals.hpp"
#include "plan/analysis/structure.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;

// Reciprocals and powers end there: no result below need be right.
constexpr double kLeastFloor = 0x1p-117;
// Of a sum whose terms err by a constant: rounding in f32 costs a longer sum more than that.
constexpr double kMostTerms = 0x1p24;
// Beyond this exponent f32 has neither results nor arguments of them: exp(88.7) overflows.
constexpr double kLargestExponent = 89;

constexpr std::array kFormulas = {
#define EPIFUSE_FORMULA(op, name, relative, floor, total, cost) Formula{Op::op, #name, relative, floor, total, cost},
#include "plan/analysis/formulas.def"
};

// Right without any allowance, but for arguments from low to high only.
struct WithinRow {
  double low, high;
  Formula formula;
};
constexpr std::array kWithin = {
#define EPIFUSE_WITHIN(op, name, low, high, cost) WithinRow{low, high, Formula{Op::op, #name, 0, 0, 0, cost}},
#include "plan/analysis/formulas.def"
};

const Formula* first_formula(Op op) {
  const auto* found = std::ranges::find(kFormulas, op, &Formula::op);
  return found == kFormulas.end() ? nullptr : found;
}

// The next one of the operation that reaches as far down and has no larger error, or null: the operation's own.
const Formula* next_formula(const Formula* formula, double relative, double floor) {
  const Op op = formula->op;
  while (++formula != kFormulas.end() && formula->op == op) {
    if (formula->relative <= relative && formula->floor <= floor) return formula;
  }
  return nullptr;
}

Error scaled(const Error& e, double relative, double absolute) {
  return {times(e.relative, relative), times(e.absolute, absolute), times(e.total, absolute)};
}
Error worst(const Error& a, const Error& b) {
  return {std::max(a.relative, b.relative), std::max(a.absolute, b.absolute), std::max(a.total, b.total)};
}
Error sum(const Error& a, const Error& b) {
  return {std::max(a.relative, b.relative), a.absolute + b.absolute, a.total + b.total};
}
// Of factors of at most these sizes.
Error product(const Error& a, const Error& b, double left, double right) {
  return {a.relative + b.relative, times(a.absolute, right) + times(b.absolute, left),
          times(a.total, right) + times(b.total, left)};
}
// After a jump nothing is known.
Error lost(const Error& e) { return e.is_exact() ? Error{} : Error{kUnbounded, kUnbounded, kUnbounded}; }

// How an operation passes its first argument's error on.
enum class Passing : std::uint8_t {
  jump,      // not at all: it rounds, compares, or nothing is known about it
  contract,  // the relative error does not grow; the slope is at most `slope`
  gate,      // x * something that vanishes below: the relative error grows with the argument there
  steep,     // exp and the like: an absolute error becomes a relative one
  slope,     // only the slope is bounded
};
struct PassingRow {
  Op op;
  Passing passing;
  double slope = 1;
};
constexpr std::array kPassing = {
    PassingRow{Op::tanh, Passing::contract},
    PassingRow{Op::erf, Passing::contract, 1.13},
    PassingRow{Op::softsign, Passing::contract},
    PassingRow{Op::selu, Passing::contract, 1.76},
    PassingRow{Op::silu, Passing::gate, 1.1},
    PassingRow{Op::mish, Passing::gate, 1.09},
    PassingRow{Op::gelu, Passing::gate, 1.13},
    PassingRow{Op::gelu_tanh, Passing::gate, 1.13},
    PassingRow{Op::exp, Passing::steep},
    PassingRow{Op::exp2, Passing::steep},
    PassingRow{Op::sin, Passing::slope},
    PassingRow{Op::cos, Passing::slope},
    PassingRow{Op::hardsigmoid, Passing::slope, 0.17},
    PassingRow{Op::hardswish, Passing::slope, 1.5},
    PassingRow{Op::logsigmoid, Passing::slope},
};

class ErrorAnalysis {
 public:
  ErrorAnalysis(const Program& program, const KernelClass& kernel)
      : program_(program), intervals_(program, kernel), errors_(program.nodes().size()) {}

  // Errors of all values with these formulas.
  void run(const std::vector<const Formula*>& formulas) {
    for (std::size_t i = 0; i < errors_.size(); ++i) {
      Error e = passed(program_.nodes()[i]);
      if (const Formula* formula = formulas[i]) {
        e.relative += formula->relative;
        // Below its floor it errs as at the floor. At the least floor that counts for nothing: f32 itself ends nearby.
        if (formula->floor > kLeastFloor) e.absolute += formula->relative * formula->floor;
        e.total += formula->total;
      }
      // Not of sums, whose relative error counts from their terms.
      const Op op = program_.nodes()[i].op;
      if (op != Op::add && op != Op::sub && op != Op::fma && ir::is_elementwise(op))
        e.total = std::min(e.total, times(e.relative, interval(static_cast<Value>(i)).size()) + e.absolute);
      errors_[i] = e;
    }
  }

  const Error& error(Value value) const { return errors_[static_cast<std::size_t>(unshaped(program_, value))]; }
  const Interval& interval(Value value) const { return intervals_.of(value); }

 private:
  Error passed(const Node& node) const {
    if (node.op <= Op::count || node.op == Op::iota) return {};
    const auto value = [&](int i) { return node.args[static_cast<std::size_t>(i)]; };
    const Error a = error(value(0));
    if (node.op == Op::cast) return cast(node.dtype, a);
    if (ir::is_reduction(node.op)) return reduced(node, a);
    if (ir::is_movement(node.op)) return a;
    const Error b = node.arity() > 1 ? error(value(1)) : Error{};
    const Error c = node.arity() > 2 ? error(value(2)) : Error{};
    switch (node.op) {
      case Op::add:
      case Op::sub:
        return sum(a, b);
      case Op::mul:
        return product(a, b, interval(value(0)).size(), interval(value(1)).size());
      case Op::fma:
        return sum(product(a, b, interval(value(0)).size(), interval(value(1)).size()), c);
      case Op::div: {
        const Interval by = interval(value(1));
        const double factor = 1 / by.least();
        if (vanishes(value(1)) && !b.is_exact()) return lost(b);
        return {a.relative + b.relative, times(a.absolute, factor) + times(b.absolute, kUnbounded),
                times(a.total, factor) + times(b.total, kUnbounded)};
      }
      case Op::neg:
      case Op::abs:
      case Op::relu:
      case Op::relu6:
        return a;
      case Op::minimum:
      case Op::maximum:
        return worst(a, b);
      case Op::clamp:
      case Op::hardtanh:
        return worst(a, worst(b, c));
      case Op::where:
        return worst(lost(a), worst(b, c));
      case Op::leaky_relu:
        return worst(scaled(a, 1, std::max(1.0, interval(value(1)).size())), lost(b));
      case Op::square:
        return scaled(a, 2, 2 * interval(value(0)).size());
      case Op::sqrt:
      case Op::rsqrt:
        return power(0.5, value(0), a);
      case Op::reciprocal:
        return power(1, value(0), a);
      case Op::sigmoid:
        return {a.total, 0, times(a.total, 0.25)};
      case Op::elu:
        return worst(scaled(a, 1, std::max(1.0, interval(value(1)).size())), lost(b));
      case Op::isinf:  // logsumexp asks it of the largest value, which formulas keep finite
        return program_.node(unshaped(program_, value(0))).op == Op::amax ? Error{} : lost(a);
      case Op::log:
        return logarithm(value(0), a);
      default:
        return worst(by_table(node.op, a, interval(value(0))), lost(worst(b, c)));
    }
  }

  // What formulas make 0 of values below 2^-117: a root of it or a quotient by it may then be another number
  // altogether, or of another kind.
  bool vanishes(Value value) const { return interval(value).low <= 0 && interval(value).high >= 0; }

  // Of |argument|^±exponent. Beside a least magnitude, an absolute error is a relative one.
  Error power(double exponent, Value argument, const Error& a) const {
    if (vanishes(argument)) return lost(a);
    const double relative = a.relative + times(a.absolute, 1 / interval(argument).least());
    return {exponent * relative, 0, times(relative, kUnbounded)};
  }

  static Error by_table(Op op, const Error& a, const Interval& argument) {
    if (a.is_exact()) return {};
    const auto* row = std::ranges::find(kPassing, op, &PassingRow::op);
    switch (row == kPassing.end() ? Passing::jump : row->passing) {
      case Passing::jump:
        break;
      case Passing::contract:
        return scaled(a, 1, row->slope);
      case Passing::gate: {
        // d log|f| / d log|x| for the argument that is farthest below 0.
        const double below = std::min(std::max(0.0, -argument.low), kLargestExponent);
        const bool is_normal = op == Op::gelu || op == Op::gelu_tanh;  // exp(-x^2 / 2) instead of exp(-x)
        return scaled(a, 1 + (is_normal ? std::min(below * below, 2 * kLargestExponent) : below), row->slope);
      }
      case Passing::steep:
        return {a.total, 0, kUnbounded};
      case Passing::slope:
        return {0, a.total * row->slope, a.total * row->slope};
    }
    return lost(a);
  }

  // log1p would amplify near 0, log near 1. The sum of softmax is 1 and more, its largest term exact, and the others
  // err as much as they are.
  Error logarithm(Value argument, const Error& a) const {
    if (a.is_exact()) return {};
    if (intervals_.is_softmax_sum(argument)) return {a.relative, 0, a.relative};
    return a.absolute > 0 || vanishes(argument) ? lost(a) : Error{0, a.relative, a.relative};
  }

  Error cast(DType type, const Error& a) const {
    if (a.is_exact() || type == DType::f32 || type == DType::f64) return a;  // the compute type is f32 here
    const Spacing spacing = spacing_of(type);
    if (spacing.relative == 0) return lost(a);
    // It may round to the neighbour.
    return {a.relative + 2 * spacing.relative, a.absolute + spacing.absolute, kUnbounded};
  }

  Error reduced(const Node& node, const Error& a) const {
    switch (node.op) {
      case Op::amax:
      case Op::amin:
      case Op::mean:
        return a;
      case Op::sum:
        return {a.relative, times(a.absolute, kMostTerms), times(a.total, kUnbounded)};
      case Op::var:  // the slope is twice a term's distance to the mean
        return scaled(a, 2, 4 * interval(node.args[0]).size());
      default:
        return lost(a);
    }
  }

  const Program& program_;
  Intervals intervals_;
  std::vector<Error> errors_;
};

// What the formulas may add, in distances of the type: a quarter leaves a result, which is rounded once more, within 1
// ulp with space to spare. `fast` allows 4 in all; f32 is what chains are computed in and is not rounded again.
double allowance(Math math, DType type) {
  if (math == Math::standard) return 0.25;
  return type == DType::f32 ? 4 : 3.5;
}

// A result that is stored as zero even after a multiplication by thousands need not be right.
double smallest_of(DType type) { return std::max(0x1p-12 * spacing_of(type).absolute, kLeastFloor); }

// The formulas of a chain's values.
class Choice {
 public:
  // All cheapest, of those that are right down to what the results can show.
  Choice(const Program& program, const KernelClass& kernel)
      : program_(program),
        kernel_(kernel),
        analysis_(program, kernel),
        formulas_(program.nodes().size()),
        smallest_(formulas_.size(), kUnbounded) {
    for (std::size_t r = 0; r < program.results().size(); ++r) {
      const std::vector<bool> used = used_by(r);
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i]) smallest_[i] = std::min(smallest_[i], smallest_of(kernel.outputs[r].dtype));
      }
    }
    for (std::size_t i = 0; i < formulas_.size(); ++i) {
      formulas_[i] = first_formula(program.nodes()[i].op);
      if (formulas_[i] != nullptr && formulas_[i]->floor > smallest_[i])
        formulas_[i] = next_formula(formulas_[i], kUnbounded, smallest_[i]);
    }
  }

  // While a result shows the error, the formulas that err most, of those that it depends on, make place for better
  // ones.
  void improve() {
    for (std::size_t r = 0; r < program_.results().size(); ++r) {
      const std::vector<bool> used = used_by(r);
      for (analysis_.run(formulas_); !fits(r); analysis_.run(formulas_)) {
        double most = 0;
        for (std::size_t i = 0; i < formulas_.size(); ++i) {
          if (used[i] && formulas_[i] != nullptr) most = std::max(most, formulas_[i]->relative);
        }
        for (std::size_t i = 0; i < formulas_.size(); ++i) {
          if (used[i] && formulas_[i] != nullptr && formulas_[i]->relative == most)
            formulas_[i] = next_formula(formulas_[i], 0.9 * most, smallest_[i]);
        }
      }
    }
  }

  // That may have gone further than need be: back to cheaper ones, one by one. Of long chains that would take long, and
  // saves little.
  void relax() {
    constexpr std::size_t kFew = 64;
    if (formulas_.size() > kFew) return;
    for (std::size_t i = 0; i < formulas_.size(); ++i) {
      const Formula* const now = formulas_[i];
      const Formula* cheaper = first_formula(program_.nodes()[i].op);
      for (; cheaper != now; cheaper = next_formula(cheaper, kUnbounded, kUnbounded)) {
        formulas_[i] = cheaper;
        analysis_.run(formulas_);
        if (cheaper->floor <= smallest_[i] && all_fit()) break;
      }
      formulas_[i] = cheaper;
    }
    analysis_.run(formulas_);
  }

  // What the arguments' intervals allow, where it is cheaper still.
  void narrow() {
    for (std::size_t i = 0; i < formulas_.size(); ++i) {
      const Node& node = program_.nodes()[i];
      for (const WithinRow& row : kWithin) {
        if (row.formula.op != node.op) continue;
        const Interval argument = analysis_.interval(node.args[0]);
        const int now = formulas_[i] == nullptr ? ir::row(node.op).cost : formulas_[i]->cost;
        if (row.low <= argument.low && argument.high <= row.high && row.formula.cost < now) formulas_[i] = &row.formula;
      }
    }
    analysis_.run(formulas_);
  }

  const std::vector<const Formula*>& formulas() const { return formulas_; }
  const Error& error(std::size_t result) const {
    return analysis_.error(stored_value(program_, result, kernel_.outputs[result].dtype));
  }

 private:
  // The values that a result depends on: arguments stand before what uses them.
  std::vector<bool> used_by(std::size_t result) const {
    std::vector<bool> used(program_.nodes().size(), false);
    used[static_cast<std::size_t>(program_.results()[result].value)] = true;
    for (std::size_t i = used.size(); i-- > 0;) {
      const Node& node = program_.nodes()[i];
      for (int k = 0; used[i] && k < node.computed_arity(); ++k)
        used[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
    }
    return used;
  }

  bool fits(std::size_t result) const {
    const DType type = kernel_.outputs[result].dtype;
    const Spacing spacing = spacing_of(type);
    if (type == DType::f32 && program_.math() != Math::fast) return error(result).is_exact();
    const double allowed = allowance(program_.math(), type);
    const Error& e = error(result);
    if (spacing.relative == 0) return e.total <= allowed * spacing.absolute;  // integers
    return e.relative <= allowed * spacing.relative && e.absolute <= allowed * spacing.absolute;
  }
  bool all_fit() const {
    for (std::size_t r = 0; r < program_.results().size(); ++r) {
      if (!fits(r)) return false;
    }
    return true;
  }

  const Program& program_;
  const KernelClass& kernel_;
  ErrorAnalysis analysis_;
  std::vector<const Formula*> formulas_;
  std::vector<double> smallest_;  // by value: results below need not be right
};

}  // namespace

Value stored_value(const Program& program, std::size_t result, DType stored) noexcept {
  const Value value = program.results()[result].value;
  const Node& node = program.node(value);
  return node.op == Op::cast && node.dtype == stored && stored != DType::boolean ? node.args[0] : value;
}

Spacing spacing_of(DType type) noexcept {
  switch (type) {
    case DType::f16:
      return {0x1p-11, 0x1p-24};
    case DType::bf16:
      return {0x1p-8, 0x1p-133};
    case DType::f8e4m3:
      return {0x1p-4, 0x1p-9};
    case DType::f8e5m2:
      return {0x1p-3, 0x1p-16};
    case DType::f32:
      return {0x1p-24, 0x1p-149};
    case DType::f64:
      return {0x1p-53, 0};
    case DType::i8:
    case DType::u8:
      return {0, 1};
    default:
      return {0, 0};
  }
}

std::string_view term_formula(Op op, bool coarse) noexcept {
  struct Term {
    Op op;
    bool coarse;
    std::string_view name;
  };
  static constexpr Term kTerms[] = {
#define EPIFUSE_TERM(op, name) {Op::op, false, #name},
#define EPIFUSE_COARSE_TERM(op, name) {Op::op, true, #name},
#include "plan/analysis/formulas.def"
  };
  const auto* const found =
      std::ranges::find_if(kTerms, [&](const Term& term) { return term.op == op && term.coarse == coarse; });
  return found == std::end(kTerms) ? std::string_view() : found->name;
}

Arithmetic choose_arithmetic(const Program& program, const KernelClass& kernel) {
  const std::size_t count = program.nodes().size();
  Arithmetic chosen{std::vector<const Formula*>(count, nullptr), std::vector<Error>(program.results().size())};
  if (kernel.f64 || program.math() == Math::precise) return chosen;
  Choice choice(program, kernel);
  choice.improve();
  choice.relax();
  choice.narrow();
  chosen.formulas = choice.formulas();
  for (std::size_t r = 0; r < chosen.errors.size(); ++r) chosen.errors[r] = choice.error(r);
  // Scales of lane segments are exact results, of which a last bit of the elements may decide.
  chosen.cheap_rows = rounds_to_few_bits(kernel) &&
                      (kernel.reduction() == nullptr || !kernel.reduction()->structure.has_lane_segments());
  for (std::size_t i = 0; i < count; ++i) {
    if (program.nodes()[i].op == Op::exp && chosen.formulas[i] == nullptr) chosen.cheap_rows = false;
  }
  return chosen;
}

int instructions_of(const Program& program, const Arithmetic& arithmetic) {
  int instructions = instructions_of(program);
  for (const Formula* formula : arithmetic.formulas) {
    if (formula != nullptr) instructions += formula->cost - ir::row(formula->op).cost;
  }
  return instructions;
}

}  // namespace epifuse::plan
