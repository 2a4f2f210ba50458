// A value that depends on no reduction is the kernel's. Reductions of such values are cut: their partial results take
// their arguments' place, since a sum of sums is the sum, and a maximum of maxima the maximum.
#include "plan/gemm/hosted.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/gemm/chain_copies.hpp"
#include "plan/gemm/groups.hpp"
#include "plan/gemm/whole_rows.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

// What is reduced, over which dimensions.
enum class Reduced : std::uint8_t { rows, columns, all };

// A reduction of the chain whose argument the kernel computes.
struct Cut {
  Value node;
  Reduced what;
  std::size_t reduction;  // of the kernel; several may share one
};

// Results that one chain makes.
struct Group {
  Reduced what;
  std::vector<std::size_t> results;
};

class Splitter {
 public:
  Splitter(const WithoutProducts& split, std::span<const OutputView> outputs, std::span<const TensorView> inputs)
      : split_(split),
        chain_(split.chain),
        outputs_(outputs),
        shape_(split.products[0].shape),
        shapes_(value_shapes(chain_, split.operands(inputs, abstract_results(split)))),
        is_reduced_(chain_.nodes().size(), false) {}

  std::variant<Hosted, std::string> run() {
    find_reduced();
    if (std::string why = find_cuts(); !why.empty()) return why;
    if (std::string why = find_result(); !why.empty()) return why;
    make_kernel_chain();
    for (std::size_t i = 0; i < chain_.results().size(); ++i) {
      if (i == made_.result) continue;
      if (std::string why = add_to_finishes(i); !why.empty()) return why;
    }
    for (const Group& group : groups_) made_.finishes.push_back(finish(group.results));
    return std::move(made_);
  }

 private:
  static std::size_t place(Value value) { return static_cast<std::size_t>(value); }
  const Node& node(Value value) const { return chain_.node(value); }
  const WithoutProducts::Read& read_of(const Node& input) const {
    return split_.reads[static_cast<std::size_t>(input.ordinal)];
  }

  void find_reduced() {
    for (std::size_t i = 0; i < is_reduced_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      is_reduced_[i] = ir::is_reduction(n.op);
      for (int k = 0; k < n.arity(); ++k)
        is_reduced_[i] = is_reduced_[i] || is_reduced_[place(n.args[static_cast<std::size_t>(k)])];
    }
  }

  // Why the kernel cannot leave partial results of what the chain reduces, or nothing.
  std::string find_cuts() {
    for (std::size_t i = 0; i < is_reduced_.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      if (!ir::is_reduction(n.op) || is_reduced_[place(n.args[0])]) continue;
      const auto op = partial_op(n.op);
      if (!op)
        return fmt::format(
            "'{}' has no partial results; of a product's tiles there are those of sum, mean, amax and amin",
            ir::written_name(n));
      if (shapes_[place(n.args[0])] != shape_)
        return fmt::format("'{}' reduces a value of the shape {}, and the product has {}", ir::written_name(n),
                           to_string(shapes_[place(n.args[0])]), to_string(shape_));
      const auto what = dimensions_of(n);
      if (!what)
        return fmt::format(
            "'{}' reduces some of the dimensions before the last: a product's tiles leave partial results "
            "of the last one, of all others, or of all",
            ir::written_name(n));
      const GemmReduction reduction{*op, *what == Reduced::columns ? GemmScope::column : GemmScope::row};
      const auto number = number_of(reduction, n.args[0]);
      if (!number) return fmt::format("the chain has more than {} reductions", kMostGemmReductions);
      cuts_.push_back({static_cast<Value>(i), *what, *number});
    }
    return {};
  }

  static std::optional<Op> partial_op(Op op) {
    switch (op) {
      case Op::sum:
      case Op::mean:
        return Op::sum;
      case Op::amax:
      case Op::amin:
        return op;
      default:
        return std::nullopt;
    }
  }

  std::optional<Reduced> dimensions_of(const Node& n) const {
    const int rank = shape_.size();
    const std::uint32_t last = 1U << (rank - 1);
    std::uint32_t others = 0;  // of more than one element
    for (int d = 0; d + 1 < rank; ++d) others |= shape_[d] > 1 ? 1U << d : 0;
    const std::uint32_t reduced = reduced_dimensions(n, rank);
    const bool takes_others = (reduced & others) == others;
    if ((reduced & last) == 0) return takes_others ? std::optional(Reduced::columns) : std::nullopt;
    if ((reduced & others) == 0) return Reduced::rows;
    return takes_others ? std::optional(Reduced::all) : std::nullopt;
  }

