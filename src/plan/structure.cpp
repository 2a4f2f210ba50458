// The analysis is one walk over the nodes: levels grow along reductions, reductions of the same value over the same dimensions share
// one accumulator, and a sum of exp(v - amax(v)) joins the accumulator of its amax (Milakov and Gimelshein 2018, "Online normalizer
// calculation for softmax"), so that softmax is two walks and logsumexp one.
#include "plan/structure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>

#include "base/text.hpp"
#include "plan/averages.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using enum ErrorCode;

constexpr std::array<std::string_view, 8> kKindNames = {"sum", "product", "maximum", "minimum",
                                                        "any", "all",     "moments", "max_sumexp"};

class RowAnalysis {
 public:
  RowAnalysis(const Program& program, const Space& space)
      : program_(program), space_(space), computed_(computed_values(program)) {}

  Structure run() {
    structure_.nodes.resize(program_.nodes().size());
    find_users();
    choose_rows();
    choose_parts();
    assign_all();
    return std::move(structure_);
  }

  Structure run(const Averages& averages, std::uint32_t rows) {
    structure_.nodes.resize(program_.nodes().size());
    structure_.reduced = rows;
    structure_.part = averages.part;
    structure_.averaged = averages.of;
    averages_ = &averages;
    assign_all();
    structure_.accumulators.push_back(
        {.kind = AccumulatorKind::sum, .argument = averages.of, .level = structure_.levels, .part = true});
    return std::move(structure_);
  }

