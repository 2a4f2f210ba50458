// The grammar of operands.hpp, by hand: a cursor, one function per rule.
#include "operands.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "support.hpp"

namespace epifuse::tool {
namespace {

constexpr std::string_view kForms =
    "a number (alpha=2.0), TYPE[SHAPE] (x=f16[8,16]), @FILE (x=@x.npy) or TYPE@FILE (x=bf16@x.npy)";

DType known_type(std::string_view name, std::string_view who) {
  const auto type = parse_dtype(name);
  if (!type) refuse("{}: '{}' is no element type; the types are {}", who, name, dtype_names(" "));
  return *type;
}

// What stands between an opening bracket (already read) and `close`: integers with commas. Nothing if it is not that.
std::optional<std::vector<std::int64_t>> integers_until(Cursor& cursor, char close) {
  std::vector<std::int64_t> values;
  if (cursor.accept(close)) return values;
  do {
    cursor.skip_spaces();
    const auto value = cursor.integer();
    if (!value) return std::nullopt;
    values.push_back(*value);
    cursor.skip_spaces();
  } while (cursor.accept(','));
  if (!cursor.accept(close)) return std::nullopt;
  return values;
}

Dims parse_shape(Cursor& cursor, std::string_view who, std::string_view text) {
  const auto extents = integers_until(cursor, ']');
  if (!extents) {
    refuse(
        "{}: the shape in '{}' is not a list of 64-bit integers; write the extents between brackets, as in f16[8,16]",
        who, text);
  }
  if (extents->size() > static_cast<std::size_t>(kMaxRank)) {
    refuse("{}: '{}' has {} dimensions; at most {} are supported", who, text, extents->size(), kMaxRank);
  }
  return Dims(std::span(*extents));
}

[[noreturn]] void refuse_layout(std::string_view who, std::string_view found) {
  refuse("{}: '{}' is no layout; expected :nhwc, :colmajor, :colmajor(LD), :strides(S,…) or :offset(N)", who, found);
}

std::int64_t one_integer(Cursor& cursor, std::string_view who, std::string_view found) {
  const auto values = integers_until(cursor, ')');
  if (!values || values->size() != 1) refuse_layout(who, found);
  return values->front();
}

// After a ':'.
void parse_layout_item(Cursor& cursor, Layout& layout, std::string_view who) {
  const std::string_view found = cursor.rest();
  const std::string_view word = cursor.word();
  const bool arguments = cursor.accept('(');
  if (word == "offset" && arguments) {
    layout.offset = one_integer(cursor, who, found);
    if (layout.offset < 0) {
      refuse("{}: offset {} is negative; the offset counts elements from an aligned address", who, layout.offset);
    }
    return;
  }
  if (layout.order != Layout::Order::row_major) refuse("{}: a second layout, '{}'; expected one", who, found);
  if (word == "nhwc" && !arguments) {
    layout.order = Layout::Order::channels_last;
  } else if (word == "colmajor") {
    layout.order = Layout::Order::column_major;
    if (arguments) layout.leading = one_integer(cursor, who, found);
  } else if (word == "strides" && arguments) {
    auto strides = integers_until(cursor, ')');
    if (!strides) refuse_layout(who, found);
    layout.order = Layout::Order::given;
    layout.strides = std::move(*strides);
  } else {
    refuse_layout(who, found);
  }
}

Layout parse_layout(Cursor& cursor, std::string_view who) {
  Layout layout;
  while (cursor.accept(':')) parse_layout_item(cursor, layout, who);
  return layout;
}

bool is_name(std::string_view text) {
  Cursor cursor(text);
  return !cursor.word().empty() && cursor.done();
}

RandomSource parse_random(std::string_view value, std::string_view who) {
  Cursor cursor(value);
  const std::string_view type = cursor.word();
  RandomSource source;
  source.dtype = known_type(type, who);
  if (!cursor.accept('[')) refuse("{}: found '{}'; expected {}", who, value, kForms);
  source.shape = parse_shape(cursor, who, value);
  source.layout = parse_layout(cursor, who);
  if (!cursor.done()) refuse_layout(who, cursor.rest());
  return source;
}

Dims dense(const Dims& shape, std::span<const int> innermost_first) {
  Dims strides = shape;
  std::uint64_t step = 1;  // unsigned: what overflows is refused when it is planned
  for (const int axis : innermost_first) {
    strides[axis] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[axis], 1));
  }
  return strides;
}

