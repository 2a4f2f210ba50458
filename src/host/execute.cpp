// Walks the iteration space in blocks that fit the cache: load the operands of a block, run one loop per operation over it, store
// the results. Blocks are dealt to threads in equal runs.
#include "host/execute.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "host/kernels.hpp"

namespace epifuse::host {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using plan::Space;
using plan::Walk;

// Elements of a block: long enough that a loop's start-up vanishes, short enough that the values of a chain stay in L1 and L2.
constexpr int kBlock = 1024;
// Below this a thread costs more (some 20 µs) than it saves.
constexpr std::int64_t kElementsPerThread = 1 << 16;

bool is_uniform(const Walk& walk) {
  return std::ranges::all_of(walk.strides, [](std::int64_t stride) { return stride == 0; });
}

// The same in every block: filled before the first.
bool is_filled_once(const Node& node, const Space& space) {
  if (node.op == Op::input) return is_uniform(space.inputs[static_cast<std::size_t>(node.ordinal)]);
  return node.op == Op::constant || node.op == Op::scalar;
}

// Which buffer holds each value. Buffers are used again once their value is dead, so that a chain of 500 operations still
// works in a handful of them; an operation never writes the buffer that it reads.
struct Slots {
  std::vector<int> of;  // by value
  int count = 0;
};

Slots assign_slots(const Program& program, const Space& space) {
  const auto& nodes = program.nodes();
  std::vector<std::size_t> last_use(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (int k = 0; k < nodes[i].arity(); ++k)
      last_use[static_cast<std::size_t>(nodes[i].args[static_cast<std::size_t>(k)])] = i;
  }
  constexpr auto kForever = static_cast<std::size_t>(-1);
  for (const ir::Result& result : program.results()) last_use[static_cast<std::size_t>(result.value)] = kForever;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_filled_once(nodes[i], space)) last_use[i] = kForever;
  }

  Slots slots{std::vector<int>(nodes.size(), -1), 0};
  std::vector<int> free;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    // What is filled before all blocks needs a buffer that no earlier value uses either.
    if (free.empty() || is_filled_once(nodes[i], space)) free.push_back(slots.count++);
    slots.of[i] = free.back();
    free.pop_back();
    for (int k = 0; k < nodes[i].arity(); ++k) {
      const auto arg = static_cast<std::size_t>(nodes[i].args[static_cast<std::size_t>(k)]);
      const bool dies = last_use[arg] == i && std::ranges::find(free, slots.of[arg]) == free.end();
      if (dies) free.push_back(slots.of[arg]);
    }
  }
  return slots;
}

// One thread's share of the work.
template <class Real>
class Worker {
 public:
  Worker(const Program& program, const Space& space, std::span<const double> scalars, const Slots& slots)
      : program_(program),
        space_(space),
        slots_(slots),
        kernels_(kernels<Real>()),
        buffers_(static_cast<std::size_t>(slots.count) * kBlock),
        values_(program.nodes().size()),
        is_result_(program.nodes().size(), false) {
    for (const ir::Result& result : program.results()) is_result_[static_cast<std::size_t>(result.value)] = true;
    for (std::size_t i = 0; i < program.nodes().size(); ++i) {
      const Node& node = program.nodes()[i];
      values_[i] = buffer(i);
      if (node.op == Op::constant) fill(i, node.constant);
      if (node.op == Op::scalar) fill(i, scalars[static_cast<std::size_t>(node.ordinal)]);
      if (node.op == Op::input && is_uniform(walk_of(node))) load(walk_of(node), 0, kBlock, buffer(i));
    }
  }

