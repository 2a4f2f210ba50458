// A row is reduced once, or a second time with what it was reduced to first: a variance behind its mean, a sum behind a
// maximum. One value of the elements is held in the registers of the sums. What operands with a value for each column
// or each row make is free: each of the kernel's chains computes it where it needs it.
#include "plan/gemm/whole_rows.hpp"

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

std::size_t place(Value value) { return static_cast<std::size_t>(value); }

std::vector<Dims> shapes_of_values(const WithoutProducts& split, std::span<const TensorView> inputs) {
  return value_shapes(split.chain, split.operands(inputs, abstract_results(split)));
}

// The same chain, whose variances are means of squared distances from the mean.
WithoutProducts without_variances(const WithoutProducts& split, std::span<const TensorView> inputs) {
  const ir::Program& chain = split.chain;
  if (std::ranges::find(chain.nodes(), Op::var, &Node::op) == chain.nodes().end()) return split;
  const std::vector<Dims> shapes = shapes_of_values(split, inputs);
  ir::Builder builder;
  for (const std::string& name : chain.scalars()) builder.scalar(name);
  for (const std::string& name : chain.inputs()) builder.input(name);
  std::vector<Value> copies(shapes.size(), ir::kNone);
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const Node& n = chain.nodes()[i];
    if (n.op != Op::var) {
      copies[i] = copied(builder, chain, i, copies);
      continue;
    }
    const ir::Builder::Written written(builder, ir::written_name(n));
    const Value elements = copies[place(n.args[0])];
    const Value mean = builder.reduce(Op::mean, elements, n.shaping.axes, true);
    const Value distance = builder.apply(Op::sub, {elements, mean, ir::kNone});
    const Value square = builder.apply(Op::square, {distance, ir::kNone, ir::kNone});
    copies[i] = builder.reduce(Op::mean, square, n.shaping.axes, n.shaping.keepdim);
    if (n.constant == 0) continue;
    const Dims& row = shapes[place(n.args[0])];
    const std::int64_t count = row.size() == 0 ? 1 : row[row.size() - 1];
    const double counted = std::max(static_cast<double>(count) - n.constant, 0.0);
    copies[i] = builder.apply(Op::mul, {copies[i], builder.constant(static_cast<double>(count) / counted), ir::kNone});
  }
  for (const ir::Result& result : chain.results()) builder.result(result.name, copies[place(result.value)]);
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < chain.inputs().size(); ++i) texts.push_back(chain.operand_text(i));
  WithoutProducts made{{}, split.reads, split.products};
  made.chain = std::move(builder).finish().with(chain.math()).with_operand_texts(std::move(texts));
  return made;
}

// What a value of the chain is one of.
enum class RowValue : std::uint8_t { free, row, element };

class RowSplitter {
 public:
  RowSplitter(const WithoutProducts& split, std::span<const OutputView> outputs, std::span<const TensorView> inputs)
      : split_(without_variances(split, inputs)),
        chain_(split_.chain),
        outputs_(outputs),
        shape_(split_.products[0].shape),
        row_shape_(shape_),
        operands_(split_.operands(inputs, abstract_results(split_))),
        shapes_(shapes_of_values(split_, inputs)),
        of_(chain_.nodes().size(), RowValue::free),
        passes_(chain_.nodes().size(), 0) {
    row_shape_[row_shape_.size() - 1] = 1;
    find_scopes();
  }

  // Whether the tensor is made of elements behind reductions.
  bool is_behind_reductions() const {
    return std::ranges::any_of(chain_.results(), [&](const ir::Result& result) {
      return of_[place(result.value)] == RowValue::element && passes_[place(result.value)] > 0;
    });
  }

  std::variant<Hosted, std::string> run() {
    if (!why_.empty()) return why_;
    if (std::string why = find_result(); !why.empty()) return why;
    if (std::string why = find_held(); !why.empty()) return why;
    if (std::string why = check_rows(); !why.empty()) return why;
    auto groups = std::make_shared<GemmGroups>();
    add_reductions(first_);
    add_reductions(second_);
    const Value tensor = chain_.results()[made_.result].value;
    Value held = held_;
    std::vector<Value> rows = first_;
    if (!second_.empty()) {
      held = held_second(tensor);
      groups->second = further_chain(held_, rows, with_arguments(held, second_));
      rows.insert(rows.end(), second_.begin(), second_.end());
    }
    groups->elements = further_chain(held, rows, {tensor}, chain_.results()[made_.result].name);
    if (!made_.of_groups.empty()) groups->scales = chain_of_rows(rows);
    made_.split = chain_of_elements(split_, with_arguments(held_, first_), {}, vectors_);
    made_.groups = std::move(groups);
    return std::move(made_);
  }

 private:
  const Node& node(Value value) const { return chain_.node(value); }
  static std::span<const Value> arguments(const Node& n) {
    return std::span(n.args).first(static_cast<std::size_t>(n.arity()));
  }