 private:
  void assign_all() {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) assign(static_cast<Value>(i));
    for (const Accumulator& accumulator : structure_.accumulators) {
      if (!accumulator.across) structure_.levels = std::max(structure_.levels, accumulator.level);
    }
    for (Accumulator& accumulator : structure_.accumulators) {
      if (accumulator.part) accumulator.level = structure_.levels + 1;
    }
    // Parts have a walk of their own behind all levels, and results that vary within rows another one.
    structure_.output_walk = structure_.has_parts() ? structure_.levels : std::max(structure_.levels - 1, 0);
    const auto wait_for = [&](Value value) {
      if (role(value).extent != Extent::element) return;
      const int known = structure_.has_parts() ? structure_.levels + 1 : role(value).level;
      structure_.output_walk = std::max(structure_.output_walk, known);
    };
    for (const ir::Result& result : program_.results()) wait_for(result.value);
    for (const Accumulator& accumulator : structure_.accumulators) {
      if (accumulator.across) wait_for(accumulator.argument);
    }
    check_results();
  }

  const Node& node(Value value) const { return program_.node(value); }
  std::uint32_t span(Value value) const { return space_.spans[static_cast<std::size_t>(value)]; }
  NodeRole& role(Value value) { return structure_.nodes[static_cast<std::size_t>(value)]; }
  std::string_view name(Value value) const { return ir::written_name(node(value)); }

  // The dimensions that a reduction reduces; 0 for other operations, and where only a shape counts.
  std::uint32_t mask(Value value) const {
    return ir::is_reduction(node(value).op) && computed_[static_cast<std::size_t>(value)]
               ? span(node(value).args[0]) & ~span(value)
               : 0;
  }

  // ---- rows

  // By node: the dimensions over which what uses it, directly or not, varies.
  void find_users() {
    users_.assign(program_.nodes().size(), 0);
    for (std::size_t i = users_.size(); i-- > 0;) {
      const Node& user = program_.nodes()[i];
      for (int k = 0; k < user.computed_arity(); ++k)
        users_[static_cast<std::size_t>(user.args[static_cast<std::size_t>(k)])] |= space_.spans[i] | users_[i];
    }
  }

  // Something that uses the reduction varies over what it reduced: then the reduced elements are needed again.
  bool is_broadcast_back(Value reduction) const {
    return (users_[static_cast<std::size_t>(reduction)] & mask(reduction)) != 0;
  }

  void choose_rows() {
    std::optional<Value> chosen;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (mask(value) == 0 || !is_broadcast_back(value)) continue;
      if (chosen && mask(*chosen) != mask(value)) refuse_two_rows(*chosen, value);
      chosen = value;
    }
    // Nothing is needed again: the fewest dimensions make the row, the other reductions go on across rows.
    for (std::size_t i = 0; i < program_.nodes().size() && !(chosen && is_broadcast_back(*chosen)); ++i) {
      const auto value = static_cast<Value>(i);
      if (mask(value) == 0) continue;
      if (!chosen || std::popcount(mask(value)) < std::popcount(mask(*chosen))) chosen = value;
    }
    if (chosen) structure_.reduced = mask(*chosen);
  }

  [[noreturn]] void refuse_two_rows(Value a, Value b) const {
    // Two calls of one function differ in what they reduce.
    const auto shown = [&](Value value) {
      const std::string axes =
          name(a) == name(b) ? fmt::format(" (axis={})", ir::print_axes(node(value).shaping.axes)) : std::string();
      return fmt::format("'{}'{}", name(value), axes);
    };
    fail(unsupported,
         "the chain cannot be one kernel: the results of {} and {} are both broadcast back, but they reduce different "
         "dimensions, so no block of threads holds all that both need. Make it two chains: the first ends with what {} "
         "is taken of",
         shown(a), shown(b), shown(b));
  }

  // ---- parts of rows

  // Reductions that take some of a row's dimensions: the innermost ones, so that each takes a run of the row's elements.
  void choose_parts() {
    std::optional<Value> chosen;
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto value = static_cast<Value>(i);
      if (!is_part(mask(value))) continue;
      if (chosen && mask(*chosen) != mask(value)) refuse_two_parts(*chosen, value);
      chosen = value;
    }
    if (chosen) structure_.part = mask(*chosen);
  }

  bool is_part(std::uint32_t reduces) const { return is_part_of(structure_.reduced, reduces, space_.rank()); }

  [[noreturn]] void refuse_two_parts(Value a, Value b) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' and '{}' reduce different parts of the chain's rows, and a row is cut "
         "into parts in one way only. Give '{}' a chain of its own",
         name(a), name(b), name(b));
  }
  [[noreturn]] void refuse_of_part(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces what other reductions make of parts of the chain's rows, which "
         "different threads know at different times. Make it two chains: the second begins with '{}'",
         name(value), name(value));
  }

  // ---- nodes

  void assign(Value value) {
    const Node& n = node(value);
    NodeRole& r = role(value);
    bool is_across = false;
    bool is_of_part = false;
    bool is_of_walk = false;  // of a row's reductions
    for (int k = 0; k < n.computed_arity(); ++k) {
      const NodeRole& arg = role(n.args[static_cast<std::size_t>(k)]);
      r.level = std::max(r.level, arg.level);
      is_of_walk = is_of_walk || (arg.extent == Extent::row && arg.level > 0);
      is_across = is_across || arg.extent == Extent::across;
      is_of_part = is_of_part || arg.extent == Extent::part;
    }
    r.extent = (span(value) & structure_.reduced) != 0 ? Extent::element : Extent::row;
    r.part_wise = structure_.part != 0 && r.extent == Extent::element && (span(value) & structure_.part) == 0;
    if (averages_ != nullptr && averages_->within[static_cast<std::size_t>(value)]) is_of_part = true;
    if (ir::is_reduction(n.op) && mask(value) != 0) {
      const bool is_mean = averages_ != nullptr && averages_->means[static_cast<std::size_t>(value)];
      if (is_mean && mask(value) == structure_.part) {  // that of its argument, which is computed of averages
        r = {.extent = Extent::part, .level = r.level};
        return;
      }
      if (is_of_part && !is_mean) refuse_of_part(value);
      return reduce(value, is_across);
    }
    if (is_across) {
      if (is_of_part || is_of_walk || (span(value) & (structure_.reduced | structure_.across)) != 0)
        refuse_across_again(value);
      r.extent = Extent::across;
    }
    if (is_of_part) r = {.extent = Extent::part, .level = r.level};
  }

  [[noreturn]] void refuse_across_again(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' uses a statistic over many rows together with values of single rows, "
         "which are "
         "written before the statistic is known. Make it two chains",
         name(value));
  }

  void reduce(Value value, bool of_across) {
    const std::uint32_t rows = structure_.reduced;
    const std::uint32_t reduces = mask(value);
    if (of_across) refuse_across_again(value);
    if (structure_.part != 0 && reduces == structure_.part) return reduce_parts(value);
    const bool whole_rows = (reduces & rows) == rows || (span(node(value).args[0]) & rows) == 0;
    if (!whole_rows) (reduces & ~rows) == 0 ? refuse_scattered(value) : refuse_part_of_row(value);
    const bool across = reduces != rows;
    if (across) {
      const std::uint32_t further = reduces & ~rows;
      if (structure_.across != 0 && structure_.across != further) refuse_two_groups(value);
      structure_.across = further;
    }
    NodeRole& r = role(value);
    r.accumulator = accumulator_for(value, across ? Extent::across : Extent::row, r.second);
    r.extent = across ? Extent::across : Extent::row;
    r.level = across ? r.level : structure_.accumulators[static_cast<std::size_t>(r.accumulator)].level;
  }

  void reduce_parts(Value value) {
    NodeRole& r = role(value);
    r = {.extent = Extent::part, .level = r.level};
    r.accumulator = accumulator_for(value, Extent::part, r.second);
  }

  [[noreturn]] void refuse_part_of_row(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces other dimensions than the chain's rows have, and not all of "
         "theirs: its "
         "elements belong to different rows. Make it two chains: the first ends with what '{}' is taken of",
         name(value), name(value));
  }
  [[noreturn]] void refuse_scattered(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' reduces some of the dimensions that the chain's rows have, and they are "
         "not the innermost ones in memory: its elements are no run of a row's. Make it two chains: the first ends "
         "with what '{}' is taken of",
         name(value), name(value));
  }
  [[noreturn]] void refuse_two_groups(Value value) const {
    fail(unsupported,
         "the chain cannot be one kernel: '{}' combines rows over other dimensions than a reduction before it. Give it "
         "a chain "
         "of its own",
         name(value));
  }

  // ---- accumulators

  static AccumulatorKind kind_of(Op op) {
    switch (op) {
      case Op::prod:
        return AccumulatorKind::product;
      case Op::amax:
        return AccumulatorKind::maximum;
      case Op::amin:
        return AccumulatorKind::minimum;
      case Op::any:
        return AccumulatorKind::any;
      case Op::all:
        return AccumulatorKind::all;
      case Op::var:
        return AccumulatorKind::moments;
      default:
        return AccumulatorKind::sum;
    }
  }

  // Another reduction of the same value over the same dimensions, of that operation.
  std::optional<Value> sibling(Value value, Op op) const {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto other = static_cast<Value>(i);
      const Node& n = node(other);
      if (n.op == op && n.args[0] == node(value).args[0] && mask(other) == mask(value)) return other;
    }
    return std::nullopt;
  }

  // `of`: row, part or across.
  int accumulator_for(Value value, Extent of, bool& second) {
    const Node& n = node(value);
    AccumulatorKind kind = kind_of(n.op);
    Value argument = n.args[0];
    second = n.op == Op::var;
    if (n.op == Op::mean && sibling(value, Op::var)) kind = AccumulatorKind::moments;
    if (n.op == Op::amax && has_sumexp(value)) kind = AccumulatorKind::max_sumexp;
    if (const auto largest = largest_of_sumexp(value)) {
      kind = AccumulatorKind::max_sumexp;
      argument = node(*largest).args[0];
      second = true;
    }
    const bool across = of == Extent::across;
    const bool part = of == Extent::part;
    const int level = part ? 0 : role(argument).level + (across ? 0 : 1);  // of parts: when all levels are known
    auto& all = structure_.accumulators;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].kind == kind && all[i].argument == argument && all[i].across == across && all[i].part == part)
        return static_cast<int>(i);
    }
    all.push_back({kind, argument, level, across, part, space_.counts[static_cast<std::size_t>(value)]});
    return static_cast<int>(all.size()) - 1;
  }

  // The amax M if `value` is sum(exp(v - M)) or sum(exp(v - where(isinf(M), 0, M))) with M = amax(v) over the same dimensions.
  std::optional<Value> largest_of_sumexp(Value value) const {
    const Node& sum = node(value);
    if (sum.op != Op::sum) return std::nullopt;
    const Node& exponential = node(sum.args[0]);
    if (exponential.op != Op::exp) return std::nullopt;
    const Node& difference = node(exponential.args[0]);
    if (difference.op != Op::sub) return std::nullopt;
    const Value largest = unguarded(difference.args[1]);
    const Node& m = node(largest);
    const bool matches = m.op == Op::amax && m.args[0] == difference.args[0] && mask(largest) == mask(value);
    return matches ? std::optional(largest) : std::nullopt;
  }

  // M of where(isinf(M), 0, M), else the value itself.
  Value unguarded(Value value) const {
    const Node& n = node(value);
    if (n.op != Op::where) return value;
    const Node& condition = node(n.args[0]);
    const Node& zero = node(n.args[1]);
    const bool guard =
        condition.op == Op::isinf && condition.args[0] == n.args[2] && zero.op == Op::constant && zero.constant == 0;
    return guard ? n.args[2] : value;
  }

  bool has_sumexp(Value amax) const {
    for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
      const auto largest = largest_of_sumexp(static_cast<Value>(i));
      if (largest && node(*largest).args[0] == node(amax).args[0] && mask(*largest) == mask(amax)) return true;
    }
    return false;
  }

  // ---- results

  void check_results() const {
    std::uint32_t all = 0;
    for (const std::uint32_t s : space_.spans) all |= s;
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const Value value = program_.results()[i].value;
      const bool within =
          structure_.nodes[static_cast<std::size_t>(value)].extent == Extent::element || !structure_.has_rows();
      if (within && span(value) != all) {
        fail(unsupported,
             "output '{}' has some, but not all of the dimensions that the chain's rows have: compute it in a chain of "
             "its own",
             program_.result_name(i));
      }
    }
  }

  const Program& program_;
  const Space& space_;
  const base::InlineVector<bool, 64> computed_;  // by node
  const Averages* averages_ = nullptr;
  base::InlineVector<std::uint32_t, 64> users_;
  Structure structure_;
};

}  // namespace

