// Runs the passes of passes.cpp. Results of reductions, and other values of few dimensions, are held in arrays that
// later passes load like operands. How a reduction is cut into chunks depends on shapes alone, so that results do not
// depend on the number of threads.
#include "host/reduce.hpp"

#include <algorithm>
#include <bit>
#include <memory>

#include "host/block.hpp"
#include "host/passes.hpp"

namespace epifuse::host {
namespace {

using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using plan::Space;
using plan::StridedOperand;

// Elements that become one are cut into chunks of at least so many elements where there are fewer groups than kChunks.
constexpr std::int64_t kChunkElements = 1 << 16;
constexpr std::int64_t kChunks = 256;

// Dimensions of the space in the order of a pass. Appends those of `mask`, as they lie in memory.
void append(std::vector<int>& order, const Space& space, std::uint32_t mask) {
  for (int d = 0; d < space.rank(); ++d) {
    if ((mask >> d & 1U) != 0) order.push_back(d);
  }
}

StridedOperand reordered(const StridedOperand& strided, const std::vector<int>& order) {
  StridedOperand result = strided;
  result.strides = {};
  for (std::size_t i = 0; i < order.size(); ++i)
    result.strides[i] = strided.strides[static_cast<std::size_t>(order[i])];
  return result;
}

// How the elements of a reducing pass are grouped. It runs over parallel dimensions, then reduced ones; last over the
// innermost dimension in memory if that is parallel, in tiles of its columns. A group is the elements that become one
// for each column of a tile.
struct Grid {
  std::vector<int> order;
  std::int64_t groups = 1;   // parallel elements before the columns
  std::int64_t rows = 1;     // of a group: elements that become one
  std::int64_t columns = 1;  // of the innermost dimension if it is parallel
  std::int64_t width = 1;    // columns of a tile; fewer in the last
  std::int64_t tiles = 1;
  std::int64_t block_rows = kBlock;
  std::int64_t block_groups = 1;  // more where a block holds several: then each has all columns and one chunk
  std::int64_t chunks = 1;
  std::int64_t chunk_rows = 1;

  Grid(const Space& space, const Pass& pass) {
    const int innermost = 31 - std::countl_zero(pass.span | 1U);
    const std::uint32_t last = pass.parallel & (pass.span == 0 ? 0 : 1U << innermost);
    append(order, space, pass.parallel & ~last);
    append(order, space, pass.span & ~pass.parallel);
    append(order, space, last);
    groups = elements_of(space, pass.parallel & ~last);
    rows = elements_of(space, pass.span & ~pass.parallel);
    columns = elements_of(space, last);
    width = std::clamp<std::int64_t>(columns, 1, kBlock);
    tiles = (columns + width - 1) / width;
    block_rows = kBlock / width;
    if (tiles == 1 && rows > 0) block_groups = std::max<std::int64_t>(1, block_rows / rows);
    const std::int64_t most = kChunks / std::max<std::int64_t>(1, groups * tiles);
    chunks = std::max<std::int64_t>(1, std::min(most, rows * width / kChunkElements));
    const std::int64_t chunk_blocks = (rows + chunks * block_rows - 1) / (chunks * block_rows);
    chunk_rows = std::max<std::int64_t>(1, chunk_blocks) * block_rows;
    chunks = std::max<std::int64_t>(1, (rows + chunk_rows - 1) / chunk_rows);
  }
  std::int64_t parallel() const { return groups * columns; }
  std::int64_t rows_of(std::int64_t chunk) const { return std::min(chunk_rows, rows - chunk * chunk_rows); }
};

// What one reduction has seen of a run of parallel elements.
struct State {
  std::vector<double> first, second;
  explicit State(std::size_t size) : first(size), second(size) {}
};

// mean of none and var of one are 0 / 0.
double finished(const Node& node, std::int64_t count, double first, double second) {
  const auto n = static_cast<double>(count);
  if (node.op == Op::mean) return first / n;
  if (node.op == Op::var) return second / std::max(n - node.constant, 0.0);
  return first;
}

template <class Real>
class Run {
 public:
  Run(const Program& program, const Space& space, std::span<const double> scalars, int most_threads)
      : program_(program),
        space_(space),
        scalars_(scalars),
        most_threads_(most_threads),
        roots_(roots_of(program)),
        arrays_(program.nodes().size()),
        passes_(program.nodes().size()),
        is_held_(program.nodes().size(), false) {
    for (std::size_t i = 0; i < program.nodes().size(); ++i) {
      const Node& node = program.nodes()[i];
      if (ir::is_operand(node.op)) passes_[i] = space.inputs[static_cast<std::size_t>(node.ordinal)];
    }
  }

