// An element's function stands once for each element of a thread. What it makes of a group alone the compiler had to
// find to be the same each time: NVRTC takes a sixth less time for SwiGLU that is quantised per 32 columns.
#include "codegen/gemm/shared_values.hpp"

#include <algorithm>
#include <set>

#include "base/inline_vector.hpp"
#include "base/text.hpp"
#include "codegen/chain.hpp"
#include "codegen/params.hpp"
#include "ir/subchain.hpp"
#include "plan/analysis/structure.hpp"

namespace epifuse::codegen {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

class SharedValues {
 public:
  SharedValues(const ir::Program& elements, const plan::KernelClass& kernel, Prelude& prelude)
      : program_(elements),
        kinds_(elements.inputs().size(), ir::Kind::real),
        writer_(elements, kernel, kinds_, prelude),
        result_(writer_.unshaped(plan::stored_value(elements, 0, kernel.outputs[0].dtype))),
        computed_(plan::computed_values(elements)),
        varies_(elements.nodes().size(), false) {
    find_shared();
  }

  std::string text() {
    std::string values = fmt::format("constexpr int kShared = {};  // values that all elements of a group share\n\n",
                                     std::max<std::size_t>(shared_.size(), 1));
    values += "// What all elements of a group of columns take of what it is reduced to.\n";
    values +=
        "__device__ __forceinline__ void share_group(const Params& p, const float (&groups)[kPartials], float "
        "(&shared)[kShared]) {\n";
    values += statements({shared_.begin(), shared_.end()}, {});
    std::size_t number = 0;
    for (const Value value : shared_)
      values += fmt::format("  shared[{}] = static_cast<float>({});\n", number++, writer_.reference(value));
    values += fmt::format(
        "}}\n\n// The element whose held value and group these are.\n"
        "__device__ __forceinline__ float host_element(const Params& p, Real {}, const float (&shared)[kShared]) {{\n",
        input_name(program_, 0));
    values += statements({result_}, shared_);
    return values + fmt::format("  return static_cast<float>({});\n}}\n\n", writer_.reference(result_));
  }

 private:
  const Node& node(Value value) const { return program_.node(value); }
  static std::size_t place(Value value) { return static_cast<std::size_t>(value); }

  // What elements read of values that do not vary among them.
  void find_shared() {
    const std::vector<Value> results = {result_};
    const std::vector<bool> needed = ir::needed_for(program_, results, std::vector<bool>(varies_.size(), false));
    for (std::size_t i = 0; i < varies_.size(); ++i) {
      const Node& n = program_.nodes()[i];
      varies_[i] = n.op == Op::input && n.ordinal == 0;
      for (int k = 0; k < n.arity(); ++k)
        varies_[i] = varies_[i] || varies_[place(n.args[static_cast<std::size_t>(k)])];
      if (!needed[i] || !computed_[i] || !varies_[i]) continue;
      for (int k = 0; k < n.arity(); ++k) add(n.args[static_cast<std::size_t>(k)]);
    }
    add(result_);
  }
  void add(Value value) {
    value = writer_.unshaped(value);
    const Op op = node(value).op;
    const bool is_of_group = op == Op::input || (ir::is_computed(op) && computed_[place(value)]);
    if (is_of_group && !varies_[place(value)]) shared_.insert(value);
  }

  // What computes `made` from the values `given`, which stand in `shared`.
  std::string statements(const std::vector<Value>& made, const std::set<Value>& given) {
    std::vector<bool> known(varies_.size(), false);
    for (const Value value : given) known[place(value)] = true;
    const std::vector<bool> needed = ir::needed_for(program_, made, known);
    std::string out;
    for (std::size_t i = 0; i < needed.size(); ++i) {
      const auto value = static_cast<Value>(i);
      const Node& n = program_.nodes()[i];
      if (!needed[i]) continue;
      if (known[i]) {
        out += variable(value, fmt::format("shared[{}]", std::distance(given.begin(), given.find(value))));
      } else if (n.op == Op::input && n.ordinal > 0) {
        out += variable(value, fmt::format("groups[{}]", n.ordinal - 1));
      } else if (n.op == Op::scalar) {
        out += variable(value, "p." + scalar_name(program_, static_cast<std::size_t>(n.ordinal)));
      } else if (ir::is_computed(n.op) && computed_[i]) {
        out += fmt::format("  const {} {} = {};\n", type_of(writer_.kind(value)), writer_.reference(value),
                           writer_.computation(value));
      }
    }
    return out;
  }
  // By the name that operations read it by.
  std::string variable(Value value, const std::string& number) const {
    const bool is_real = writer_.kind(value) == ir::Kind::real;
    return fmt::format("  const {} {} = {}{};\n", type_of(writer_.kind(value)), writer_.reference(value), number,
                       is_real ? "" : " != 0.0f");
  }

  const ir::Program& program_;
  const std::vector<ir::Kind> kinds_;
  ChainWriter writer_;
  const Value result_;
  const base::InlineVector<bool, 64> computed_;
  std::vector<bool> varies_;  // by value: among the elements of a group
  std::set<Value> shared_;
};

}  // namespace

std::string share_values(const ir::Program& elements, const plan::KernelClass& kernel, Prelude& prelude) {
  return SharedValues(elements, kernel, prelude).text();
}

}  // namespace epifuse::codegen