std::string_view to_string(AccumulatorKind kind) noexcept { return kKindNames[static_cast<std::size_t>(kind)]; }

int words_of(AccumulatorKind kind) noexcept {
  return kind == AccumulatorKind::moments ? 4 : kind == AccumulatorKind::max_sumexp ? 2 : 1;
}

Value unshaped(const Program& program, Value value) noexcept {
  while (ir::is_shape(program.node(value).op)) value = program.node(value).args[0];
  return value;
}

Structure analyse(const Program& program, const Space& space) { return RowAnalysis(program, space).run(); }
std::optional<Structure> analyse_averages(const Program& program, const Space& space, std::uint32_t rows) {
  const std::optional<Averages> averages = find_averages(program, space, rows);
  if (!averages) return std::nullopt;
  return RowAnalysis(program, space).run(*averages, rows);
}

bool is_part_of(std::uint32_t rows, std::uint32_t part, int rank) noexcept {
  const std::uint32_t kept = rows & ~part;
  if (part == 0 || kept == 0 || (part & ~rows) != 0) return false;
  return rank == 0 || ((part >> (rank - 1) & 1U) != 0 && kept < (part & -part));
}

Values targets_of_walk(const Program& program, const Structure& structure, int walk) {
  Values targets;
  const auto add = [&](Value value) {
    if (structure.nodes[static_cast<std::size_t>(value)].extent == Extent::element) targets.push_back(value);
  };
  for (const Accumulator& a : structure.accumulators) {
    if (a.across ? walk == structure.output_walk : walk + 1 == a.level) add(a.argument);
  }
  if (walk == structure.output_walk) {
    for (const ir::Result& result : program.results()) add(result.value);
  }
  return targets;
}

