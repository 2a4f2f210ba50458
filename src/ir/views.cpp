// Views are checked as far as that needs no shape, and printed.
#include "ir/views.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <span>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/program.hpp"

namespace epifuse::ir {
namespace {

using base::fail;
using enum ErrorCode;

constexpr std::array<std::string_view, 13> kNames = {"index",  "narrow",  "squeeze", "permute", "transpose",
                                                     "expand", "reshape", "chunk",   "split",   "window",
                                                     "pad",    "roll",    "unfold"};

// Items for the places before dimension `dim`, counted from the front or, negative, from the back.
std::vector<Index> at_dimension(std::int64_t dim, const Index& item) {
  std::vector<Index> items;
  if (dim < 0) items.push_back({.kind = Index::Kind::rest});
  for (std::int64_t i = 0; i < dim; ++i) items.emplace_back();
  items.push_back(item);
  for (std::int64_t i = dim + 1; i < 0; ++i) items.emplace_back();
  return items;
}

void check_dimensions(std::string_view function, const std::vector<std::int64_t>& dims) {
  for (std::size_t i = 0; i < dims.size(); ++i) {
    dimension_of(function, dims[i]);
    if (std::find(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(i), dims[i]) !=
        dims.begin() + static_cast<std::ptrdiff_t>(i))
      fail(invalid_expression, "dimension {} of '{}' is given twice", dims[i], function);
  }
}

void check_sizes(std::string_view function, const std::vector<std::int64_t>& sizes) {
  if (sizes.size() > kMaxDimensions)
    fail(invalid_expression, "'{}' gives {} dimensions; at most {} are supported", function, sizes.size(),
         kMaxDimensions);
  for (const std::int64_t size : sizes) {
    if (size < -1 || size > kMaxSize)
      fail(invalid_expression, "'{}' takes sizes of 0 to 2^53, or -1; found {}", function, size);
  }
}

void check_piece(std::string_view function, const std::vector<std::int64_t>& numbers) {
  const std::int64_t count = numbers[0];
  if (count < 1)
    fail(invalid_expression, "'{}' takes a {} of at least 1, found {}", function,
         function == "chunk" ? "number of chunks" : "size", count);
  dimension_of(function, numbers[1]);
  if (numbers[2] < 0) fail(invalid_expression, "'{}' numbers what it gives from 0; found [{}]", function, numbers[2]);
  if (function == "chunk" && numbers[2] >= count)
    fail(invalid_expression, "'chunk' gives {} pieces at most, so there is no [{}]: they are numbered from 0", count,
         numbers[2]);
}

// Of windows that never step outside.
constexpr std::size_t kWindowNumbers = 5;
constexpr std::size_t kUnfoldNumbers = 3;

// Far beyond any window, so that what is computed of them fits 64 bits.
constexpr std::int64_t kMostInWindow = std::int64_t{1} << 30;

void check_window(const std::vector<std::int64_t>& numbers) {
  dimension_of("window", numbers[0]);
  constexpr std::array<std::string_view, 3> kWhat = {"size", "stride", "dilation"};
  for (std::size_t i = 0; i < kWhat.size(); ++i) {
    if (numbers[i + 1] < 1 || numbers[i + 1] > kMostInWindow)
      fail(invalid_expression, "'window' takes a {} of 1 to 2^30, found {}", kWhat[i], numbers[i + 1]);
  }
  if (numbers[4] < 0 || numbers[4] >= numbers[1])
    fail(invalid_expression, "'window' gives elements of windows of {}, numbered from 0: there is no [{}]", numbers[1],
         numbers[4]);
  if (numbers.size() == kWindowNumbers) return;
  if (numbers[5] < 0) fail(invalid_expression, "'window' takes a padding of 0 or more, found {}", numbers[5]);
  if (numbers[5] > numbers[1] / 2)
    fail(invalid_expression, "'window' takes a padding of at most half of its size, which is {}; found {}", numbers[1],
         numbers[5]);
}

void check_unfold(const std::vector<std::int64_t>& numbers) {
  dimension_of("unfold", numbers[0]);
  if (numbers[1] < 1 || numbers[2] < 1)
    fail(invalid_expression, "'unfold' takes a size and a step of at least 1, found {} and {}", numbers[1], numbers[2]);
  if (numbers.size() == kUnfoldNumbers) return;
  if (numbers[1] > kMostInWindow || numbers[2] > kMostInWindow)
    fail(invalid_expression, "'unfold' with padding takes a size and a step of at most 2^30, found {} and {}",
         numbers[1], numbers[2]);
  if (numbers[3] < 0 || numbers[3] > numbers[1] / 2) {
    fail(invalid_expression, "'unfold' takes a padding of 0 to half of its size, which is {}; found {}", numbers[1],
         numbers[3]);
  }
}

// The numbers of a view of windows that say what is outside: padding, 1 for ceil_mode, and the value there.
std::span<const std::int64_t> numbers_of_outside(const View& view) {
  const std::span<const std::int64_t> all(view.numbers);
  if (view.kind == View::Kind::window && all.size() > kWindowNumbers) return all.subspan(kWindowNumbers);
  if (view.kind == View::Kind::unfold && all.size() > kUnfoldNumbers) return all.subspan(kUnfoldNumbers);
  return {};
}

void check_pad(const std::vector<std::int64_t>& numbers) {
  if (numbers.size() % 2 == 0 || numbers.size() > 2 * kMaxDimensions + 1) {
    fail(invalid_expression,
         "'pad' takes two sizes for each dimension, before and behind it, from the last dimension on; found {}",
         numbers.size() - 1);
  }
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    if (std::abs(numbers[i]) > kMostInWindow)
      fail(invalid_expression, "'pad' takes sizes of at most 2^30, found {}", numbers[i]);
  }
}

std::string print_item(const Index& item) {
  if (item.kind == Index::Kind::rest) return "...";
  if (item.kind == Index::Kind::added) return "None";
  if (item.kind == Index::Kind::at) return std::to_string(item.start);
  std::string text = (item.start == Index::kOpen ? "" : std::to_string(item.start)) + ":";
  if (item.stop != Index::kOpen) text += std::to_string(item.stop);
  if (item.step != 1) text += ":" + std::to_string(item.step);
  return text;
}

std::string print_list(const std::vector<std::int64_t>& numbers) {
  return fmt::format("({}{})", fmt::join(numbers, ", "), numbers.size() == 1 ? "," : "");
}

// ", padding=1, value=-inf"
std::string print_outside(const View& view) {
  std::string text;
  if (const auto outside = numbers_of_outside(view); !outside.empty()) {
    text += fmt::format(", padding={}", outside[0]);
    if (outside[1] != 0) text += ", ceil_mode=true";
  }
  const double value = value_outside(view).value_or(0);
  return std::bit_cast<std::int64_t>(value) == 0 ? text : text + ", value=" + print_number(value);
}

constexpr std::string_view kRollParts = "roll_parts";

}  // namespace