  void run() {
    const std::vector<Pass> passes = passes_of(program_, space_, roots_);
    const std::vector<std::size_t> last_uses = last_uses_of(passes);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const Pass& pass = passes[i];
      if (pass.purpose == Purpose::write) write(pass);
      if (pass.purpose == Purpose::hold) hold(pass);
      if (pass.purpose == Purpose::reduce) reduce(pass);
      for (std::size_t value = 0; value < arrays_.size(); ++value) {
        if (arrays_[value] && last_uses[value] <= i) arrays_[value].reset();
      }
    }
  }

 private:
  Value root(Value value) const { return roots_[index(value)]; }

  // The values that a pass is for.
  std::vector<Value> targets_of(const Pass& pass) const {
    std::vector<Value> targets;
    for (const int member : pass.members) {
      targets.push_back(pass.purpose == Purpose::write    ? program_.results()[static_cast<std::size_t>(member)].value
                        : pass.purpose == Purpose::reduce ? program_.node(member).args[0]
                                                          : member);
    }
    return targets;
  }

  // By node: the last of the passes that loads what is held of it, whose memory is free then.
  std::vector<std::size_t> last_uses_of(const std::vector<Pass>& passes) const {
    std::vector<std::size_t> last(arrays_.size(), 0);
    std::vector<bool> is_held(arrays_.size(), false);
    for (std::size_t i = 0; i < passes.size(); ++i) {
      const std::vector<bool> needed = needed_for(program_, roots_, targets_of(passes[i]), is_held);
      for (std::size_t value = 0; value < needed.size(); ++value) {
        if (needed[value] && is_held[value]) last[value] = i;
      }
      if (passes[i].purpose == Purpose::write) continue;
      for (const int member : passes[i].members) is_held[index(member)] = true;
    }
    return last;
  }

  // The pass over the dimensions `order` that evaluates these values.
  Chain chain_of(const std::vector<int>& order, const std::vector<Value>& targets, bool has_columns = false) const {
    Chain chain;
    chain.program = &program_;
    chain.counts = space_.counts;
    for (const int d : order) chain.extents.push_back(space_.extents[d]);
    for (const Value target : targets) chain.targets.push_back(root(target));
    chain.paths.resize(passes_.size());
    const std::vector<bool> needed = needed_for(program_, roots_, targets, is_held_);
    for (std::size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      const Node& node = program_.nodes()[i];
      Step step{static_cast<Value>(i), {ir::kNone, ir::kNone, ir::kNone}, is_held_[i] || ir::is_operand(node.op)};
      for (std::size_t k = 0; !step.is_loaded && k < static_cast<std::size_t>(node.computed_arity()); ++k)
        step.args[k] = root(node.args[k]);
      const auto path_of = [&](const StridedOperand& strided) {
        return Path(reordered(strided, order), chain.extents, has_columns);
      };
      if (step.is_loaded)
        chain.paths[i] = is_held_[i] ? path_of(passes_[i])
                                     : operand_path(program_, space_, static_cast<std::size_t>(node.ordinal), path_of);
      chain.steps.push_back(step);
    }
    return chain;
  }

  std::vector<int> memory_order(std::uint32_t span) const {
    std::vector<int> order;
    append(order, space_, span);
    return order;
  }

  void write(const Pass& pass) {
    const std::vector<int> order = memory_order(pass.span);
    Chain chain = chain_of(order, targets_of(pass));
    for (const int member : pass.members) {
      chain.outputs.push_back(output_path(space_, static_cast<std::size_t>(member), [&](const StridedOperand& strided) {
        return Path(reordered(strided, order), chain.extents);
      }));
    }
    write_all<Real>(chain, scalars_, most_threads_);
  }

  void hold(const Pass& pass) {
    const std::vector<int> order = memory_order(pass.span);
    Chain chain = chain_of(order, pass.members);
    std::vector<StridedOperand> held;
    for (const int value : pass.members) {
      held.push_back(array_of(value));
      chain.outputs.emplace_back(reordered(held.back(), order), chain.extents);
    }
    write_all<Real>(chain, scalars_, most_threads_);
    for (std::size_t i = 0; i < held.size(); ++i) keep(pass.members[i], held[i]);
  }