  void run(std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; at += kBlock)
      block(at, static_cast<int>(std::min<std::int64_t>(kBlock, last - at)));
  }

 private:
  Real* buffer(std::size_t value) { return buffers_.data() + static_cast<std::size_t>(slots_.of[value]) * kBlock; }
  void fill(std::size_t value, double number) { std::fill_n(buffer(value), kBlock, static_cast<Real>(number)); }
  const Walk& walk_of(const Node& input) const { return space_.inputs[static_cast<std::size_t>(input.ordinal)]; }

  void block(std::int64_t first, int n) {
    const auto& nodes = program_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].op == Op::input) {
        read(i, walk_of(nodes[i]), first, n);
      } else if (nodes[i].op >= Op::cast) {
        operate(nodes[i], n, buffer(i));
      }
    }
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      store(space_.outputs[i], first, n, values_[static_cast<std::size_t>(program_.results()[i].value)]);
    }
  }

  // A block that lies in memory as the loops want it is used where it is. Not one that is itself a result: another result may be
  // written over it first, in place.
  void read(std::size_t value, const Walk& walk, std::int64_t first, int n) {
    if (is_uniform(walk)) return;
    constexpr DType kReal = sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32;
    if (walk.dtype == kReal && !is_result_[value]) {
      bool whole = false;
      for_each_run(walk, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
        whole = done == 0 && length == n && stride == 1;
        if (whole) values_[value] = static_cast<const Real*>(walk.data) + offset;
      });
      if (whole) return;
      values_[value] = buffer(value);
    }
    load(walk, first, n, buffer(value));
  }

  void operate(const Node& node, int n, Real* out) {
    const auto argument = [&](std::size_t k) -> const Real* {
      return node.args[k] == ir::kNone ? nullptr : values_[static_cast<std::size_t>(node.args[k])];
    };
    const Loop<Real> loop =
        node.op == Op::cast ? kernels_.casts[static_cast<std::size_t>(node.dtype)] : kernels_.of(node.op);
    loop(argument(0), argument(1), argument(2), out, n);
  }

  void load(const Walk& walk, std::int64_t first, int n, Real* out) {
    const auto* base = static_cast<const std::byte*>(walk.data);
    const auto function = kernels_.loads[static_cast<std::size_t>(walk.dtype)];
    for_each_run(walk, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      function(base + offset * static_cast<std::int64_t>(size_of(walk.dtype)), stride, length, out + done);
    });
  }

  void store(const Walk& walk, std::int64_t first, int n, const Real* values) {
    auto* base = static_cast<std::byte*>(const_cast<void*>(walk.data));  // an output: writable when it was given
    const auto function = kernels_.stores[static_cast<std::size_t>(walk.dtype)];
    for_each_run(walk, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      function(values + done, length, base + offset * static_cast<std::int64_t>(size_of(walk.dtype)), stride);
    });
  }

  // The block's elements, cut at the ends of rows of the innermost dimension.
  template <class Visit>
  void for_each_run(const Walk& walk, std::int64_t first, int n, Visit visit) const {
    const int rank = space_.rank();
    if (rank == 0) return visit(0, 0, 0, n);
    const std::int64_t inner = space_.extents[rank - 1];
    const std::int64_t stride = walk.strides[static_cast<std::size_t>(rank - 1)];
    for (int done = 0; done < n;) {
      const std::int64_t at = first + done;
      const std::int64_t column = at % inner;
      const int length = static_cast<int>(std::min<std::int64_t>(n - done, inner - column));
      visit(row_offset(walk, at / inner) + column * stride, stride, done, length);
      done += length;
    }
  }

  std::int64_t row_offset(const Walk& walk, std::int64_t row) const {
    std::int64_t offset = 0;
    for (int d = space_.rank() - 1; d-- > 0;) {
      offset += row % space_.extents[d] * walk.strides[static_cast<std::size_t>(d)];
      row /= space_.extents[d];
    }
    return offset;
  }

  const Program& program_;
  const Space& space_;
  const Slots& slots_;
  const Kernels<Real>& kernels_;
  std::vector<Real> buffers_;
  std::vector<const Real*> values_;  // where each value of the block is: its buffer, or the operand itself
  std::vector<bool> is_result_;
};

template <class Real>
void execute_as(const Program& program, const Space& space, std::span<const double> scalars) {
  const Slots slots = assign_slots(program, space);
  const auto work = [&](std::int64_t first, std::int64_t last) {
    Worker<Real>(program, space, scalars, slots).run(first, last);
  };
  const std::int64_t most = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t count = std::clamp<std::int64_t>(space.elements / kElementsPerThread, 1, most);
  const std::int64_t blocks = (space.elements + kBlock - 1) / kBlock;
  const auto bound = [&](std::int64_t i) { return std::min(space.elements, blocks * i / count * kBlock); };
  std::vector<std::jthread> threads;
  for (std::int64_t i = 1; i < count; ++i) threads.emplace_back([&, i] { work(bound(i), bound(i + 1)); });
  work(0, bound(1));
}

}  // namespace

void execute(const Program& program, const Space& space, std::span<const double> scalars) {
  if (space.elements == 0) return;
  space.f64 ? execute_as<double>(program, space, scalars) : execute_as<float>(program, space, scalars);
}

}  // namespace epifuse::host