  // The same partial results serve a row's sum and its mean.
  std::optional<std::size_t> number_of(const GemmReduction& reduction, Value argument) {
    for (std::size_t i = 0; i < made_.reductions.size(); ++i) {
      if (made_.reductions[i] == reduction && arguments_[i] == argument) return i;
    }
    if (made_.reductions.size() == kMostGemmReductions) return std::nullopt;
    made_.reductions.push_back(reduction);
    arguments_.push_back(argument);
    return arguments_.size() - 1;
  }

  std::string find_result() {
    std::size_t tensors = 0;
    for (std::size_t i = 0; i < chain_.results().size(); ++i) {
      const Value value = chain_.results()[i].value;
      if (is_reduced_[place(value)]) continue;
      ++tensors;
      made_.result = i;
      if (shapes_[place(value)] != shape_ || outputs_[i].shape != shape_)
        return fmt::format("the result has the shape {}, and the product {}", to_string(outputs_[i].shape),
                           to_string(shape_));
    }
    if (tensors == 1) return {};
    return fmt::format("the chain has {} results of the product's shape, and the kernel of a product writes one",
                       tensors);
  }

  void make_kernel_chain() {
    std::vector<Value> writes = {chain_.results()[made_.result].value};
    writes.insert(writes.end(), arguments_.begin(), arguments_.end());
    made_.split = chain_of_elements(split_, writes, chain_.results()[made_.result].name);
  }

  // What a result reads beside partial results must be operands. Results of one shape that read partial results of the
  // same elements are one chain.
  std::string add_to_finishes(std::size_t result) {
    const std::vector<bool> needed = needed_of({result});
    std::optional<Reduced> what;
    for (const Cut& cut : cuts_) {
      if (!needed[place(cut.node)]) continue;
      if (what && *what != cut.what)
        return fmt::format("result '{}' reads reductions of different dimensions", chain_.result_name(result));
      what = cut.what;
    }
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const Node& n = chain_.nodes()[i];
      if (!needed[i] || n.op == Op::constant || n.op == Op::scalar) continue;
      const bool is_operand = n.op == Op::input && !read_of(n).is_product;
      if (!is_reduced_[i] && !is_operand)
        return fmt::format(
            "result '{}' reads '{}' beside reductions of the product's elements: a kernel does not keep "
            "these until the reductions are known",
            chain_.result_name(result), plan::text_of(chain_, static_cast<Value>(i)));
    }
    const auto is_alike = [&](const Group& group) {
      return outputs_[group.results[0]].shape == outputs_[result].shape && group.what == *what;
    };
    const auto found = std::ranges::find_if(groups_, is_alike);
    if (found == groups_.end()) {
      groups_.push_back({*what, {result}});
    } else {
      found->results.push_back(result);
    }
    return {};
  }

  // Behind the reductions that are cut nothing is needed.
  std::vector<bool> needed_of(std::span<const std::size_t> results) const {
    std::vector<Value> writes;
    for (const std::size_t result : results) writes.push_back(chain_.results()[result].value);
    std::vector<bool> is_cut(is_reduced_.size(), false);
    for (const Cut& cut : cuts_) is_cut[place(cut.node)] = true;
    return ir::needed_for(chain_, writes, is_cut);
  }
  std::vector<bool> needed_of(std::initializer_list<std::size_t> results) const {
    return needed_of(std::span(results.begin(), results.size()));
  }

  Finish finish(const std::vector<std::size_t>& results) const {
    const std::vector<bool> needed = needed_of(results);
    ir::Builder builder;
    for (const std::string& name : chain_.scalars()) builder.scalar(name);
    Finish made;
    made.results = results;
    std::vector<Value> copies(needed.size(), ir::kNone);
    std::vector<std::pair<std::size_t, Value>> partials;  // of a reduction, as an operand
    std::vector<std::string> texts;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      const Node& n = chain_.nodes()[i];
      const auto cut = std::ranges::find(cuts_, static_cast<Value>(i), &Cut::node);
      if (cut == cuts_.end()) {
        copies[i] = copied(builder, chain_, i, copies);
        if (n.op != Op::input) continue;
        made.reads.push_back({std::nullopt, read_of(n)});
        texts.push_back(chain_.operand_text(static_cast<std::size_t>(n.ordinal)));
        continue;
      }
      auto known = std::ranges::find(partials, cut->reduction, &std::pair<std::size_t, Value>::first);
      if (known == partials.end()) {
        Value own = builder.float_input(fresh_name(chain_, fmt::format("partials{}", cut->reduction)));
        // They have one shape: said so, one pass reduces all of them.
        if (!partials.empty()) own = builder.expand_as(own, partials[0].second);
        partials.emplace_back(cut->reduction, own);
        made.reads.push_back({cut->reduction});
        texts.push_back(fmt::format("the partial results of '{}'", ir::written_name(n)));
        known = std::prev(partials.end());
      }
      copies[i] = combined(builder, n, known->second);
    }
    for (const std::size_t result : results)
      builder.result(chain_.results()[result].name, copies[place(chain_.results()[result].value)]);
    made.program = std::move(builder).finish().with(chain_.math()).with_operand_texts(std::move(texts));
    return made;
  }

  // The reduction, of partial results. A mean is a sum of all elements, divided by their number.
  Value combined(ir::Builder& builder, const Node& n, Value partials) const {
    const ir::Builder::Written written(builder, ir::written_name(n));
    const Op op = *partial_op(n.op);
    const Value reduced = builder.reduce(op, partials, n.shaping.axes, n.shaping.keepdim);
    if (n.op != Op::mean) return reduced;
    std::int64_t elements = 1;
    const std::uint32_t dimensions = reduced_dimensions(n, shape_.size());
    for (int d = 0; d < shape_.size(); ++d) elements *= (dimensions >> d & 1U) != 0 ? shape_[d] : 1;
    return builder.apply(Op::div, {reduced, builder.constant(static_cast<double>(elements)), ir::kNone});
  }

  const WithoutProducts& split_;
  const ir::Program& chain_;
  std::span<const OutputView> outputs_;
  const Dims& shape_;
  std::vector<Dims> shapes_;
  std::vector<bool> is_reduced_;
  std::vector<Cut> cuts_;
  std::vector<Value> arguments_;  // by reduction
  std::vector<Group> groups_;
  Hosted made_;
};

}  // namespace

