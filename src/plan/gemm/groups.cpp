// Shape operations that split the last dimension and merge it again change no element, and go. What is left has two
// kinds of values: those of elements and those of groups. Elements before any group is known make one value, which the
// kernel keeps in the registers of the sums; elements behind read it and the groups' values.
#include "plan/gemm/groups.hpp"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/text.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/gemm/chain_copies.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

// What a value of the chain is one of.
enum class Of : std::uint8_t { number, first_element, group, second_element };

class GroupSplitter {
 public:
  GroupSplitter(const WithoutProducts& split, std::span<const OutputView> outputs, std::span<const TensorView> inputs)
      : chain_(split.chain),
        split_(split),
        outputs_(outputs),
        shape_(split.products[0].shape),
        shapes_(value_shapes(chain_, split.operands(inputs, abstract_results(split)))),
        of_(chain_.nodes().size(), Of::number),
        bare_(chain_.nodes().size(), ir::kNone) {}

  // Whether all reductions are of groups of one size.
  bool are_all_of_groups() {
    for (const Node& n : chain_.nodes()) {
      if (!ir::is_reduction(n.op)) continue;
      const Dims& argument = shapes_[place(n.args[0])];
      const int rank = argument.size();
      if (rank != shape_.size() + 1 || reduced_dimensions(n, rank) != 1U << (rank - 1)) return false;
      Dims whole = shape_;
      const std::int64_t columns = argument[rank - 1];
      whole[rank - 2] = shape_[rank - 2] / columns;
      whole.push_back(columns);
      if (argument != whole || (columns_ != 0 && columns_ != columns)) return false;
      columns_ = columns;
    }
    return columns_ != 0;
  }

  std::variant<Hosted, std::string> run() {
    if (std::string why = find_scopes(); !why.empty()) return why;
    if (std::string why = find_held(); !why.empty()) return why;
    if (std::string why = find_result(); !why.empty()) return why;
    if (columns_ % WarpGroupTile::kSubtileColumns != 0)
      return fmt::format("groups of {} columns are reduced; a kernel reduces multiples of {}", columns_,
                         WarpGroupTile::kSubtileColumns);
    made_.split = first_chain();
    auto groups = std::make_shared<GemmGroups>();
    groups->columns = static_cast<int>(columns_);
    groups->elements = second_chain({made_.result}, true);
    if (!made_.of_groups.empty()) groups->scales = second_chain(made_.of_groups, false);
    made_.groups = std::move(groups);
    return std::move(made_);
  }

 private:
  static std::size_t place(Value value) { return static_cast<std::size_t>(value); }
  const Node& node(Value value) const { return chain_.node(value); }
  bool is_split(const Node& n) const { return n.op == Op::unflatten || n.op == Op::flatten; }

