// A pass over the iteration space, or over some of its dimensions, in blocks that fit the cache: load the operands of a
// block, run one loop per operation over it. For the files of this component only.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <thread>
#include <vector>

#include "host/kernels.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::host {

/// Elements of a block: long enough that a loop's start-up vanishes, short enough that the values of a chain stay in L1
/// and L2.
inline constexpr int kBlock = 1024;
/// Below this a thread costs more (some 20 µs) than it saves.
inline constexpr std::int64_t kElementsPerThread = 1 << 16;

template <class Real>
inline constexpr DType kTypeOf = sizeof(Real) == sizeof(double) ? DType::f64 : DType::f32;

/// One value of a pass: loaded from memory, filled in, or computed.
struct Step {
  ir::Value value = ir::kNone;
  std::array<ir::Value, ir::kMaxArity> args{};  ///< shape operations skipped: these change no element
  bool is_loaded = false;
};

/// Where a value of a pass lies in memory: strides by dimension, with dimensions merged that lie in one line. The
/// innermost stays as it is where the pass is cut into columns.
struct Path {
  const void* data = nullptr;
  DType dtype = DType::f32;
  plan::Generated generated = plan::Generated::no;  ///< nothing lies there: strides count in numbers
  Dims extents;
  Dims strides;
  std::int64_t origin =
      0;  ///< the offset at which `data` stands; of Generated::inside the first position that is inside
  std::int64_t count = 0;   ///< of Generated::inside: so many are
  std::vector<Path> masks;  ///< it is read where all of these are true, and is 0 elsewhere
  /// Dimensions that are read where the elements of another operand say.
  struct Gather;
  std::vector<Gather> gathers;
  /// Rolled dimensions, of which the elements begin again.
  struct Wrap;
  std::vector<Wrap> wraps;

  Path() = default;
  Path(const plan::StridedOperand& strided, const Dims& dimensions, bool has_columns = false);
  bool is_uniform() const {
    return is_plain() && std::ranges::all_of(strides, [](std::int64_t stride) { return stride == 0; });
  }
  /// Strides say where every element is.
  bool is_plain() const { return masks.empty() && gathers.empty() && wraps.empty(); }
};

struct Path::Gather {
  Path index;
  std::int64_t stride = 0;
  std::int64_t wrapped = 0;          ///< what is added to a negative index
  std::int64_t extent = 0;           ///< indices from 0 up to here name an element
  ir::Bounds::Repeat computed = {};  ///< the index, of the position that `index` has
};

struct Path::Wrap {
  Path behind;              ///< where this is true
  std::int64_t offset = 0;  ///< that is added
};

/// How a value that is loaded lies in a pass over dimensions, with what says where it exists and where it is read.
/// `path_of` makes the path of one of the space's operands.
template <class PathOf>
Path operand_path(const ir::Program& program, const plan::Space& space, std::size_t operand, const PathOf& path_of) {
  const plan::StridedOperand& strided = space.inputs[operand];
  Path path = path_of(strided);
  if (strided.bounded) {
    for (const int mask : program.bounds()[operand].by)
      path.masks.push_back(path_of(space.inputs[static_cast<std::size_t>(mask)]));
  }
  for (const plan::RolledDimension& wrap : strided.wraps)
    path.wraps.push_back({path_of(space.inputs[wrap.behind]), wrap.offset});
  for (const plan::GatheredDimension& gather : strided.gathers)
    path.gathers.push_back(
        {path_of(space.inputs[gather.index]), gather.stride, gather.wrapped, gather.extent, gather.computed});
  return path;
}

/// How a result lies in a pass, with what says where it is written.
template <class PathOf>
Path output_path(const plan::Space& space, std::size_t output, const PathOf& path_of) {
  const plan::StridedOperand& strided = space.outputs[output];
  Path path = path_of(strided);
  for (const plan::GatheredDimension& gather : strided.gathers)
    path.gathers.push_back(
        {path_of(space.inputs[gather.index]), gather.stride, gather.wrapped, gather.extent, gather.computed});
  return path;
}

