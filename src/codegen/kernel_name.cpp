// What a kernel is called, for whoever reads a profile: schedule, what it computes first, types, and a hash of chain
// and class.
#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include <spdlog/fmt/ranges.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/emit.hpp"

namespace epifuse::codegen {
namespace {

using ir::Node;
using ir::Op;

// The same in every build.
std::uint32_t hash_of(std::string_view text, const ir::Fingerprint& chain) {
  return static_cast<std::uint32_t>(XXH3_64bits_withSeed(text.data(), text.size(), chain.low ^ chain.high) >> 40);
}

// What computes something: neither operands and numbers nor what only gives a value another shape.
bool is_operation(Op op) { return op > Op::count && !ir::is_movement(op); }

// The norms that differ in what they reduce over: channels of all samples, groups that were split off, the last
// dimensions, or the rest.
std::string_view norm_of(const ir::Program& program, const Node& mean) {
  const ir::Axes& axes = mean.shaping.axes;
  const auto splits = [](const Node& node) { return node.op == Op::unflatten; };
  if (std::ranges::any_of(program.nodes(), splits)) return "group_norm";
  if (axes.count > 0 && axes.at[0] == 0) return "batch_norm";
  return axes.count == 0 || axes.at[0] < 0 ? "layer_norm" : "instance_norm";
}

// Operations that together have a name. How the user wrote them does not count: a chain has one kernel, and that has
// one name.
struct Composite {
  std::string_view name;
  std::array<Op, 6> operations;
  std::size_t count;
};
constexpr auto kComposites = std::to_array<Composite>({
    {"layer_norm", {Op::mean, Op::sub, Op::var, Op::add, Op::rsqrt, Op::mul}, 6},
    {"log_softmax", {Op::amax, Op::sub, Op::exp, Op::sum, Op::log, Op::sub}, 6},
    {"softmax", {Op::amax, Op::sub, Op::exp, Op::sum, Op::div}, 5},
    {"rms_norm", {Op::square, Op::mean, Op::add, Op::rsqrt, Op::mul}, 5},
    {"normalize", {Op::square, Op::sum, Op::sqrt, Op::maximum, Op::div}, 5},
});

// Names in the order of the chain, each once.
std::vector<std::string_view> operations_of(const ir::Program& program) {
  std::vector<const Node*> nodes;
  for (const Node& node : program.nodes()) {
    if (is_operation(node.op)) nodes.push_back(&node);
  }
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < nodes.size();) {
    const auto begins_here = [&](const Composite& composite) {
      const auto here = std::span(nodes).subspan(i, std::min(composite.count, nodes.size() - i));
      return std::ranges::equal(here, std::span(composite.operations).first(composite.count), {}, &Node::op);
    };
    const auto* const found = std::ranges::find_if(kComposites, begins_here);
    const bool is_one = found != kComposites.end();
    const std::string_view name = !is_one                       ? ir::name_of(nodes[i]->op)
                                  : found->name == "layer_norm" ? norm_of(program, *nodes[i])
                                                                : found->name;
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    i += is_one ? found->count : 1;
  }
  return names;
}

}  // namespace

std::string kernel_name(const ir::Program& program, const plan::KernelClass& kernel_class) {
  constexpr std::size_t kOperations = 3;
  std::vector<std::string_view> operations = operations_of(program);
  operations.resize(std::min(operations.size(), kOperations));
  std::string name = fmt::format("epifuse_{}", kernel_class.schedule());
  if (!operations.empty()) name += fmt::format("_{}", fmt::join(operations, "_"));
  if (!kernel_class.inputs.empty()) name += fmt::format("_{}", to_string(kernel_class.inputs[0].dtype));
  if (!kernel_class.outputs.empty()) name += fmt::format("_{}", to_string(kernel_class.outputs[0].dtype));
  return name + fmt::format("_{:06x}", hash_of(plan::to_text(kernel_class), program.code_fingerprint()));
}

}  // namespace epifuse::codegen