View index_view(std::vector<Index> items) {
  const auto is_rest = [](const Index& item) { return item.kind == Index::Kind::rest; };
  if (std::ranges::count_if(items, is_rest) > 1)
    fail(invalid_expression, "'{}' has more than one '...'", print_index(items));
  constexpr std::size_t kMostItems = 2 * kMaxDimensions;
  if (items.size() > kMostItems)
    fail(invalid_expression, "an index has {} items; values have at most {} dimensions", items.size(), kMaxDimensions);
  for (const Index& item : items) {
    if (item.step == 0)
      fail(invalid_expression, "a slice steps by 0 in '{}'; a step is positive or negative", print_index(items));
  }
  // What is not named is whole.
  if (items.size() > 1 && is_rest(items.back())) items.pop_back();
  if (items.empty()) fail(invalid_expression, "an index has at least one item, as in 'x[0]' or 'x[...]'");
  return {View::Kind::index, std::move(items), {}};
}

View flip_view(std::vector<std::int64_t> dims) {
  check_dimensions("flip", dims);
  constexpr Index kReversed = {.step = -1};
  std::vector<Index> front;
  std::vector<Index> back;
  for (const std::int64_t dim : dims) {
    std::vector<Index>& items = dim < 0 ? back : front;
    const std::size_t place = static_cast<std::size_t>(dim < 0 ? -dim : dim + 1);
    if (items.size() < place) items.resize(place);
    items[place - 1] = kReversed;
  }
  std::ranges::reverse(back);
  if (!back.empty() || front.empty()) {
    front.push_back({.kind = Index::Kind::rest});
    std::ranges::move(back, std::back_inserter(front));
  }
  return index_view(std::move(front));
}