Marks computed_in_walk(const Program& program, const Structure& structure, int walk, const Values& carried) {
  Marks needed(program.nodes().size(), false);
  for (const Value target : targets_of_walk(program, structure, walk)) needed[static_cast<std::size_t>(target)] = true;
  for (std::size_t i = needed.size(); i-- > 0;) {
    const bool is_carried = walk > 0 && std::ranges::find(carried, static_cast<Value>(i)) != carried.end();
    if (structure.nodes[i].extent != Extent::element || is_carried) needed[i] = false;
    if (!needed[i]) continue;
    const Node& node = program.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return needed;
}

int accumulator_of_exponential(const Program& program, const Structure& structure, Value value) {
  const Node& exponential = program.node(value);
  if (exponential.op != Op::exp) return -1;
  const Node& difference = program.node(exponential.args[0]);
  if (difference.op != Op::sub || program.node(difference.args[1]).op != Op::amax) return -1;
  const int accumulator = structure.nodes[static_cast<std::size_t>(difference.args[1])].accumulator;
  if (accumulator < 0) return -1;
  const Accumulator& a = structure.accumulators[static_cast<std::size_t>(accumulator)];
  const bool is_term = a.kind == AccumulatorKind::max_sumexp && a.argument == difference.args[0] && !a.across;
  return is_term ? accumulator : -1;
}

Marks inputs_of_walk(const Program& program, const Structure& structure, int walk, const Values& carried) {
  const Marks computed = computed_in_walk(program, structure, walk, carried);
  Marks read(program.inputs().size(), false);
  for (std::size_t i = 0; i < computed.size(); ++i) {
    const Node& node = program.nodes()[i];
    if (computed[i] && node.op == Op::input) read[static_cast<std::size_t>(node.ordinal)] = true;
  }
  return read;
}

// As computed_in_walk(), a bit for each walk: chains may have thousands of both nodes and walks.
std::vector<std::vector<int>> walks_of_inputs(const Program& program, const Structure& structure,
                                              const Values& carried) {
  using Word = std::uint64_t;
  constexpr std::size_t kBits = 64;
  const std::size_t count = program.nodes().size();
  const auto walks = static_cast<std::size_t>(structure.output_walk) + 1;
  const std::size_t words = (walks + kBits - 1) / kBits;
  std::vector<Word> needed(count * words, 0);
  const auto of = [&](Value value) {
    return needed.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(value) * words);
  };
  const auto need = [&](Value value, int walk) {
    of(value)[walk / static_cast<int>(kBits)] |= Word{1} << (static_cast<std::size_t>(walk) % kBits);
  };
  for (const Accumulator& a : structure.accumulators) {
    const int walk = a.across ? structure.output_walk : a.level - 1;
    if (walk <= structure.output_walk) need(a.argument, walk);
  }
  for (const ir::Result& result : program.results()) need(result.value, structure.output_walk);
  std::vector<std::vector<int>> walks_of(program.inputs().size());
  for (std::size_t i = count; i-- > 0;) {
    if (structure.nodes[i].extent != Extent::element) continue;
    const auto own = of(static_cast<Value>(i));
    if (std::ranges::find(carried, static_cast<Value>(i)) != carried.end()) {
      std::fill_n(own + 1, words - 1, 0);
      own[0] &= 1;
    }
    const Node& node = program.nodes()[i];
    for (int k = 0; k < node.computed_arity(); ++k) {
      const auto argument = of(node.args[static_cast<std::size_t>(k)]);
      for (std::size_t w = 0; w < words; ++w)
        argument[static_cast<std::ptrdiff_t>(w)] |= own[static_cast<std::ptrdiff_t>(w)];
    }
    if (node.op != Op::input) continue;
    for (std::size_t walk = 0; walk < walks; ++walk) {
      if ((own[static_cast<std::ptrdiff_t>(walk / kBits)] >> (walk % kBits) & 1U) != 0)
        walks_of[static_cast<std::size_t>(node.ordinal)].push_back(static_cast<int>(walk));
    }
  }
  return walks_of;
}

NodeRole role_of_input(const Program& program, const Structure& structure, std::size_t input) {
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const Node& node = program.nodes()[i];
    if (node.op == Op::input && static_cast<std::size_t>(node.ordinal) == input) return structure.nodes[i];
  }
  return {};
}

std::string to_string(const Structure& structure) {
  std::string text = fmt::format(" w{}", structure.output_walk + 1);
  if (structure.has_averages()) text += fmt::format(" averages({})", structure.averaged);
  for (const Accumulator& a : structure.accumulators)
    text += fmt::format(" {}({}){}{}", to_string(a.kind), a.argument, a.across ? "across" : "@", a.level);
  text += ' ';
  for (const NodeRole& node : structure.nodes) {
    text += node.part_wise ? 'w' : "reap"[static_cast<std::size_t>(node.extent)];
    if (node.accumulator >= 0) text += fmt::format("{}{}", node.accumulator, node.second ? "'" : "");
  }
  return text;
}

}  // namespace epifuse::plan
