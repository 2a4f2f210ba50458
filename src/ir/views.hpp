// Views: how a value reads another one's elements at other places, as the user wrote it. Without shapes: what an index
// or a size means is resolved when tensors are bound (plan/bind/views.hpp).
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::ir {

/// What stands at one place between the brackets of `x[1:, None, ..., 0]`.
struct Index {
  enum class Kind : std::uint8_t {
    slice,  ///< start:stop:step
    at,     ///< one element: the dimension goes
    added,  ///< None: a dimension of one element
    rest,   ///< ...: as many whole dimensions as there are
  };
  static constexpr std::int64_t kOpen = std::numeric_limits<std::int64_t>::min();  ///< of what is not written

  Kind kind = Kind::slice;
  std::int64_t start = kOpen;  ///< of slice, and the position of `at`; negative: from the back
  std::int64_t stop = kOpen;
  std::int64_t step = 1;  ///< not 0

  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in what is defaulted
  friend auto operator<=>(const Index&, const Index&) = default;
};

struct View {
  enum class Kind : std::uint8_t {
    index,      ///< items
    narrow,     ///< numbers: dimension, start, length
    squeeze,    ///< numbers: the dimension, which has one element
    permute,    ///< numbers: for each dimension which one it was
    transpose,  ///< numbers: two dimensions
    expand,     ///< numbers: sizes; -1 keeps one
    reshape,    ///< numbers: sizes; one may be -1
    chunk,      ///< numbers: how many there are, dimension, which one
    split,      ///< numbers: the size of one, dimension, which one
    window,  ///< numbers: dimension, size, stride, dilation, which element of each window; where they may step outside also padding,
    ///< 1 for ceil_mode, and what stands outside, as the bits of a double
    pad,  ///< numbers: what stands outside, as the bits of a double; elements before and behind the last dimension, the one before it, …
    roll,  ///< numbers: dimension, shift, 0 for the elements that come first, 1 for the others
    unfold,  ///< numbers: dimension, size, step: the dimension is that of windows, whose elements are a dimension behind all others;
    ///< where these may step outside also padding, 1 for ceil_mode, and what stands outside, as the bits of a double
  };
  Kind kind = Kind::index;
  std::vector<Index> items = {};
  std::vector<std::int64_t> numbers = {};

  // NOLINTNEXTLINE(modernize-use-nullptr): likewise
  friend auto operator<=>(const View&, const View&) = default;
};

// Each checks what needs no shape, and throws Error(invalid_expression) naming the function.
View index_view(std::vector<Index> items);
View flip_view(std::vector<std::int64_t> dims);
View select_view(std::int64_t dim, std::int64_t index);
View unsqueeze_view(std::int64_t dim);
View numbered_view(View::Kind kind, std::vector<std::int64_t> numbers);
/// Windows as a dimension, and their elements as another behind all others: `value` stands in the padding.
View unfold_view(std::int64_t dim, std::int64_t size, std::int64_t step, std::int64_t padding, bool ceil_mode,
                 double value);
/// `sizes`: elements before and behind the last dimension, the one before it, …; a negative one takes elements away.
View pad_view(const std::vector<std::int64_t>& sizes, double value);

/// Of a view that may read outside its value: what stands there. Else nothing.
std::optional<double> value_outside(const View& view) noexcept;

/// The number of dimensions of the view of a value that has `rank`; of one that does not fit any number.
int rank_of(const View& view, int rank) noexcept;

/// What a gradient goes through on its way back.
struct ReversedView {
  enum class Kind : std::uint8_t {
    reshape,  ///< the elements in their order, in the shape of the view's argument
    view,     ///< `view` of the gradient
    sum,      ///< over what was broadcast
    scatter,  ///< the argument's other elements have a gradient of 0: no view
  };
  Kind kind = Kind::reshape;
  View view = {};
};
ReversedView reversed_view(const View& view);

/// What a slice along one dimension leaves, before and behind it.
struct ViewsBeside {
  std::int64_t dimension = 0;
  std::vector<View> before = {};
  std::vector<View> behind = {};
};
/// Of a view that takes neighbours along one dimension, in their order; of others nothing.
std::optional<ViewsBeside> views_beside(const View& view);

/// "permute"; "index" for brackets.
std::string_view name_of(View::Kind kind) noexcept;
/// The same as a chain calls it: "roll_parts" of roll.
std::string_view written_name_of(View::Kind kind) noexcept;
/// As the text language writes it: "x[..., :128]", "permute(x, (1, 0))". `of` is one operand, or stands in parentheses.
std::string print_view(const View& view, std::string_view of);
/// "[..., :128]"
std::string print_index(const std::vector<Index>& items);

}  // namespace epifuse::ir