  // Dense, in the order of the space's dimensions.
  StridedOperand array_of(Value value) {
    const std::uint32_t span = space_.spans[index(value)];
    const std::int64_t elements = elements_of(space_, span);
    arrays_[index(value)] = std::make_unique_for_overwrite<Real[]>(static_cast<std::size_t>(elements));
    StridedOperand strided;
    strided.data = arrays_[index(value)].get();
    strided.dtype = kTypeOf<Real>;
    std::int64_t stride = 1;
    for (int d = space_.rank(); d-- > 0;) {
      if ((span >> d & 1U) == 0) continue;
      strided.strides[static_cast<std::size_t>(d)] = stride;
      stride *= space_.extents[d];
    }
    return strided;
  }

  void keep(Value value, const StridedOperand& strided) {
    passes_[index(value)] = strided;
    is_held_[index(value)] = true;
  }

  // ---- reductions

  // partials[reduction][chunk]: the states of all parallel elements; empty if there is one chunk.
  using Partials = std::vector<std::vector<State>>;

  void reduce(const Pass& pass) {
    const Grid grid(space_, pass);
    std::vector<Value> arguments;
    std::vector<StridedOperand> held;
    for (const int value : pass.members) {
      arguments.push_back(program_.node(value).args[0]);
      held.push_back(array_of(value));
    }
    if (grid.rows > 0 && grid.parallel() > 0) {
      const Chain chain = chain_of(grid.order, arguments, grid.tiles > 1);
      const Slots slots = assign_slots(chain);
      const std::int64_t states = grid.chunks > 1 ? grid.chunks : 0;
      Partials partials(pass.members.size(), std::vector<State>(static_cast<std::size_t>(states),
                                                                State(static_cast<std::size_t>(grid.parallel()))));
      share(grid.groups * grid.tiles * grid.chunks, chain.elements(), most_threads_,
            [&](std::int64_t first, std::int64_t last) {
              BlockWorker<Real> worker(chain, slots, scalars_);
              reduce_items(pass, grid, chain, worker, first, last, partials);
            });
      if (grid.chunks > 1) merge(pass, grid, partials);
    } else {
      for (const int value : pass.members) finish_none(value, grid.parallel());
    }
    for (std::size_t i = 0; i < held.size(); ++i) keep(pass.members[i], held[i]);
  }

  // An item is a chunk of a tile of a group.
  void reduce_items(const Pass& pass, const Grid& grid, const Chain& chain, BlockWorker<Real>& worker,
                    std::int64_t first, std::int64_t last, Partials& partials) {
    std::vector<State> states(pass.members.size(), State(kBlock));
    for (std::int64_t item = first; item < last;) {
      const std::int64_t chunk = item % grid.chunks;
      const std::int64_t tile = item / grid.chunks % grid.tiles;
      const std::int64_t group = item / grid.chunks / grid.tiles;
      const std::int64_t groups = std::min(grid.block_groups, last - item);
      const std::int64_t width = std::min(grid.width, grid.columns - tile * grid.width);
      if (grid.tiles > 1) worker.set_columns(tile * grid.width, width);
      take_chunk(pass, grid, chain, worker, states, {group, groups, width, chunk});
      const std::int64_t at = group * grid.columns + tile * grid.width;
      for (std::size_t i = 0; i < states.size(); ++i) {
        if (grid.chunks > 1) {
          State& partial = partials[i][static_cast<std::size_t>(chunk)];
          std::copy_n(states[i].first.data(), width, partial.first.data() + at);
          std::copy_n(states[i].second.data(), width, partial.second.data() + at);
        } else {
          finish(pass.members[i], states[i], at, groups * width);
        }
      }
      item += groups;
    }
  }

  struct Item {
    std::int64_t group, groups, width, chunk;
  };