/// What one pass evaluates.
struct Chain {
  const ir::Program* program = nullptr;
  std::span<const std::int64_t> counts;  ///< by node, of chains with reductions or shape operations
  Dims extents;                          ///< of the pass, outermost first
  std::vector<Step> steps;               ///< arguments first
  std::vector<Path> paths;               ///< by node: where loaded values lie
  std::vector<ir::Value> targets;        ///< values that outlive the block's evaluation
  std::vector<Path> outputs;             ///< where the targets go, if they are stored

  const ir::Node& node(const Step& step) const { return program->node(step.value); }
  const Path& path(ir::Value value) const { return paths[static_cast<std::size_t>(value)]; }
  std::int64_t elements() const;
};

/// An element of a tensor of indices, at that offset from its first.
inline std::int64_t index_at(const std::byte* base, DType dtype, std::int64_t offset) {
  if (dtype == DType::i64) return reinterpret_cast<const std::int64_t*>(base)[offset];
  return reinterpret_cast<const std::int32_t*>(base)[offset];
}

/// Elements of 4 bits, of which a byte holds two: `length` of them from `offset` on, each in a byte of its own.
inline std::array<std::uint8_t, kBlock> halves_of_bytes(const std::byte* base, std::int64_t offset, std::int64_t stride,
                                                        int length) {
  std::array<std::uint8_t, kBlock> halves;
  for (int i = 0; i < length; ++i) {
    const std::int64_t at = offset + i * stride;
    halves[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(base[at / 2] >> (at % 2 * 4)) & 15;
  }
  return halves;
}

/// The way back. No other thread writes the other half of a byte: a tensor of such elements begins each run of a block
/// with a byte.
inline void put_halves(const std::array<std::uint8_t, kBlock>& halves, std::byte* base, std::int64_t offset,
                       std::int64_t stride, int length) {
  for (int i = 0; i < length; ++i) {
    const std::int64_t at = offset + i * stride;
    const int shift = static_cast<int>(at % 2 * 4);
    const auto others = base[at / 2] & static_cast<std::byte>(0xf0 >> shift);
    base[at / 2] = others | static_cast<std::byte>(halves[static_cast<std::size_t>(i)] << shift);
  }
}

/// Which buffer holds each value. Buffers are used again once their value is dead, so that a chain of 500 operations
/// still works in a handful of them; an operation never writes the buffer that it reads.
struct Slots {
  std::vector<int> of;  // by node
  int count = 0;
};
Slots assign_slots(const Chain& chain);

/// Deals [0, items) to threads in equal runs: work(first, last). At most `most` threads; 0: as many as the CPU has.
template <class Work>
void share(std::int64_t items, std::int64_t elements, int most, const Work& work) {
  const std::int64_t limit = most > 0 ? most : std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t count =
      std::clamp<std::int64_t>(elements / kElementsPerThread, 1, std::max<std::int64_t>(1, std::min(limit, items)));
  std::vector<std::jthread> threads;
  for (std::int64_t i = 1; i < count; ++i)
    threads.emplace_back([&work, i, count, items] { work(items * i / count, items * (i + 1) / count); });
  work(0, items / count);
}

/// Evaluates a chain block by block: one thread's share of the work.
template <class Real>
class BlockWorker {
 public:
  BlockWorker(const Chain& chain, const Slots& slots, std::span<const double> scalars)
      : chain_(chain),
        slots_(slots),
        kernels_(kernels<Real>()),
        buffers_(static_cast<std::size_t>(slots.count) * kBlock),
        values_(chain.program->nodes().size()),
        is_stored_(chain.program->nodes().size(), false),
        randoms_(chain.program->nodes().size()) {
    if (!chain.outputs.empty()) {
      for (const ir::Value target : chain.targets) is_stored_[static_cast<std::size_t>(target)] = true;
    }
    for (const Step& step : chain.steps) {
      const ir::Node& node = chain.node(step);
      values_[static_cast<std::size_t>(step.value)] = buffer(step.value);
      if (step.is_loaded) {
        if (chain.path(step.value).generated == plan::Generated::random)
          randoms_[index(step.value)] = random_of(node, scalars);
        if (chain.path(step.value).is_uniform()) load(step.value, 0, kBlock);
      } else if (node.op == ir::Op::constant) {
        fill(step.value, node.constant);
      } else if (node.op == ir::Op::scalar) {
        fill(step.value, scalars[static_cast<std::size_t>(node.ordinal)]);
      } else if (node.op == ir::Op::count) {
        fill(step.value, static_cast<double>(chain_.counts[static_cast<std::size_t>(step.value)]));
      }
    }
  }

  /// From here on the pass sees these columns of the innermost dimension only. The chain's paths must be made for that.
  void set_columns(std::int64_t first, std::int64_t width) {
    column_ = first;
    width_ = width;
  }

  /// Elements first … first + n, counted row by row; n is at most kBlock.
  void evaluate(std::int64_t first, int n) {
    for (const Step& step : chain_.steps) {
      if (step.is_loaded) {
        read(step.value, first, n);
      } else if (ir::is_computed(chain_.node(step).op)) {
        operate(step, n, buffer(step.value));
      }
    }
  }

  const Real* values(ir::Value value) const { return values_[static_cast<std::size_t>(value)]; }

  void store_targets(std::int64_t first, int n) {
    for (std::size_t i = 0; i < chain_.outputs.size(); ++i)
      store(chain_.outputs[i], first, n, values(chain_.targets[i]));
  }

 private:
  static std::size_t index(ir::Value value) { return static_cast<std::size_t>(value); }
  Real* buffer(ir::Value value) {
    return buffers_.data() + static_cast<std::size_t>(slots_.of[static_cast<std::size_t>(value)]) * kBlock;
  }
  void fill(ir::Value value, double number) { std::fill_n(buffer(value), kBlock, static_cast<Real>(number)); }

  // A block that lies in memory as the loops want it is used where it is. Not one that is itself stored: another result
  // may be written over it first, in place.
  void read(ir::Value value, std::int64_t first, int n) {
    const Path& path = chain_.path(value);
    if (path.is_uniform()) return;
    const auto index = static_cast<std::size_t>(value);
    if (path.dtype == kTypeOf<Real> && path.generated == plan::Generated::no && path.is_plain() && !is_stored_[index]) {
      bool whole = false;
      for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
        whole = done == 0 && length == n && stride == 1;
        if (whole) values_[index] = static_cast<const Real*>(path.data) + offset;
        return whole;
      });
      if (whole) return;
      values_[index] = buffer(value);
    }
    load(value, first, n);
  }

  void operate(const Step& step, int n, Real* out) {
    const auto argument = [&](std::size_t k) -> const Real* {
      return step.args[k] == ir::kNone ? nullptr : values(step.args[k]);
    };
    const ir::Node& node = chain_.node(step);
    const Loop<Real> loop =
        node.op == ir::Op::cast ? kernels_.casts[static_cast<std::size_t>(node.dtype)] : kernels_.of(node.op);
    loop(argument(0), argument(1), argument(2), out, n);
  }

  Random random_of(const ir::Node& node, std::span<const double> scalars) const {
    return {ir::random_word(*chain_.program, node.args[1], scalars),
            ir::random_word(*chain_.program, node.args[2], scalars)};
  }

  void load(ir::Value value, std::int64_t first, int n) {
    const Path& path = chain_.path(value);
    Real* const out = buffer(value);
    if (path.generated == plan::Generated::position) {
      for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
        for (int i = 0; i < length; ++i) out[done + i] = static_cast<Real>(offset + i * stride);
        return true;
      });
      return;
    }
    if (path.generated == plan::Generated::inside) {
      each_position(path, first, n, [&](int i, bool is_inside) { out[i] = is_inside ? Real(1) : Real(0); });
      return;
    }
    if (!path.is_plain()) return load_existing(path, first, n, out);
    if (path.generated == plan::Generated::random) {
      const Random random = randoms_[index(value)];
      for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
        kernels_.draw(random, offset, stride, length, out + done);
        return true;
      });
      return;
    }
    const auto* base = static_cast<const std::byte*>(path.data);
    const auto function = kernels_.loads[static_cast<std::size_t>(path.dtype)];
    for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      if (is_packed(path.dtype)) {
        const auto halves = halves_of_bytes(base, offset, stride, length);
        function(halves.data(), 1, length, out + done);
        return true;
      }
      function(base + offset * static_cast<std::int64_t>(size_of(path.dtype)), stride, length, out + done);
      return true;
    });
  }

  // For each element of the block whether it is inside, along the one dimension of a mask.
  template <class Visit>
  void each_position(const Path& mask, std::int64_t first, int n, Visit visit) const {
    for_each_run(mask, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      for (int i = 0; i < length; ++i) {
        const std::int64_t position = offset + i * stride - mask.origin;
        visit(done + i, position >= 0 && position < mask.count);
      }
      return true;
    });
  }

  // Adds to the offsets of elements what indices say. An element whose index names none does not exist; of operands all
  // were found in range before.
  void add_indices(const Path::Gather& gather, std::int64_t first, int n, std::array<bool, kBlock>& exists,
                   std::array<std::int64_t, kBlock>& offsets) const {
    const auto* base = static_cast<const std::byte*>(gather.index.data);
    for_each_run(gather.index, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      for (int i = 0; i < length; ++i) {
        if (!exists[index(done + i)]) continue;
        const std::int64_t position = offset + i * stride;
        if (gather.computed.exists()) {
          offsets[index(done + i)] += gather.computed.at(position) * gather.stride;
          continue;
        }
        const std::int64_t given = index_at(base, gather.index.dtype, position - gather.index.origin);
        const std::int64_t at = given < 0 ? given + gather.wrapped : given;
        exists[index(done + i)] = at >= 0 && at < gather.extent;
        if (exists[index(done + i)]) offsets[index(done + i)] += at * gather.stride;
      }
      return true;
    });
  }

  // Calls visit(offset, stride, i, length) for runs of elements that exist, and lie where equal indices say.
  template <class Visit>
  void each_existing(const Path& path, std::int64_t first, int n, const Visit& visit) const {
    std::array<bool, kBlock> exists;
    std::fill_n(exists.begin(), n, true);
    for (const Path& mask : path.masks)
      each_position(mask, first, n, [&](int i, bool is_inside) { exists[index(i)] = exists[index(i)] && is_inside; });
    std::array<std::int64_t, kBlock> moved;
    std::fill_n(moved.begin(), n, std::int64_t{0});
    for (const Path::Gather& gather : path.gathers) add_indices(gather, first, n, exists, moved);
    for (const Path::Wrap& wrap : path.wraps)
      each_position(wrap.behind, first, n,
                    [&](int i, bool is_behind) { moved[index(i)] += is_behind ? wrap.offset : 0; });
    for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      for (int i = 0; i < length;) {
        int end = i;
        while (end < length && exists[index(done + end)] && moved[index(done + end)] == moved[index(done + i)]) ++end;
        if (end > i) visit(offset + i * stride - path.origin + moved[index(done + i)], stride, done + i, end - i);
        i = std::max(end, i + 1);
      }
      return true;
    });
  }

  // Elements that do not exist are 0.
  void load_existing(const Path& path, std::int64_t first, int n, Real* out) const {
    const auto* base = static_cast<const std::byte*>(path.data);
    const auto function = kernels_.loads[static_cast<std::size_t>(path.dtype)];
    std::fill_n(out, n, Real(0));
    each_existing(path, first, n, [&](std::int64_t offset, std::int64_t stride, int i, int length) {
      function(base + offset * static_cast<std::int64_t>(size_of(path.dtype)), stride, length, out + i);
    });
  }

  // Elements that do not exist are not written.
  void store_existing(const Path& path, std::int64_t first, int n, const Real* values) const {
    auto* base = static_cast<std::byte*>(const_cast<void*>(path.data));
    const auto function = kernels_.stores[static_cast<std::size_t>(path.dtype)];
    each_existing(path, first, n, [&](std::int64_t offset, std::int64_t stride, int i, int length) {
      function(values + i, length, base + offset * static_cast<std::int64_t>(size_of(path.dtype)), stride);
    });
  }

  void store(const Path& path, std::int64_t first, int n, const Real* values) {
    if (!path.is_plain()) return store_existing(path, first, n, values);
    auto* base = static_cast<std::byte*>(const_cast<void*>(path.data));  // an output: writable when it was given
    const auto function = kernels_.stores[static_cast<std::size_t>(path.dtype)];
    for_each_run(path, first, n, [&](std::int64_t offset, std::int64_t stride, int done, int length) {
      if (is_packed(path.dtype)) {
        std::array<std::uint8_t, kBlock> halves;
        function(values + done, length, halves.data(), 1);
        put_halves(halves, base, offset, stride, length);
        return true;
      }
      function(values + done, length, base + offset * static_cast<std::int64_t>(size_of(path.dtype)), stride);
      return true;
    });
  }

  // The block's elements, cut at the ends of rows of the innermost dimension, until visit(…) is false.
  template <class Visit>
  void for_each_run(const Path& path, std::int64_t first, int n, Visit visit) const {
    const int inner = path.extents.size() - 1;
    if (inner < 0) {
      visit(0, 0, 0, n);
      return;
    }
    const std::int64_t stride = path.strides[inner];
    const std::int64_t width = width_ > 0 ? width_ : path.extents[inner];
    std::array<std::int64_t, kMaxRank> at{};
    std::int64_t rest = first / width;
    std::int64_t column = first - rest * width;
    std::int64_t offset = column_ * stride;
    for (int d = inner; d-- > 0;) {
      at[static_cast<std::size_t>(d)] = rest % path.extents[d];
      rest /= path.extents[d];
      offset += at[static_cast<std::size_t>(d)] * path.strides[d];
    }
    for (int done = 0;; column = 0) {
      const int length = static_cast<int>(std::min<std::int64_t>(n - done, width - column));
      if (!visit(offset + column * stride, stride, done, length)) return;
      done += length;
      if (done == n) return;
      for (int d = inner; d-- > 0;) {  // the next row
        std::int64_t& coordinate = at[static_cast<std::size_t>(d)];
        offset += path.strides[d];
        if (++coordinate < path.extents[d]) break;
        offset -= coordinate * path.strides[d];
        coordinate = 0;
      }
    }
  }

  const Chain& chain_;
  const Slots& slots_;
  const Kernels<Real>& kernels_;
  std::vector<Real> buffers_;
  std::vector<const Real*> values_;  // by node: where each value of the block is: its buffer, or the operand itself
  std::vector<bool> is_stored_;
  std::vector<Random> randoms_;  // by node
  std::int64_t column_ = 0;
  std::int64_t width_ = 0;  // of the innermost dimension, as far as the pass sees it; 0: all of it
};

/// Computes the chain and stores its targets, on all cores.
template <class Real>
void write_all(const Chain& chain, std::span<const double> scalars, int most_threads) {
  const std::int64_t elements = chain.elements();
  if (elements == 0) return;
  const Slots slots = assign_slots(chain);
  share((elements + kBlock - 1) / kBlock, elements, most_threads, [&](std::int64_t first, std::int64_t last) {
    BlockWorker<Real> worker(chain, slots, scalars);
    for (std::int64_t block = first; block < last; ++block) {
      const std::int64_t at = block * kBlock;
      const int n = static_cast<int>(std::min<std::int64_t>(kBlock, elements - at));
      worker.evaluate(at, n);
      worker.store_targets(at, n);
    }
  });
}

}  // namespace epifuse::host