  std::string find_scopes() {
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      bare_[i] = static_cast<Value>(i);
      if (is_split(n)) {
        if (std::string why = look_through(i); !why.empty()) return why;
      } else if (ir::is_reduction(n.op)) {
        if (of_[place(n.args[0])] != Of::first_element || !has_partials(n.op))
          return fmt::format("'{}' of groups of columns is none that the kernel of a product computes",
                             ir::written_name(n));
        of_[i] = Of::group;
        reduced_.push_back(static_cast<Value>(i));
      } else if (n.op == Op::input) {
        of_[i] = Of::first_element;
      } else if (n.op > Op::cast && !ir::is_elementwise(n.op)) {
        return fmt::format("'{}' stands beside reductions of groups of columns", ir::written_name(n));
      } else {
        of_[i] = of_arguments(n);
      }
    }
    if (reduced_.size() > kMostGemmReductions)
      return fmt::format("the chain has more than {} reductions", kMostGemmReductions);
    return {};
  }

  static bool has_partials(Op op) { return op == Op::amax || op == Op::amin || op == Op::sum; }

  // Of the last dimension, or of the two that it was split into.
  std::string look_through(std::size_t i) {
    const Node& n = chain_.nodes()[i];
    const Value argument = n.args[0];
    const Dims& before = shapes_[place(argument)];
    const Dims& after = shapes_[i];
    const Dims& split = n.op == Op::unflatten ? after : before;
    const Dims& whole = n.op == Op::unflatten ? before : after;
    const int last = whole.size() - 1;
    bool is_of_last = split.size() == whole.size() + 1 && last >= 0;
    for (int d = 0; is_of_last && d < last; ++d) is_of_last = split[d] == whole[d];
    const bool is_of_groups = is_of_last && (split[last + 1] == columns_ || split[last + 1] == 1);
    if (!is_of_groups) return fmt::format("'{}' changes more than the groups of columns", ir::written_name(n));
    of_[i] = of_[place(argument)];
    bare_[i] = bare_[place(argument)];
    return {};
  }

  Of of_arguments(const Node& n) const {
    Of most = Of::number;
    bool has_element = false;
    for (int k = 0; k < n.arity(); ++k) {
      const Of of = of_[place(n.args[static_cast<std::size_t>(k)])];
      has_element = has_element || of == Of::first_element || of == Of::second_element;
      most = std::max(most, of);
    }
    return most == Of::group && has_element ? Of::second_element : most;
  }

  // What elements behind the groups read of those before: one value of the product's shape.
  std::string find_held() {
    const auto is_behind = [&](std::size_t i) { return of_[i] == Of::second_element || of_[i] == Of::group; };
    const auto read = [&](Value value) -> std::string {
      const Value bare = bare_[place(value)];
      if (of_[place(bare)] != Of::first_element || bare == held_) return {};
      if (held_ != ir::kNone)
        return fmt::format("'{}' and '{}' are both read beside groups of columns, and a kernel keeps one value",
                           plan::text_of(chain_, held_), plan::text_of(chain_, bare));
      held_ = bare;
      return {};
    };
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      if (!is_behind(i) || ir::is_reduction(n.op) || is_split(n)) continue;
      for (int k = 0; k < n.arity(); ++k) {
        if (std::string why = read(n.args[static_cast<std::size_t>(k)]); !why.empty()) return why;
      }
    }
    for (const ir::Result& result : chain_.results()) {
      if (std::string why = read(result.value); !why.empty()) return why;
    }
    if (held_ == ir::kNone) return "no element is left beside groups of columns";
    if (shapes_[place(held_)] != shape_)
      return fmt::format("'{}' has the shape {}, and the product {}", plan::text_of(chain_, held_),
                         to_string(shapes_[place(held_)]), to_string(shape_));
    return {};
  }

  std::string find_result() {
    std::size_t tensors = 0;
    for (std::size_t i = 0; i < chain_.results().size(); ++i) {
      const Of of = of_[place(bare_[place(chain_.results()[i].value)])];
      if (of == Of::group) {
        made_.of_groups.push_back(i);
      } else {
        ++tensors;
        made_.result = i;
      }
    }
    if (tensors == 1 && outputs_[made_.result].shape == shape_) return {};
    return fmt::format("the chain has {} results for elements, and the kernel of a product writes one in its shape",
                       tensors);
  }

  // The held value, and what groups of it are reduced from.
  WithoutProducts first_chain() {
    std::vector<Value> writes = {held_};
    for (const Value value : reduced_) {
      writes.push_back(node(value).args[0]);
      made_.reductions.push_back({node(value).op, GemmScope::group});
    }
    return chain_of_elements(split_, writes, {});
  }

  // Of what groups were reduced to, in the order of `reduced_`; in front of them the held value.
  ir::Program second_chain(const std::vector<std::size_t>& results, bool has_held) const {
    std::vector<Value> writes;
    for (const std::size_t result : results) writes.push_back(chain_.results()[result].value);
    std::vector<bool> known(of_.size(), false);
    if (has_held) known[place(held_)] = true;
    for (const Value value : reduced_) known[place(value)] = true;
    const std::vector<bool> needed = ir::needed_for(chain_, writes, known);
    ir::Builder builder;
    for (const std::string& name : chain_.scalars()) builder.scalar(name);
    std::vector<Value> copies(of_.size(), ir::kNone);
    if (has_held) copies[place(held_)] = builder.float_input(fresh_name(chain_, "held"));
    for (std::size_t i = 0; i < reduced_.size(); ++i)
      copies[place(reduced_[i])] = builder.float_input(fresh_name(chain_, fmt::format("of_group{}", i)));
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (needed[i] && !known[i]) copies[i] = copied(builder, chain_, i, copies);
    }
    for (const std::size_t result : results)
      builder.result(chain_.results()[result].name, copies[place(chain_.results()[result].value)]);
    return std::move(builder).finish().with(chain_.math());
  }

  const ir::Program& chain_;
  const WithoutProducts& split_;
  std::span<const OutputView> outputs_;
  const Dims& shape_;
  std::vector<Dims> shapes_;
  std::vector<Of> of_;       // by value
  std::vector<Value> bare_;  // by value: the same before dimensions were split or merged
  std::vector<Value> reduced_;
  Value held_ = ir::kNone;
  std::int64_t columns_ = 0;
  Hosted made_;
};

}  // namespace

std::optional<std::variant<Hosted, std::string>> grouped(const WithoutProducts& split,
                                                         std::span<const OutputView> outputs,
                                                         std::span<const TensorView> inputs) {
  GroupSplitter splitter(split, outputs, inputs);
  if (!splitter.are_all_of_groups()) return std::nullopt;
  return splitter.run();
}

}  // namespace epifuse::plan
