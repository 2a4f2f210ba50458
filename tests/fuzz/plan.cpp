// Chains meet tensors of any shape, stride, type and address (drawn_launch.cpp): each gets a plan that keeps its
// promises, or an Error.
#include "plan/plan.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include <epifuse/error.hpp>

#include "codegen/emit.hpp"
#include "fuzz/drawn_launch.hpp"
#include "fuzz/targets.hpp"

namespace epifuse::fuzz {
namespace {

constexpr std::int64_t kMostVisited = 256;  // elements whose addresses are looked at one by one

// Calls visit(address) for every byte of a view; false if it has too many elements for that.
template <class Visit>
bool visit_bytes(const TensorView& view, const Visit& visit) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : view.shape) {
    elements *= std::min(extent, kMostVisited + 1);
    if (elements > kMostVisited) return false;
  }
  for (std::int64_t i = 0; i < elements; ++i) {
    std::int64_t rest = i;
    std::uint64_t offset = 0;
    for (int d = view.shape.size(); d-- > 0; rest /= view.shape[d])
      offset += static_cast<std::uint64_t>(rest % view.shape[d]) * static_cast<std::uint64_t>(view.strides[d]);
    for (std::size_t k = 0; k < size_of(view.dtype); ++k)
      visit(reinterpret_cast<std::uintptr_t>(view.data) + offset * size_of(view.dtype) + k);
  }
  return true;
}

// No byte is written twice, and none that is written is read through another view.
void require_no_overlap(std::span<const OutputView> outputs, std::span<const TensorView> inputs) {
  std::unordered_map<std::uintptr_t, const OutputView*> written;
  for (const OutputView& output : outputs) {
    visit_bytes(output, [&](std::uintptr_t at) {
      require(written.emplace(at, &output).second, "no byte of any result is written twice");
    });
  }
  for (const TensorView& input : inputs) {
    visit_bytes(input, [&](std::uintptr_t at) {
      const auto writer = written.find(at);
      require(writer == written.end() || (writer->second->data == input.data && writer->second->shape == input.shape),
              "an operand shares memory with a result only as the same view");
    });
  }
}

void check(const ir::Program& program, const plan::Plan& made, bool emit_too) {
  require(made.blocks == 0 || (made.threads > 0 && made.threads <= 1024), "a block has 1 to 1024 threads");
  require(made.threads <= made.kernel_class.threads || made.blocks == 0, "and no more than the kernel is compiled for");
  require(made.blocks <= 0x7fffffffu, "a grid has at most 2^31 - 1 blocks");
  require(made.workspace.zeroed_bytes <= made.workspace.bytes, "the zeroed part lies in the workspace");
  require(!plan::to_text(made.kernel_class).empty(), "a class has a name");
  if (made.blocks == 0) return;  // nothing is launched
  const std::vector<double> scalars(program.scalars().size(), 1);
  const auto* workspace = reinterpret_cast<const void*>(std::uintptr_t{1} << 40);  // an address, no memory
  require(!codegen::pack(program, made, scalars, workspace).empty(), "a plan's parameters can be packed");
  if (!emit_too) return;
  const std::string source = codegen::emit(program, made.kernel_class, made.space.input_kinds());
  require(source.find("\\\n") == source.npos, "no line of the source is continued");
}

}  // namespace

void plan(Bytes bytes) {
  try {
    const DrawnLaunch launch = draw_launch(bytes);
    const ir::Program program = ir::parse(launch.chain, {});
    const plan::Plan made = plan::make_plan(program, launch.outputs, launch.inputs, launch.views, launch.machine);
    if (launch.views == plan::Views::real) require_no_overlap(launch.outputs, launch.inputs);
    check(program, made, launch.emit_too);
  } catch (const Error& error) {
    require(error.is_bad_input(), "what does not fit is refused as the user's mistake");
  }
}

}  // namespace epifuse::fuzz
