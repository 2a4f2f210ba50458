// Views are pushed down to the operands: a chain with views and its tensors become a chain without, over more tensors.
// Each of these is one of the user's, read from another element on, with other extents and strides; all that plans,
// emits and runs chains sees nothing but strided operands. docs/internals/plan/views.md explains it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {

/// A view of a value whose shape is known, dimension by dimension.
struct DimensionMap {
  /// Which elements of a dimension of the value: start, start + step, …
  struct Taken {
    std::int64_t start = 0;
    std::int64_t step = 1;
    std::int64_t count = 1;
    /// Elements from `low` up to `high` exist; of the others the view has what stands outside. Open where all that are
    /// taken exist.
    std::int64_t low = kOpenLow;
    std::int64_t high = kOpenHigh;
    /// Of a dimension that is rolled: so many elements, after the last of which the first comes. Each number above
    /// counts on behind the last. 0 of others.
    std::int64_t period = 0;
    static constexpr std::int64_t kOpenLow = std::numeric_limits<std::int64_t>::min();
    static constexpr std::int64_t kOpenHigh = std::numeric_limits<std::int64_t>::max();
    bool is_bounded() const noexcept { return low != kOpenLow || high != kOpenHigh; }
    /// The same, of which only the elements from `from` up to `end` exist.
    Taken within(std::int64_t from, std::int64_t end) const noexcept;
    /// The same, counted so that the first element that exists is no multiple of the period away; and plain where no
    /// element behind the last is taken.
    Taken unrolled() const noexcept;
    friend bool operator==(const Taken&, const Taken&) = default;
  };
  /// A dimension of the view.
  struct Given {
    int from = kRepeated;     ///< the dimension of the value; or all of its elements are the same
    std::int64_t extent = 1;  ///< the count taken there, or how often they are repeated
    bool broadcast = false;   ///< repeated since another value has that extent: one element will do
    static constexpr int kRepeated = -1;
    friend bool operator==(const Given&, const Given&) = default;
  };
  std::vector<Taken> taken;  ///< by dimension of the value; one that no dimension of the view is from has a count of 1
  std::vector<Given> given;

  static DimensionMap whole(const Dims& shape);
  friend bool operator==(const DimensionMap&, const DimensionMap&) = default;
};

/// A dimension of a value is read where an index says: the index's dimensions take its place.
struct Indexed {
  int dimension = 0;           ///< of the value
  int count = 1;               ///< how many dimensions take its place
  Dims shape;                  ///< of the result
  ir::Value operation = -1;    ///< which reads so: its second argument is the index
  std::string text = {};       ///< of the index, as people write it
  bool is_like_index = false;  ///< all dimensions are the index's: what gather does
  friend bool operator==(const Indexed& a, const Indexed& b) { return a.operation == b.operation; }
};

/// Elements of one dimension are read at places that follow from positions, several times each: 'repeat_as' with more
/// than one time.
struct Repeated {
  int dimension = 0;
  ir::Bounds::Repeat repeat;
  Dims shape;  ///< of the result
  friend bool operator==(const Repeated&, const Repeated&) = default;
};

/// Windows along a dimension take its place, `step` elements apart. Their elements are the result's last dimension. The
/// first window begins `padding` elements before the value; elements outside do not exist.
struct Unfolded {
  int dimension = 0;
  std::int64_t step = 1;
  Dims shape;  ///< of the result
  std::int64_t padding = 0;
  friend bool operator==(const Unfolded&, const Unfolded&) = default;
};

/// One thing to do with a value's elements: by dimension, the shape that they have in row-major order, at indices,
/// repeated, or in windows.
using ViewStep = std::variant<DimensionMap, Dims, Indexed, Repeated, Unfolded>;

/// What the view of a node of `program` means for an argument of that shape. Throws Error(invalid_argument) naming the
/// view, or the function that it is a part of, as written.
ViewStep resolve(const ir::Program& program, const ir::Node& node, const Dims& shape);
/// The shape of the result.
Dims shape_of(const ViewStep& step);