std::variant<Hosted, std::string> hosted(const WithoutProducts& split, std::span<const OutputView> outputs,
                                         std::span<const TensorView> inputs) {
  const auto& nodes = split.chain.nodes();
  if (std::ranges::none_of(nodes, [](const Node& n) { return ir::is_reduction(n.op); })) {
    if (outputs.size() != 1)
      return fmt::format("the chain has {} results, and the kernel of a product writes one", outputs.size());
    return Hosted{split, 0, {}, {}, nullptr, {}};
  }
  if (split.products[0].windows) return std::string("the kernel of a convolution hosts no reductions");
  if (auto of_groups = grouped(split, outputs, inputs)) return std::move(*of_groups);
  for (const Node& n : nodes) {
    if (!ir::is_reduction(n.op) && (n.op >= Op::unflatten || n.op == Op::count))
      return fmt::format("'{}' stands beside reductions of the product's elements", ir::written_name(n));
  }
  if (auto of_rows = with_whole_rows(split, outputs, inputs)) return std::move(*of_rows);
  if (split.products[0].left.dtype == DType::i8)
    return std::string("sums of products of i8 are integers, and partial results are f32");
  return Splitter(split, outputs, inputs).run();
}

TensorView operand_of(const Finish::Read& read, const GemmPlan& plan, const void* memory, const Dims& shape,
                      std::span<const TensorView> inputs) {
  if (!read.partials) return read.operand.of(inputs);
  const std::size_t reduction = *read.partials;
  const GemmPartials& partials = plan.partials[reduction];
  const void* const data =
      memory == nullptr ? nullptr : static_cast<const std::byte*>(memory) + plan.partials_at(reduction);
  TensorView view(data, DType::f32, shape);
  const int last = shape.size() - 1;
  if (plan.gemm_class.reductions[reduction].scope == GemmScope::row) {
    // Of a row so many, a row's distance apart.
    view.shape[last] = partials.count;
    view.strides[last] = partials.extent;
    std::int64_t step = 1;
    for (int d = last; d-- > 0; step *= shape[d]) view.strides[d] = step;
    return view;
  }
  // In the place of a dimension that every reduction of columns takes away.
  int reduced = std::max(last - 1, 0);
  while (reduced > 0 && shape[reduced] == 1) --reduced;
  if (shape[reduced] == 1) reduced = std::max(last - 1, 0);
  for (int d = 0; d < last; ++d) view.shape[d] = 1;
  view.shape[reduced] = partials.count;
  view.strides = row_major(view.shape);
  return view;
}

}  // namespace epifuse::plan