  // Several groups stand in one block; of one group, block after block.
  void take_chunk(const Pass& pass, const Grid& grid, const Chain& chain, BlockWorker<Real>& worker,
                  std::vector<State>& states, const Item& item) {
    for (std::size_t i = 0; i < states.size(); ++i) clear(pass.members[i], states[i], item.groups * item.width);
    const std::int64_t first_row = item.chunk * grid.chunk_rows;
    const std::int64_t chunk_rows = grid.rows_of(item.chunk);
    const std::int64_t block_rows = kBlock / item.width;
    for (std::int64_t row = 0; row < chunk_rows; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, chunk_rows - row);
      const std::int64_t elements = rows * item.width;
      worker.evaluate((item.group * grid.rows + first_row + row) * item.width,
                      static_cast<int>(item.groups * elements));
      for (std::size_t i = 0; i < states.size(); ++i) {
        const Take<Real> take = kernels<Real>().reduction(program_.node(pass.members[i]).op).take;
        const Real* values = worker.values(chain.targets[i]);
        for (std::int64_t k = 0; k < item.groups; ++k) {
          take(values + k * elements, static_cast<int>(rows), static_cast<int>(item.width), row,
               states[i].first.data() + k * item.width, states[i].second.data() + k * item.width);
        }
      }
    }
  }

  void clear(Value value, State& state, std::int64_t n) const {
    const double none = kernels<Real>().reduction(program_.node(value).op).none;
    std::fill_n(state.first.data(), n, none);
    std::fill_n(state.second.data(), n, none);
  }

  void finish(Value value, const State& state, std::int64_t at, std::int64_t n) {
    const Node& node = program_.node(value);
    const std::int64_t count = space_.counts[index(value)];
    Real* out = arrays_[index(value)].get() + at;
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i)
      out[i] = static_cast<Real>(finished(node, count, state.first[i], state.second[i]));
  }

  void finish_none(Value value, std::int64_t parallel) {
    State state(kBlock);
    clear(value, state, kBlock);
    for (std::int64_t at = 0; at < parallel; at += kBlock)
      finish(value, state, at, std::min<std::int64_t>(kBlock, parallel - at));
  }

  // Part after chunk, in their order.
  void merge(const Pass& pass, const Grid& grid, const Partials& partials) {
    State state(kBlock);
    for (std::size_t i = 0; i < pass.members.size(); ++i) {
      const Op op = program_.node(pass.members[i]).op;
      const Take<double> take = kernels<double>().reduction(op).take;
      for (std::int64_t at = 0; at < grid.parallel(); at += kBlock) {
        const auto n = static_cast<int>(std::min<std::int64_t>(kBlock, grid.parallel() - at));
        clear(pass.members[i], state, n);
        for (std::int64_t chunk = 0; chunk < grid.chunks; ++chunk) {
          const State& partial = partials[i][static_cast<std::size_t>(chunk)];
          if (op == Op::var) {
            merge_var(state, chunk * grid.chunk_rows, partial, grid.rows_of(chunk), at, n);
          } else {
            take(partial.first.data() + at, 1, n, chunk, state.first.data(), state.second.data());
          }
        }
        finish(pass.members[i], state, at, n);
      }
    }
  }

  // Chan's formula, where `before` elements meet `more`.
  static void merge_var(State& state, std::int64_t before, const State& chunk, std::int64_t more, std::int64_t at,
                        int n) {
    const auto size = static_cast<double>(before);
    const auto added = static_cast<double>(more);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n); ++i) {
      const auto from = static_cast<std::size_t>(at) + i;
      if (before == 0) {
        state.first[i] = chunk.first[from];
        state.second[i] = chunk.second[from];
        continue;
      }
      const double delta = chunk.first[from] - state.first[i];
      state.second[i] += chunk.second[from] + delta * delta * (size * added / (size + added));
      state.first[i] += delta * (added / (size + added));
    }
  }

  const Program& program_;
  const Space& space_;
  std::span<const double> scalars_;
  int most_threads_;
  std::vector<Value> roots_;
  std::vector<std::unique_ptr<Real[]>> arrays_;  // by node: what is held
  std::vector<StridedOperand> passes_;           // by node: operands and what is held, over the space's dimensions
  std::vector<bool> is_held_;
};

}  // namespace

template <class Real>
void execute_passes(const Program& program, const Space& space, std::span<const double> scalars, int most_threads) {
  Run<Real>(program, space, scalars, most_threads).run();
}

template void execute_passes<float>(const Program&, const Space&, std::span<const double>, int);
template void execute_passes<double>(const Program&, const Space&, std::span<const double>, int);

}  // namespace epifuse::host