  void find_scopes() {
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      if (n.op == Op::input) {
        if (is_element(n)) of_[i] = RowValue::element;
        continue;
      }
      for (const Value argument : arguments(n)) {
        of_[i] = std::max(of_[i], of_[place(argument)]);
        passes_[i] = std::max(passes_[i], passes_[place(argument)]);
      }
      std::string why;
      if (ir::is_reduction(n.op)) {
        why = add_reduction(static_cast<Value>(i));
      } else if (n.op > Op::cast && !ir::is_elementwise(n.op)) {
        why = fmt::format("'{}' stands beside reductions of whole rows", ir::written_name(n));
      } else if (passes_[i] > 0) {
        why = check_shapes(i);
      }
      if (why_.empty()) why_ = std::move(why);
    }
  }

  // A product, or an operand with a value for each element.
  bool is_element(const Node& input) const {
    const auto ordinal = static_cast<std::size_t>(input.ordinal);
    if (split_.reads[ordinal].is_product) return true;
    const TensorView& operand = operands_[static_cast<int>(ordinal)];
    const int last = operand.shape.size() - 1;
    const auto varies = [&](int d) { return operand.shape[d] > 1 && operand.strides[d] != 0; };
    if (last < 0 || !varies(last)) return false;
    for (int d = 0; d < last; ++d) {
      if (varies(d)) return true;
    }
    return false;
  }

  std::string add_reduction(Value value) {
    const Node& n = node(value);
    const std::size_t i = place(value);
    const Value argument = n.args[0];
    const bool is_of_element = of_[i] == RowValue::element && shapes_[place(argument)] == shape_;
    of_[i] = RowValue::row;
    ++passes_[i];
    const int rank = shape_.size();
    if (!is_of_element || reduced_dimensions(n, rank) != 1U << (rank - 1))
      return fmt::format("'{}' reduces other values than rows of the product, whose elements are read again",
                         ir::written_name(n));
    if (n.op != Op::sum && n.op != Op::mean && n.op != Op::amax && n.op != Op::amin)
      return fmt::format("'{}' of whole rows is none that the kernel of a product computes", ir::written_name(n));
    if (passes_[i] > 2)
      return fmt::format("'{}' is a third reduction of whole rows that reads the two before", ir::written_name(n));
    (passes_[i] == 1 ? first_ : second_).push_back(value);
    if (first_.size() + second_.size() > kMostGemmReductions)
      return fmt::format("the chain has more than {} reductions", kMostGemmReductions);
    return {};
  }

  // A value for each row that elements read has one element in the place of a row's. One without that dimension would
  // meet them as a row.
  std::string check_shapes(std::size_t i) {
    const Node& n = chain_.nodes()[i];
    const Dims& own = shapes_[i];
    const bool is_row = of_[i] == RowValue::row && own != shape_;
    of_[i] = is_row ? RowValue::row : RowValue::element;
    const auto is_sound = [&](Value argument) {
      const Dims& shape = shapes_[place(argument)];
      const bool is_number = std::ranges::all_of(shape, [](std::int64_t extent) { return extent == 1; });
      if (!is_row || own == row_shape_) return of_[place(argument)] != RowValue::row || shape == row_shape_;
      return of_[place(argument)] == RowValue::row ? shape == own : is_number;
    };
    const bool has_shape = !is_row ? own == shape_ : own == row_shape_ || own.size() == shape_.size() - 1;
    if (has_shape && std::ranges::all_of(arguments(n), is_sound)) return {};
    return fmt::format("'{}' reads a reduction of rows without its dimension: write it with keepdim=true",
                       ir::written_name(n));
  }

  std::string find_result() {
    std::size_t tensors = 0;
    for (std::size_t i = 0; i < chain_.results().size(); ++i) {
      const std::size_t value = place(chain_.results()[i].value);
      if (of_[value] == RowValue::row) {
        made_.of_groups.push_back(i);
      } else {
        ++tensors;
        if (passes_[value] > 0) made_.result = i;
      }
    }
    if (tensors == 1 && outputs_[made_.result].shape == shape_) return {};
    return fmt::format(
        "the chain has {} results of the product's shape, and a kernel that reduces whole rows writes one", tensors);
  }

  // What is read of elements behind the first reductions: one value of the product's shape.
  std::string find_held() {
    for (std::size_t i = 0; i < of_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      if (passes_[i] == 0 || ir::is_reduction(n.op)) continue;
      for (const Value argument : arguments(n)) {
        if (of_[place(argument)] != RowValue::element || passes_[place(argument)] > 0 || argument == held_) continue;
        if (held_ != ir::kNone)
          return fmt::format(
              "'{}' and '{}' are both read beside reductions of whole rows, and a kernel keeps one value",
              plan::text_of(chain_, held_), plan::text_of(chain_, argument));
        held_ = argument;
      }
    }
    if (held_ == ir::kNone) return "no element is left beside reductions of whole rows";
    if (shapes_[place(held_)] == shape_) return {};
    return fmt::format("'{}' has the shape {}, and the product {}", plan::text_of(chain_, held_),
                       to_string(shapes_[place(held_)]), to_string(shape_));
  }

  // Results with a value for each row are made of reductions alone.
  std::string check_rows() const {
    const std::vector<bool> needed = needed_behind(results_of_rows(), ir::kNone, all_reductions());
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (needed[i] && chain_.nodes()[i].op == Op::input)
        return fmt::format("'{}' is read beside reductions of whole rows by a result with a value for each row",
                           plan::text_of(chain_, static_cast<Value>(i)));
    }
    return {};
  }

  void add_reductions(const std::vector<Value>& all) {
    for (const Value value : all) made_.reductions.push_back({node(value).op, GemmScope::whole_row});
  }

  // Where the elements behind the second reductions need nothing but a value that is reduced then, as those of softmax
  // need their exponential, that takes the held value's place.
  Value held_second(Value tensor) const {
    for (const Value reduction : second_) {
      const Value argument = node(reduction).args[0];
      if (!needed_behind({tensor}, argument, all_reductions())[place(held_)]) return argument;
    }
    return held_;
  }

  std::vector<Value> with_arguments(Value held, const std::vector<Value>& reductions) const {
    std::vector<Value> writes = {held};
    for (const Value value : reductions) writes.push_back(node(value).args[0]);
    return writes;
  }
  std::vector<Value> all_reductions() const {
    std::vector<Value> all = first_;
    all.insert(all.end(), second_.begin(), second_.end());
    return all;
  }
  std::vector<Value> results_of_rows() const {
    std::vector<Value> values;
    for (const std::size_t result : made_.of_groups) values.push_back(chain_.results()[result].value);
    return values;
  }

  // What `writes` need where the held value and what rows are reduced to are known.
  std::vector<bool> needed_behind(const std::vector<Value>& writes, Value held, const std::vector<Value>& rows) const {
    std::vector<bool> known(of_.size(), false);
    if (held != ir::kNone) known[place(held)] = true;
    for (const Value row : rows) known[place(row)] = true;
    return ir::needed_for(chain_, writes, known);
  }

  // A chain of the held value, of what rows are reduced to and of vectors, in this order.
  ir::Program further_chain(Value held, const std::vector<Value>& rows, const std::vector<Value>& writes,
                            const std::string& name = {}) {
    ir::Builder builder;
    for (const std::string& scalar : chain_.scalars()) builder.scalar(scalar);
    std::vector<Value> copies(of_.size(), ir::kNone);
    if (held != ir::kNone) copies[place(held)] = builder.float_input(fresh_name(chain_, "held"));
    for (std::size_t i = 0; i < rows.size(); ++i)
      copies[place(rows[i])] = builder.float_input(fresh_name(chain_, fmt::format("of_row{}", i)));
    const std::vector<bool> needed = needed_behind(writes, held, rows);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (!needed[i] || copies[i] != ir::kNone) continue;
      copies[i] = copied(builder, chain_, i, copies);
      const auto value = static_cast<Value>(i);
      const bool is_new = std::ranges::find(vectors_, value) == vectors_.end();
      if (chain_.nodes()[i].op == Op::input && is_new) vectors_.push_back(value);
    }
    for (std::size_t i = 0; i < writes.size(); ++i)
      builder.result(i == 0 ? name : std::string(), copies[place(writes[i])]);
    return std::move(builder).finish().with(chain_.math());
  }
  ir::Program chain_of_rows(const std::vector<Value>& rows) {
    return further_chain(ir::kNone, rows, results_of_rows());
  }

  const WithoutProducts split_;
  const ir::Program& chain_;
  std::span<const OutputView> outputs_;
  const Dims& shape_;
  Dims row_shape_;  // of a value for each row that elements read
  base::InlineVector<TensorView, 8> operands_;
  std::vector<Dims> shapes_;
  std::vector<RowValue> of_;           // by value
  std::vector<int> passes_;            // by value: reductions of rows behind each other, that stand before it
  std::string why_;                    // the kernel hosts no such chain
  std::vector<Value> first_, second_;  // reductions; the second read what the first made
  std::vector<Value> vectors_;         // operands that are read behind reductions
  Value held_ = ir::kNone;
  Hosted made_;
};

}  // namespace

std::optional<std::variant<Hosted, std::string>> with_whole_rows(const WithoutProducts& split,
                                                                 std::span<const OutputView> outputs,
                                                                 std::span<const TensorView> inputs) {
  const Dims& shape = split.products[0].shape;
  if (shape.size() < 2 || shape[shape.size() - 1] < 2) return std::nullopt;
  RowSplitter splitter(split, outputs, inputs);
  if (!splitter.is_behind_reductions()) return std::nullopt;
  return splitter.run();
}

}  // namespace epifuse::plan