View select_view(std::int64_t dim, std::int64_t index) {
  return index_view(at_dimension(dimension_of("select", dim), {.kind = Index::Kind::at, .start = index}));
}

View unsqueeze_view(std::int64_t dim) {
  return index_view(at_dimension(dimension_of("unsqueeze", dim), {.kind = Index::Kind::added}));
}

View numbered_view(View::Kind kind, std::vector<std::int64_t> numbers) {
  const std::string_view function = name_of(kind);
  switch (kind) {
    case View::Kind::index:
      break;
    case View::Kind::narrow:
      if (numbers[2] < 0) fail(invalid_expression, "'narrow' takes a length of 0 or more, found {}", numbers[2]);
      [[fallthrough]];
    case View::Kind::squeeze:
      dimension_of(function, numbers[0]);
      break;
    case View::Kind::permute:
      check_dimensions(function, numbers);
      break;
    case View::Kind::transpose:
      for (const std::int64_t dim : numbers) dimension_of(function, dim);
      break;
    case View::Kind::expand:
      check_sizes(function, numbers);
      break;
    case View::Kind::reshape:
      check_sizes(function, numbers);
      if (std::ranges::count(numbers, -1) > 1)
        fail(invalid_expression, "'reshape' finds one size where -1 stands; found {}", print_list(numbers));
      break;
    case View::Kind::chunk:
    case View::Kind::split:
      check_piece(function, numbers);
      break;
    case View::Kind::window:
      check_window(numbers);
      break;
    case View::Kind::pad:
      check_pad(numbers);
      break;
    case View::Kind::roll:
      dimension_of(function, numbers[0]);
      break;
    case View::Kind::unfold:
      check_unfold(numbers);
      break;
  }
  return {kind, {}, std::move(numbers)};
}

View unfold_view(std::int64_t dim, std::int64_t size, std::int64_t step, std::int64_t padding, bool ceil_mode,
                 double value) {
  std::vector<std::int64_t> numbers = {dim, size, step};
  if (padding != 0 || ceil_mode)
    numbers.insert(numbers.end(), {padding, ceil_mode ? 1 : 0, std::bit_cast<std::int64_t>(value)});
  return numbered_view(View::Kind::unfold, std::move(numbers));
}

View pad_view(const std::vector<std::int64_t>& sizes, double value) {
  std::vector<std::int64_t> numbers = {std::bit_cast<std::int64_t>(value)};
  numbers.insert(numbers.end(), sizes.begin(), sizes.end());
  return numbered_view(View::Kind::pad, std::move(numbers));
}

std::optional<double> value_outside(const View& view) noexcept {
  if (view.kind == View::Kind::pad) return std::bit_cast<double>(view.numbers[0]);
  const auto outside = numbers_of_outside(view);
  return outside.empty() ? std::nullopt : std::optional(std::bit_cast<double>(outside[2]));
}