/// A chain without views that computes the same from the same memory, and the operands that it takes.
struct Lowered {
  struct Operand {
    std::size_t input = 0;    ///< of the chain with views
    std::int64_t offset = 0;  ///< of its first element, in bytes from the input's
    Dims shape;
    Dims strides;
    std::string text;  ///< as people write it: "x[..., :128]"
    /// A dimension of which only `count` elements, from `first` on, lie in memory: the offset is that of the first of
    /// all that do. Of windows there are two dimensions: element (i, k) of them stands at
    /// position `step * i + inner_step * k`, and `first` and `count` are of positions.
    struct Within {
      int dimension = 0;
      std::int64_t first = 0;
      std::int64_t count = 0;
      std::int64_t step = 1;
      int inner = kNoDimension;  ///< of windows the other dimension, behind the first
      std::int64_t inner_step = 0;
      static constexpr int kNoDimension = -1;
      bool is_of_windows() const noexcept { return inner != kNoDimension; }
      friend bool operator==(const Within&, const Within&) = default;
    };
    std::vector<Within> within = {};
    bool is_mask = false;  ///< nothing lies in memory: true where `within` has elements
    /// A dimension that is rolled. All of its elements lie in memory, and the offset is that of the first of them in
    /// the order of reading.
    struct Wrap {
      int dimension = 0;
      std::int64_t extent = 0;  ///< elements of the dimension
      std::int64_t before = 0;  ///< of them, that stand before the one that is read first
      std::int64_t from = 0;    ///< the coordinate at which the elements begin again
      friend bool operator==(const Wrap&, const Wrap&) = default;
    };
    std::vector<Wrap> wraps = {};
    /// A dimension that is read where an index says, or a position.
    struct Gather {
      std::string index;  ///< name of an operand
      std::int64_t stride = 0;
      std::int64_t extent = 0;
      bool wraps = false;                ///< negative indices count from the end
      std::string_view written = {};     ///< what the user called: static text
      ir::Bounds::Repeat computed = {};  ///< the index, of the position of the mask that `index` then is
      friend bool operator==(const Gather& a, const Gather& b) {
        return a.index == b.index && a.stride == b.stride && a.extent == b.extent && a.wraps == b.wraps &&
               a.computed == b.computed;
      }
    };
    std::vector<Gather> gathers = {};
    bool is_index = false;  ///< it says where others are read, and is no value
  };
  /// A result of the chain without views: elements of one of the chain with them.
  struct Result {
    std::size_t output = 0;
    Dims shape;                              ///< of all of the output
    std::vector<DimensionMap::Taken> taken;  ///< by dimension; empty: it is all of the output
    std::string text;                        ///< as people write it: "out[..., :64]"
    /// Of 'index_copy' and 'scale_tiles': what says where in the output the result lies.
    struct Placed {
      /// A dimension of the output in which an index says where, or a position along a dimension of the result.
      struct Along {
        int dimension = 0;
        std::string index = {};            ///< name of an operand
        ir::Bounds::Repeat computed = {};  ///< the index, of the position of the mask that `index` then is
        int position = 0;                  ///< of a computed one: the dimension of the result
      };
      std::optional<std::size_t> destination;  ///< which input of the chain with views the output is the memory of
      std::string operand;                     ///< its name
      Dims shape;                              ///< of the result
      std::vector<Along> along;
      std::vector<int> own;      ///< by dimension of the result that of the output which it is, or ir::kNone
      std::string_view written;  ///< what the user called: static text
    };
    std::optional<Placed> placed = {};
  };
  ir::Program program;
  std::vector<Operand> operands;         ///< in the order of program.inputs()
  std::vector<TensorView> tensors = {};  ///< the inputs of the chain with views, without addresses
  /// Of reductions that were taken apart: "'mean' adds up 32 views of its argument".
  std::vector<std::string> taken_apart = {};
  /// Of values that are computed more often than the chain says: "'silu(…)', 2 times".
  std::vector<std::string> repeated = {};
  std::vector<Result> results = {};  ///< in the order of program.results()

  /// These operands in that memory.
  base::InlineVector<TensorView, 8> views(std::span<const TensorView> inputs) const;
  /// These results in that memory. Throws Error(invalid_argument) for an output in slices of another shape than the
  /// result's, and for one of 'index_copy' that is not the memory of its operand.
  base::InlineVector<OutputView, 4> outputs(std::span<const OutputView> outputs,
                                            std::span<const TensorView> inputs) const;
};

/// For a chain that is_lowered_first(). Depends on the inputs' types, shapes and strides, and on no address. Throws
/// Error(invalid_argument) for views that do not fit, Error(unsupported) for those that cannot be read where their
/// operands lie.
Lowered lower(const ir::Program& program, std::span<const TensorView> inputs, Views views = Views::real);

}  // namespace epifuse::plan