Dims column_major(const Layout& layout, const Dims& shape, std::string_view who) {
  std::vector<int> axes(static_cast<std::size_t>(shape.size()));
  std::iota(axes.begin(), axes.end(), 0);
  if (!layout.leading) return dense(shape, axes);
  if (shape.size() != 2) {
    refuse("{}: :colmajor({}) is for matrices; the shape is {}", who, *layout.leading, to_string(shape));
  }
  if (*layout.leading < shape[0]) {
    refuse("{}: the leading dimension {} is less than the {} rows of {}", who, *layout.leading, shape[0],
           to_string(shape));
  }
  return {1, *layout.leading};
}

}  // namespace

OperandSpec parse_operand(std::string_view text) {
  const auto equals = text.find('=');
  const std::string_view name = text.substr(0, equals);
  if (equals == text.npos || !is_name(name)) {
    refuse("'{}' is no operand; expected NAME=VALUE, where the value is {}", text, kForms);
  }
  const std::string_view value = text.substr(equals + 1);
  const std::string who = fmt::format("operand '{}'", name);
  OperandSpec spec{std::string(name), {}};
  const auto at = value.find('@');
  if (const auto number = parse_number(value)) {
    spec.source = *number;
  } else if (at != value.npos && value.substr(0, at).find('[') == value.npos) {
    FileSource file;
    if (at > 0) file.dtype = known_type(value.substr(0, at), who);
    file.path = value.substr(at + 1);
    if (file.path.empty()) refuse("{}: no file name after '@'; expected a .npy file", who);
    spec.source = std::move(file);
  } else if (value.find('[') != value.npos) {
    spec.source = parse_random(value, who);
  } else {
    refuse("{}: found '{}'; expected {}", who, value, kForms);
  }
  return spec;
}

std::vector<ResultSpec> parse_results(std::span<const std::string> texts) {
  std::vector<ResultSpec> specs;
  for (const std::string& text : texts) {
    if (text.empty()) refuse("--out: found ''; expected a type, a layout or both (f16:nhwc)");
    Cursor cursor(text);
    do {
      const std::string who = fmt::format("--out {}", text);
      ResultSpec spec;
      const std::string_view type = cursor.word();
      if (!type.empty()) spec.dtype = known_type(type, who);
      spec.layout = parse_layout(cursor, who);
      specs.push_back(std::move(spec));
    } while (cursor.accept(','));
    if (!cursor.done()) {
      refuse("--out {}: found '{}'; expected types with commas between them, each with an optional layout (f16:nhwc)",
             text, cursor.rest());
    }
  }
  return specs;
}

Dims strides_of(const Layout& layout, const Dims& shape, std::string_view who) {
  static constexpr std::array kChannelsLast = {1, 3, 2, 0};
  switch (layout.order) {
    case Layout::Order::row_major:
      return row_major(shape);
    case Layout::Order::column_major:
      return column_major(layout, shape, who);
    case Layout::Order::channels_last:
      if (shape.size() != 4) refuse("{}: :nhwc is for the shape [N,C,H,W]; found {}", who, to_string(shape));
      return dense(shape, kChannelsLast);
    case Layout::Order::given:
      break;
  }
  if (layout.strides.size() != static_cast<std::size_t>(shape.size())) {
    refuse("{}: {} strides for the {} dimensions of {}; expected one each", who, layout.strides.size(), shape.size(),
           to_string(shape));
  }
  return Dims(std::span(layout.strides));
}

}  // namespace epifuse::tool