int rank_of(const View& view, int rank) noexcept {
  switch (view.kind) {
    case View::Kind::index: {
      const auto count = [&](Index::Kind kind) {
        return static_cast<int>(std::ranges::count(view.items, kind, &Index::kind));
      };
      return std::max(rank + count(Index::Kind::added) - count(Index::Kind::at), 0);
    }
    case View::Kind::squeeze:
      return std::max(rank - 1, 0);
    case View::Kind::unfold:
      return rank + 1;
    case View::Kind::expand:
    case View::Kind::reshape:
    case View::Kind::permute:
      return static_cast<int>(view.numbers.size());
    default:
      return rank;
  }
}

namespace {

// Windows that begin at every element: what they take stands side by side in the value, which has others before and
// behind it.
ReversedView reversed_window(const View& view) {
  const std::vector<std::int64_t>& numbers = view.numbers;
  const std::int64_t dim = numbers[0];
  if (dim >= 0 || numbers[2] != 1)
    return {ReversedView::Kind::scatter};  // which dimension it is from the back is not known
  const std::int64_t padding = numbers.size() > 5 ? numbers[5] : 0;
  const std::int64_t before = numbers[4] * numbers[3] - padding;
  const std::int64_t all =
      (numbers[1] - 1) * numbers[3] - 2 * padding;  // that the value has more than there are windows
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(-2 * dim), 0);
  sizes[sizes.size() - 2] = before;
  sizes.back() = all - before;
  return {ReversedView::Kind::view, pad_view(sizes, 0)};
}

}  // namespace

ReversedView reversed_view(const View& view) {
  using Way = ReversedView::Kind;
  const auto keeps_order = [](const Index& item) {
    return item == Index{} || item.kind == Index::Kind::rest || item.kind == Index::Kind::added;
  };
  const auto reverses = [](const Index& item) {
    return item == Index{} || item == Index{.step = -1} || item.kind == Index::Kind::rest;
  };
  switch (view.kind) {
    case View::Kind::squeeze:
    case View::Kind::reshape:
      return {Way::reshape};
    case View::Kind::expand:
      return {Way::sum};
    case View::Kind::transpose:
      return {Way::view, view};
    case View::Kind::permute: {
      const auto rank = static_cast<std::int64_t>(view.numbers.size());
      View inverse = view;
      for (std::int64_t i = 0; i < rank; ++i) {
        const std::int64_t dim = view.numbers[static_cast<std::size_t>(i)];
        if (dim < -rank || dim >= rank) return {Way::scatter};  // no permutation: refused when shapes are known
        inverse.numbers[static_cast<std::size_t>(dim < 0 ? dim + rank : dim)] = i;
      }
      return {Way::view, std::move(inverse)};
    }
    case View::Kind::index:
      if (std::ranges::all_of(view.items, keeps_order)) return {Way::reshape};
      if (std::ranges::all_of(view.items, reverses)) return {Way::view, view};
      return {Way::scatter};
    case View::Kind::pad: {
      const auto takes_away = [](std::int64_t size) { return size < 0; };
      const std::vector<std::int64_t> sizes(view.numbers.begin() + 1, view.numbers.end());
      if (std::ranges::any_of(sizes, takes_away)) {
        std::vector<std::int64_t> back;
        for (const std::int64_t size : sizes) back.push_back(-size);
        return {Way::view, pad_view(back, 0)};
      }
      // What is in the middle again.
      std::vector<Index> items = {{.kind = Index::Kind::rest}};
      for (std::size_t i = view.numbers.size() - 1; i >= 2; i -= 2) {
        const std::int64_t before = view.numbers[i - 1];
        const std::int64_t behind = view.numbers[i];
        items.push_back({.start = before == 0 ? Index::kOpen : before, .stop = behind == 0 ? Index::kOpen : -behind});
      }
      return {Way::view, index_view(std::move(items))};
    }
    case View::Kind::window:
      return reversed_window(view);
    default:
      return {Way::scatter};
  }
}

