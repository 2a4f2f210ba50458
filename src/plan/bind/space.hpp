// Shapes meet the chain: every check of a launch's tensors, broadcasting, and the iteration space that is left after
// dropping unit dimensions, ordering them as the output lies in memory, and merging. Used by the planner and by the CPU
// device.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"

namespace epifuse::plan {

/// The most elements that a launch may have.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;

/// The bytes that a view covers, counted from element 0: from `first` (0 or negative) up to `end`; equal for a view
/// without elements.
struct Reach {
  std::int64_t first = 0;
  std::int64_t end = 0;
  bool empty() const noexcept { return first == end; }
};
Reach reach_of(const TensorView& view) noexcept;

/// What an operand is where nothing lies in memory: strides then count in numbers.
enum class Generated : std::uint8_t { no, random, position, inside };

/// Up to `Most` values. Unlike base::InlineVector it is trivially copyable, as what holds it must be.
template <class T, std::size_t Most>
struct ShortList {
  std::array<T, Most> values{};
  std::size_t count = 0;
  const T* begin() const noexcept { return values.data(); }
  const T* end() const noexcept { return values.data() + count; }
  bool empty() const noexcept { return count == 0; }
  void push_back(const T& value) { values.at(count++) = value; }
};

/// The most dimensions of one operand that are read at indices, and with those whose index is computed.
inline constexpr std::size_t kMostIndices = 2;
inline constexpr std::size_t kMostGathers = 3;
/// The most that say where one result is written.
inline constexpr std::size_t kMostPlaces = 5;

/// A dimension in which the elements of another operand say where one is read.
struct GatheredDimension {
  std::size_t index = 0;             ///< which operand
  std::int64_t stride = 0;           ///< elements per step of an index
  std::int64_t extent = 0;           ///< indices from 0 up to here are in range
  std::int64_t wrapped = 0;          ///< what is added to a negative index
  ir::Bounds::Repeat computed = {};  ///< the index, of the position of `index`, which then is a mask
};

/// A rolled dimension.
struct RolledDimension {
  std::size_t behind = 0;   ///< the operand that is true where the dimension has begun again
  std::int64_t offset = 0;  ///< what is added to offsets there
};

/// One operand, as the iteration space sees it.
struct StridedOperand {
  const void* data = nullptr;
  DType dtype = DType::f32;
  bool used = true;  ///< false: named by the chain, but no result depends on it
  Generated generated = Generated::no;
  Reach reach;                                   ///< of its bytes
  std::array<std::int64_t, kMaxRank> strides{};  ///< elements per step of each dimension of the space
  /// It is read only where the operands `by` of its ir::Bounds are true, and is 0 elsewhere; or it is rolled.
  bool bounded = false;
  /// Of what is bounded: the offset at which `data` stands, of the element at the coordinates 0. Of `inside`: the first
  /// position that is inside.
  std::int64_t origin = 0;
  std::int64_t count = 0;  ///< of `inside`: so many positions are inside, from `origin` on
  /// Of what is bounded: of so many coordinates along its bounded dimensions so many have an element.
  std::int64_t places = 1;
  std::int64_t existing = 1;
  bool is_index = false;  ///< it says where others are read, and is no value
  ShortList<GatheredDimension, kMostPlaces>
      gathers;  ///< where the elements of other operands say where it is read, or, a result, written
  ShortList<RolledDimension, kMaxRank> wraps;

  bool is_generated() const noexcept { return generated != Generated::no; }
};

struct Space {
  Dims extents;  ///< outermost first, no ones; empty for a single element
  std::int64_t elements = 0;
  base::InlineVector<StridedOperand, 8> inputs;  ///< those of the chain, then what is generated
  base::InlineVector<StridedOperand, 8> outputs;
  bool f64 = false;  ///< compute type: f64, else f32
  /// Of chains with reductions or shape operations (empty otherwise), by node: the dimensions of the space that the
  /// value varies over (bit d: dimension d), and of reductions how many elements become one. A reduction reduces the
  /// dimensions that its argument varies over and itself does not. Operands have stride 0 in dimensions that their
  /// tensor lacks; an output is written once per element of its own span.
  base::InlineVector<std::uint32_t, 32> spans;
  base::InlineVector<std::int64_t, 32> counts;

  int rank() const noexcept { return extents.size(); }
  /// truth for an operand of type bool.
  std::vector<ir::Kind> input_kinds() const;
};

/// Whether other elements are read at another coordinate of dimension d.
bool varies_along(const StridedOperand& strided, const Space& space, std::size_t d) noexcept;

/// What may be assumed of the views.
enum class Views {
  real,      ///< memory: pointers are checked
  abstract,  ///< shapes only: null pointers stand for well-aligned memory that overlaps nothing
};

/// Throws Error(unsupported) where a result lies over an operand (as the same view: bind() saw to that) whose elements
/// the chain does not read where it writes them, but at other coordinates of the space: `sum(x * v, axis=1)` over `v`.
/// For kernels; the CPU device copies such operands.
void check_in_place(const ir::Program& program, const Space& space, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs);

/// Throws Error(invalid_argument) for anything that does not fit, naming the operand.
Space bind(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
           Views views = Views::real);

/// The operands with all of their elements, those that do not exist too. Where all exist, these are the views that were
/// given.
base::InlineVector<TensorView, 8> with_outside(const ir::Program& program, std::span<const TensorView> inputs);

/// The outputs as the chain's results: of what is written at indices as many elements as the result has, all at the
/// place of the first. Where there is none, these are the views that were given.
base::InlineVector<OutputView, 4> as_written(const ir::Program& program, std::span<const OutputView> outputs);

/// Throws Error(invalid_argument) for operands that no chain takes: too many, or no tensors.
void check_inputs(const ir::Program& program, std::span<const TensorView> inputs, Views views);

/// The shapes of the results for operands of these shapes.
std::vector<Dims> result_shapes(const ir::Program& program, std::span<const TensorView> inputs);

/// Whether one pass can compute all values of a chain without views. `inputs`: those of bind().
bool has_one_space(const ir::Program& program, std::span<const TensorView> inputs);

/// The types of the results by default, for operands of these types and numbers of dimensions.
std::vector<DType> result_types(const ir::Program& program, std::span<const TensorView> inputs);

/// What the chain computes in for operands of these types and shapes and results of these types, as bind() finds it.
/// Also of a chain that no one kernel computes: its reductions then count as ones of any length.
DType compute_type(const ir::Program& program, std::span<const TensorView> inputs, std::span<const DType> results);

/// By value: a result needs its elements; of the others only the shape counts (the second argument of `along`).
base::InlineVector<bool, 64> computed_values(const ir::Program& program);

/// Whether both are the same elements of the same memory, in elements of one size.
bool same_view(const TensorView& a, const TensorView& b);
/// Whether two views share a byte. Exact, but for views so tangled that deciding would take too long: these count as
/// overlapping.
bool overlap(const TensorView& a, const TensorView& b);
/// Whether two different elements of the view share a byte; exact in the same sense.
bool overlaps_itself(const TensorView& view);

}  // namespace epifuse::plan