namespace {

// Of an index of one slice among whole dimensions.
std::optional<ViewsBeside> beside_slice(const std::vector<Index>& items) {
  const auto is_whole = [](const Index& item) { return item == Index{} || item.kind == Index::Kind::rest; };
  const auto it = std::ranges::find_if_not(items, is_whole);
  if (it == items.end() || std::count_if(items.begin(), items.end(), is_whole) + 1 != std::ssize(items)) return {};
  if (it->kind != Index::Kind::slice || it->step != 1) return {};
  // Of what is given from one end each, nobody knows which comes first.
  const bool has_both = it->start != Index::kOpen && it->stop != Index::kOpen;
  if (has_both && ((it->start < 0) != (it->stop < 0) || it->start > it->stop)) return {};
  ViewsBeside beside;
  const bool from_front = std::ranges::find(items.begin(), it, Index::Kind::rest, &Index::kind) == it;
  beside.dimension = from_front ? it - items.begin() : it - items.end();
  const auto with = [&](const Index& slice) {
    std::vector<Index> changed = items;
    changed[static_cast<std::size_t>(it - items.begin())] = slice;
    return index_view(std::move(changed));
  };
  if (it->start != Index::kOpen && it->start != 0) beside.before.push_back(with({.stop = it->start}));
  if (it->stop != Index::kOpen) beside.behind.push_back(with({.start = it->stop}));
  return beside;
}

}  // namespace

std::optional<ViewsBeside> views_beside(const View& view) {
  const std::vector<std::int64_t>& numbers = view.numbers;
  if (view.kind == View::Kind::index) return beside_slice(view.items);
  if (view.kind == View::Kind::narrow && numbers[1] >= 0)
    return beside_slice(at_dimension(numbers[0], {.start = numbers[1], .stop = numbers[1] + numbers[2]}));
  if (view.kind != View::Kind::chunk) return std::nullopt;
  ViewsBeside beside{numbers[1]};
  for (std::int64_t i = 0; i < numbers[0]; ++i) {
    if (i != numbers[2])
      (i < numbers[2] ? beside.before : beside.behind).push_back(numbered_view(view.kind, {numbers[0], numbers[1], i}));
  }
  return beside;
}

std::string_view name_of(View::Kind kind) noexcept { return kNames[static_cast<std::size_t>(kind)]; }

std::string_view written_name_of(View::Kind kind) noexcept {
  return kind == View::Kind::roll ? kRollParts : name_of(kind);
}

std::string print_index(const std::vector<Index>& items) {
  std::vector<std::string> texts;
  texts.reserve(items.size());
  for (const Index& item : items) texts.push_back(print_item(item));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

std::string print_view(const View& view, std::string_view of) {
  const auto number = [&](std::size_t i) { return view.numbers[i]; };
  switch (view.kind) {
    case View::Kind::index:
      return std::string(of) + print_index(view.items);
    case View::Kind::permute:
    case View::Kind::expand:
    case View::Kind::reshape:
      return fmt::format("{}({}, {})", name_of(view.kind), of, print_list(view.numbers));
    case View::Kind::chunk:
    case View::Kind::split:
      return fmt::format("{}({}, {}, {})[{}]", name_of(view.kind), of, number(0), number(1), number(2));
    case View::Kind::window:
      return fmt::format("window({}, {}, {}, {}{}{})[{}]", of, number(0), number(1), number(2),
                         number(3) == 1 ? "" : fmt::format(", {}", number(3)), print_outside(view), number(4));
    case View::Kind::pad:
      return fmt::format("pad({}, {}{})", of, print_list({view.numbers.begin() + 1, view.numbers.end()}),
                         print_outside(view));
    case View::Kind::unfold:
      return fmt::format("unfold({}, {}, {}, {}{})", of, number(0), number(1), number(2), print_outside(view));
    case View::Kind::roll:
      return fmt::format("{}({}, {}, {})[{}]", written_name_of(view.kind), of, number(1), number(0), number(2));
    default:
      return fmt::format("{}({}, {})", name_of(view.kind), of, fmt::join(view.numbers, ", "));
  }
}

}  // namespace epifuse::ir
