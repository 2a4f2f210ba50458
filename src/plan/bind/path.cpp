// Composition of views, and what they make of strides and of text.
#include "plan/bind/path.hpp"

#include <algorithm>
#include <optional>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"

namespace epifuse::plan {

using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;

namespace {

// Of the second of two views: which elements exist, counted in elements of the first one's value.
Taken existing(const Taken& made, const Taken& first, const Taken& second) {
  std::int64_t low = first.low;
  std::int64_t high = first.high;
  const auto place = [&](std::int64_t at) { return first.start + first.step * at; };
  if (second.low != Taken::kOpenLow) {
    if (first.step > 0) low = std::max(low, place(second.low));
    if (first.step < 0) high = std::min(high, place(second.low) + 1);
  }
  if (second.high != Taken::kOpenHigh) {
    if (first.step > 0) high = std::min(high, place(second.high - 1) + 1);
    if (first.step < 0) low = std::max(low, place(second.high - 1));
  }
  return made.within(low, high);
}

}  // namespace

DimensionMap composed(const DimensionMap& first, const DimensionMap& second) {
  DimensionMap map{first.taken, {}};
  for (std::size_t i = 0; i < first.given.size(); ++i) {
    const int from = first.given[i].from;
    if (from == Given::kRepeated) continue;
    Taken& taken = map.taken[static_cast<std::size_t>(from)];
    const Taken& then = second.taken[i];
    Taken made = {then.count == 0 ? 0 : taken.start + taken.step * then.start,
                  then.count > 1 ? taken.step * then.step : 1, then.count};
    made.period = std::max(taken.period, then.period);
    taken = existing(made, taken, then).unrolled();
  }
  for (const Given& given : second.given) {
    if (given.from == Given::kRepeated) {
      map.given.push_back(given);
      continue;
    }
    const Given& between = first.given[static_cast<std::size_t>(given.from)];
    map.given.push_back({between.from, given.extent, between.broadcast});
  }
  return map;
}

DimensionMap broadcast_map(const Dims& from, const Dims& to, bool by_another) {
  DimensionMap map = DimensionMap::whole(from);
  map.given.clear();
  for (int d = 0; d < to.size(); ++d) {
    const int own = d - (to.size() - from.size());
    const bool has = own >= 0 && from[own] == to[d];
    map.given.push_back(has ? Given{own, to[d]} : Given{Given::kRepeated, to[d], by_another});
  }
  return map;
}

void join(Dims& all, const Dims& other) {
  Dims joined;
  const int rank = std::max(all.size(), other.size());
  for (int d = 0; d < rank; ++d) {
    const int a = d - (rank - all.size());
    const int b = d - (rank - other.size());
    const std::int64_t first = a < 0 ? 1 : all[a];
    joined.push_back(first == 1 && b >= 0 ? other[b] : first);
  }
  all = joined;
}

DimensionMap taking(const std::vector<Taken>& taken) {
  DimensionMap map{taken, {}};
  for (std::size_t d = 0; d < taken.size(); ++d) map.given.push_back({static_cast<int>(d), taken[d].count});
  return map;
}

Steps joined(ViewStep first, const Dims& shape, const Steps& then) {
  Steps steps;
  std::size_t next = 0;
  auto* const map = std::get_if<DimensionMap>(&first);
  if (map != nullptr && !then.empty() && std::holds_alternative<DimensionMap>(then[0])) {
    *map = composed(*map, std::get<DimensionMap>(then[0]));
    next = 1;
  }
  const auto* const sizes = std::get_if<Dims>(&first);
  // Of reshapes in a row the last one counts.
  if (sizes != nullptr && !then.empty() && std::holds_alternative<Dims>(then[0]))
    return joined(then[0], shape, {then.begin() + 1, then.end()});
  const bool is_nothing = map != nullptr ? *map == DimensionMap::whole(shape) : sizes != nullptr && *sizes == shape;
  if (!is_nothing) steps.push_back(std::move(first));
  steps.insert(steps.end(), then.begin() + static_cast<std::ptrdiff_t>(next), then.end());
  return steps;
}

std::vector<std::int64_t> key_of(const Steps& steps) {
  std::vector<std::int64_t> key;
  for (const ViewStep& step : steps) {
    if (const auto* shape = std::get_if<Dims>(&step)) {
      key.push_back(-1 - shape->size());
      key.insert(key.end(), shape->begin(), shape->end());
      continue;
    }
    if (const auto* indexed = std::get_if<Indexed>(&step)) {
      constexpr std::int64_t kIndexed = -1000;
      key.insert(key.end(), {kIndexed, indexed->operation});
      continue;
    }
    if (const auto* repeated = std::get_if<Repeated>(&step)) {
      constexpr std::int64_t kRepeated = -2000;
      key.insert(key.end(), {kRepeated, repeated->dimension, repeated->repeat.times, repeated->repeat.shift,
                             repeated->shape[repeated->dimension]});
      continue;
    }
    if (const auto* unfolded = std::get_if<Unfolded>(&step)) {
      constexpr std::int64_t kUnfolded = -3000;
      key.insert(key.end(), {kUnfolded, unfolded->dimension, unfolded->step, unfolded->padding});
      key.insert(key.end(), unfolded->shape.begin(), unfolded->shape.end());
      continue;
    }
    const auto& map = std::get<DimensionMap>(step);
    key.push_back(static_cast<std::int64_t>(map.taken.size() * 100 + map.given.size()));
    for (const Taken& taken : map.taken)
      key.insert(key.end(), {taken.start, taken.step, taken.count, taken.low, taken.high, taken.period});
    for (const Given& given : map.given) key.insert(key.end(), {given.from, given.extent, given.broadcast ? 1 : 0});
  }
  return key;
}

// ---- memory

namespace {

std::int64_t divided_down(std::int64_t number, std::int64_t by) {
  return number / by - (number % by != 0 && (number < 0) != (by < 0) ? 1 : 0);
}

// Which of the elements that are taken lie in memory, of a dimension of which all do or only some.
void bound(Strided::Dimension& made, const Strided::Dimension& from, const Taken& taken) {
  std::int64_t low = taken.low;
  std::int64_t high = taken.high;
  if (from.bounded) {
    low = std::max(low, from.first);
    high = std::min(high, from.first + from.count);
  }
  std::int64_t first = 0;
  std::int64_t end = taken.count;
  // start + c * step >= low, and <= high - 1
  const auto least = [&](std::int64_t number) { return -divided_down(-number, std::abs(taken.step)); };
  const auto most = [&](std::int64_t number) { return divided_down(number, std::abs(taken.step)) + 1; };
  const bool forward = taken.step > 0;
  if (low != Taken::kOpenLow)
    forward ? first = std::max(first, least(low - taken.start)) : end = std::min(end, most(taken.start - low));
  if (high != Taken::kOpenHigh) {
    forward ? end = std::min(end, most(high - 1 - taken.start))
            : first = std::max(first, least(taken.start - high + 1));
  }
  made.bounded = first > 0 || end < taken.count;
  made.count = std::max<std::int64_t>(end - first, 0);
  made.first = made.count == 0 ? 0 : first;
}

// Where the elements of a rolled dimension begin again.
void roll(Strided::Dimension& made, const Taken& taken) {
  if (taken.period == 0) return;
  const std::int64_t at = taken.start + taken.step * (made.bounded ? made.first : 0);
  made.period = taken.period;
  made.before = taken.step > 0 ? at : taken.period - 1 - at;
}

}  // namespace

void Strided::apply(const DimensionMap& map) {
  const bool is_empty = std::ranges::find(map.taken, 0, &Taken::count) != map.taken.end();
  std::vector<Dimension> next;
  for (std::size_t d = 0; d < dimensions.size() && !is_empty; ++d) {
    Dimension& from = dimensions[d];
    Dimension taken{map.taken[d].count, 0, false};
    bound(taken, from, map.taken[d]);
    is_all_outside = is_all_outside || (taken.bounded && taken.count == 0);
    // Of one element, of which others outside are asked, any stride will do.
    if (taken.bounded && from.extent == 1) from.stride = 0;
    offset += map.taken[d].start * from.stride;
    if (from.windows != Dimension::kNone) {
      Windows& of = windows[static_cast<std::size_t>(from.windows)];
      of.first -= map.taken[d].start * from.pitch;
      of.repeat.shift += of.repeat.factor * map.taken[d].start * from.pitch;
    }
    if (from.repeat.exists()) {
      from.repeat.shift += from.repeat.factor * map.taken[d].start;
      from.repeat.factor *= map.taken[d].step;
      if (map.taken[d].count == 1 && !(taken.bounded && taken.count == 0))
        offset += from.repeat.at(0) * from.row_stride;
    }
  }
  for (const Given& given : map.given) {
    if (given.from == Given::kRepeated) {
      next.push_back({given.extent, 0, given.broadcast});
      continue;
    }
    const Dimension& from = dimensions[static_cast<std::size_t>(given.from)];
    const std::int64_t step = map.taken[static_cast<std::size_t>(given.from)].step;
    std::int64_t stride = 0;  // of one element any number will do
    if (given.extent > 1 && __builtin_mul_overflow(from.stride, step, &stride)) stride = 0;
    next.push_back({.extent = given.extent, .stride = stride, .broadcast = from.broadcast, .indexed = from.indexed});
    if (from.repeat.exists() && given.extent == 1) next.back().indexed = false;
    if (from.repeat.exists() && given.extent != 1) {
      next.back().repeat = from.repeat;
      next.back().rows = from.rows;
      next.back().row_stride = from.row_stride;
    }
    next.back().windows = from.windows;
    next.back().pitch = from.pitch * step;
    if (!is_empty) bound(next.back(), from, map.taken[static_cast<std::size_t>(given.from)]);
    if (!is_empty) roll(next.back(), map.taken[static_cast<std::size_t>(given.from)]);
  }
  dimensions = std::move(next);
  if (is_empty) is_all_outside = false;
  settle_windows();
}

// What is left of windows are those along which two dimensions have several elements, some of which exist and some do
// not. What else there is bounds one dimension, or none.
void Strided::settle_windows() {
  const bool is_empty = std::ranges::find(dimensions, 0, &Dimension::extent) != dimensions.end();
  for (std::size_t i = 0; i < windows.size() && !is_empty; ++i) {
    Windows& one = windows[i];
    if (one.is_settled) continue;
    std::vector<Dimension*> along;
    std::int64_t low = 0;
    std::int64_t high = 0;
    for (Dimension& d : dimensions) {
      if (d.windows != static_cast<int>(i)) continue;
      if (d.extent == 1) {
        d.windows = Dimension::kNone;
        d.indexed = d.indexed && !one.repeat.exists();
        continue;
      }
      along.push_back(&d);
      (d.pitch < 0 ? low : high) += d.pitch * (d.extent - 1);
    }
    const std::int64_t end = one.first + one.count;
    const bool all_exist = one.first <= low && high < end;
    const bool none_exists = one.count <= 0 || high < one.first || low >= end;
    if (along.size() == 2 && !none_exists && (one.repeat.exists() || !all_exist)) continue;
    is_all_outside = is_all_outside || none_exists;
    one.is_settled = true;
    for (Dimension* const d : along) d->windows = Dimension::kNone;
    if (one.repeat.exists() && along.empty() && !none_exists) offset += one.repeat.at(0) * one.row_stride;
    if (along.empty()) continue;
    Dimension& d = *along.back();
    if (one.repeat.exists() && !none_exists) {
      d.repeat = one.repeat;
      d.repeat.factor *= d.pitch;
      d.rows = one.rows;
      d.row_stride = one.row_stride;
    }
    if (all_exist) continue;
    Dimension bounds{d.extent, 0, false};
    if (!none_exists) bound(bounds, bounds, Taken{0, d.pitch, d.extent, one.first, end});
    bound(d, d, Taken{0, 1, d.extent, bounds.first, bounds.first + bounds.count});
    is_all_outside = is_all_outside || (d.bounded && d.count == 0);
  }
}

std::vector<Strided::WithinWindows> Strided::within_windows() const {
  std::vector<WithinWindows> all;
  for (std::size_t d = 0; d < dimensions.size(); ++d) {
    const Dimension& outer = dimensions[d];
    if (outer.windows == Dimension::kNone) continue;
    const auto inner = std::find_if(dimensions.begin() + static_cast<std::ptrdiff_t>(d) + 1, dimensions.end(),
                                    [&](const Dimension& other) { return other.windows == outer.windows; });
    if (inner == dimensions.end()) continue;
    const Windows& one = windows[static_cast<std::size_t>(outer.windows)];
    // Positions are counted as addresses grow.
    const std::int64_t sign = one.stride < 0 ? -1 : 1;
    const std::int64_t step = sign * outer.pitch;
    const std::int64_t inner_step = sign * inner->pitch;
    const std::int64_t first = sign < 0 ? -(one.first + one.count - 1) : one.first;
    const std::int64_t last = step * (outer.extent - 1);
    const std::int64_t last_within = inner_step * (inner->extent - 1);
    const std::int64_t low = std::min<std::int64_t>(last, 0) + std::min<std::int64_t>(last_within, 0);
    const std::int64_t high = std::max<std::int64_t>(last, 0) + std::max<std::int64_t>(last_within, 0);
    const std::int64_t from = std::max(first, low);
    const std::int64_t end = std::min(first + one.count, high + 1);
    const auto place = static_cast<int>(inner - dimensions.begin());
    all.push_back(
        {{static_cast<int>(d), from, end - from, step, place, inner_step}, from == low && end == high + 1, &one});
  }
  return all;
}

Dims Strided::extents() const {
  Dims extents;
  for (const Dimension& dimension : dimensions) extents.push_back(dimension.extent);
  return extents;
}

bool Strided::apply(const Indexed& indexed, std::size_t step) {
  const auto at = dimensions.begin() + indexed.dimension;
  const Dimension from = *at;
  if (!from.is_plain()) return false;
  // Of an operand that broadcasts, one element will do.
  if (!from.broadcast) gathers.push_back({step, from.stride, from.extent});
  std::vector<Dimension> made;
  for (int d = 0; d < indexed.count; ++d) {
    const std::int64_t extent = indexed.shape[indexed.dimension + d];
    made.push_back({.extent = extent, .stride = 0, .broadcast = from.broadcast, .indexed = !from.broadcast});
  }
  dimensions.insert(dimensions.erase(at), made.begin(), made.end());
  return true;
}

bool Strided::apply(const Repeated& repeated) {
  Dimension& from = dimensions[static_cast<std::size_t>(repeated.dimension)];
  const bool is_again = from.repeat.exists();
  if (from.period != 0 || from.windows != Dimension::kNone || (from.indexed && !is_again) ||
      (is_again && from.repeat.factor != 1))
    return false;
  const std::int64_t extent = repeated.shape[repeated.dimension];
  const ir::Bounds::Repeat& by = repeated.repeat;
  const std::int64_t low = from.bounded ? from.first : 0;
  const std::int64_t high = from.bounded ? from.first + from.count : from.extent;
  Dimension made{.extent = extent, .stride = 0, .broadcast = from.broadcast};
  const std::int64_t first = std::max<std::int64_t>(low * by.times - by.shift, 0);
  const std::int64_t end = std::min(high * by.times - by.shift, extent);
  made.bounded = first > 0 || end < extent;
  made.count = std::max<std::int64_t>(end - first, 0);
  made.first = made.count == 0 ? 0 : first;
  is_all_outside = is_all_outside || (made.bounded && made.count == 0);
  if (from.broadcast) made.bounded = false;  // one element will do
  const bool has_one_row = !is_again && from.stride == 0;
  if (!from.broadcast && !has_one_row && !is_all_outside) {
    made.repeat = {by.times, 1, by.shift - low * by.times};
    made.rows = high - low;
    made.row_stride = from.stride;
    if (is_again) {
      made.repeat = {by.times * from.repeat.times, 1, by.shift + by.times * from.repeat.shift};
      made.rows = from.rows;
      made.row_stride = from.row_stride;
    } else {
      offset += low * from.stride;
    }
    made.indexed = extent != 1;
    if (extent == 1) {
      offset += made.repeat.at(0) * made.row_stride;
      made.repeat = {};
    }
  }
  from = made;
  return true;
}

bool Strided::apply(const Unfolded& unfolded) {
  Dimension from = dimensions[static_cast<std::size_t>(unfolded.dimension)];
  Windows made{(from.bounded ? from.first : 0) + unfolded.padding,
               from.bounded ? from.count : from.extent,
               from.stride,
               from.repeat,
               from.rows,
               from.row_stride};
  made.repeat.shift -= made.repeat.factor * unfolded.padding;
  from.bounded = false;
  from.repeat = {};
  if (!from.is_plain() || (from.indexed && !made.repeat.exists())) return false;
  from.windows = static_cast<int>(windows.size());
  from.pitch = 1;
  offset -= unfolded.padding * from.stride;
  Dimension& outer = dimensions[static_cast<std::size_t>(unfolded.dimension)];
  outer = from;
  outer.extent = unfolded.shape[unfolded.dimension];
  outer.pitch = unfolded.step;
  // Of one window any stride will do.
  if (outer.extent == 1 || __builtin_mul_overflow(from.stride, unfolded.step, &outer.stride)) outer.stride = 0;
  dimensions.push_back(from);
  dimensions.back().extent = unfolded.shape[unfolded.shape.size() - 1];
  windows.push_back(made);
  settle_windows();
  return true;
}

bool Strided::apply(const Dims& shape) {
  std::vector<Dimension> old;
  for (const Dimension& d : dimensions) {
    if (d.extent != 1) old.push_back(d);
  }
  std::vector<Dimension> next;
  for (const std::int64_t extent : shape) next.push_back({extent, 0, extent == 1});
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  std::size_t to = next.size();
  for (std::size_t last = old.size(); last > 0 && !is_empty;) {
    // Dimensions first … last - 1 lie as one.
    std::size_t first = last - 1;
    std::int64_t elements = old[first].extent;
    while (first > 0 && old[first - 1].is_plain() && old[first].is_plain() &&
           old[first - 1].broadcast == old[first].broadcast && old[first - 1].indexed == old[first].indexed &&
           old[first - 1].stride == old[first].stride * old[first].extent)
      elements *= old[--first].extent;
    std::int64_t stride = old[last - 1].stride;
    for (; elements > 1; --to) {
      if (to == 0) return false;
      Dimension& d = next[to - 1];
      if (elements % d.extent != 0) return false;
      if (!old[first].is_plain() && d.extent != 1 && d.extent != elements) return false;
      if (d.extent > 1) {
        const std::int64_t extent = d.extent;
        d = old[first];
        d.extent = extent;
        d.stride = stride;
      }
      stride *= d.extent;
      elements /= d.extent;
    }
    last = first;
  }
  dimensions = std::move(next);
  return true;
}

bool follow(Strided& strided, const Steps& steps) {
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (const auto* map = std::get_if<DimensionMap>(&steps[i])) strided.apply(*map);
    if (const auto* shape = std::get_if<Dims>(&steps[i]); shape != nullptr && !strided.apply(*shape)) return false;
    if (const auto* indexed = std::get_if<Indexed>(&steps[i]); indexed != nullptr && !strided.apply(*indexed, i))
      return false;
    if (const auto* repeated = std::get_if<Repeated>(&steps[i]); repeated != nullptr && !strided.apply(*repeated))
      return false;
    if (const auto* unfolded = std::get_if<Unfolded>(&steps[i]); unfolded != nullptr && !strided.apply(*unfolded))
      return false;
  }
  return true;
}

namespace {

// Where the dimensions of a value go that is broadcast and then read through `steps`. Nothing where these take elements
// of them, split or merge them.
std::optional<DimensionMap> places_of(const Dims& own, const Dims& all, const Steps& steps) {
  const auto is_unfolded = [](const ViewStep& step) { return std::holds_alternative<Unfolded>(step); };
  if (std::ranges::find(all, 0) != all.end() || std::ranges::any_of(steps, is_unfolded)) return std::nullopt;
  // Dimensions are told apart by their strides in a dense tensor.
  Strided strided;
  const Dims strides = row_major(own);
  for (int d = 0; d < own.size(); ++d) strided.dimensions.push_back({own[d], strides[d], false});
  strided.apply(broadcast_map(own, all, true));
  if (!follow(strided, steps) || strided.offset != 0 || !strided.gathers.empty()) return std::nullopt;
  DimensionMap map = DimensionMap::whole(own);
  map.given.clear();
  int next = 0;
  const auto skip_ones = [&] {
    while (next < own.size() && own[next] == 1) ++next;
  };
  for (const Strided::Dimension& dimension : strided.dimensions) {
    if (dimension.broadcast || dimension.extent == 1) {
      map.given.push_back({Given::kRepeated, dimension.extent, true});
      continue;
    }
    skip_ones();
    const bool is_next = next < own.size() && dimension.is_plain() && !dimension.indexed &&
                         dimension.extent == own[next] && dimension.stride == strides[next];
    if (!is_next) return std::nullopt;
    map.given.push_back({next++, dimension.extent});
  }
  skip_ones();
  if (next != own.size()) return std::nullopt;
  return map;
}

}  // namespace

Steps broadcast_through(const Dims& own, const Dims& all, const Steps& steps, bool as_it_stands) {
  if (as_it_stands) {
    if (const auto map = places_of(own, all, steps)) return joined(*map, own, {});
  }
  return joined(broadcast_map(own, all, true), own, steps);
}

// ---- text

namespace {

// "dy[:, (i + 1) // 2]"
std::string text_of(const std::string& of, const Repeated& repeated) {
  std::string before;
  for (int d = 0; d < repeated.dimension; ++d) before += ":, ";
  const std::int64_t shift = repeated.repeat.shift;
  const std::string place = shift == 0 ? "i" : fmt::format("(i {} {})", shift < 0 ? '-' : '+', std::abs(shift));
  return fmt::format("{}[{}{} // {}]", of, before, place, repeated.repeat.times);
}

// "table[ids]", "x[:, ids]", "gather(x, 1, ids)"
std::string text_of(const std::string& of, const Indexed& indexed) {
  if (indexed.is_like_index) return fmt::format("gather({}, {}, {})", of, indexed.dimension, indexed.text);
  std::string before;
  for (int d = 0; d < indexed.dimension; ++d) before += ":, ";
  return fmt::format("{}[{}{}]", of, before, indexed.text);
}

std::string text_of(const Taken& taken, std::int64_t extent, bool is_given) {
  if (!is_given) return std::to_string(taken.start);
  std::string text = taken.start == (taken.step > 0 ? 0 : extent - 1) ? ":" : fmt::format("{}:", taken.start);
  const std::int64_t end = taken.start + taken.count * taken.step;
  if (taken.count == 0) return ":0";
  if (taken.period != 0) {
    const std::int64_t last = taken.start + (taken.count - 1) * taken.step;
    const std::string within = taken.is_bounded() ? fmt::format(" within {}…{}", taken.low, taken.high - 1) : "";
    return fmt::format("{}…{}{} modulo {}", taken.start, last, within, taken.period);
  }
  if (taken.is_bounded()) {
    const std::int64_t last = taken.start + (taken.count - 1) * taken.step;
    return fmt::format("{}…{}{} within {}…{}", taken.start, last,
                       std::abs(taken.step) == 1 ? "" : fmt::format(" by {}", taken.step), taken.low, taken.high - 1);
  }
  if (taken.step > 0 ? end < extent : end >= 0) text += std::to_string(end);
  return taken.step == 1 ? text : fmt::format("{}:{}", text, taken.step);
}

// "x[..., :128]"; broadcasting goes unsaid.
std::string text_of(const std::string& of, const DimensionMap& map, const Dims& shape) {
  std::vector<std::string> items;
  for (std::size_t d = 0; d < map.taken.size(); ++d) {
    const bool is_given = std::ranges::find(map.given, static_cast<int>(d), &Given::from) != map.given.end();
    items.push_back(text_of(map.taken[d], shape[static_cast<int>(d)],
                            is_given || map.taken[d].count != 1 || shape[static_cast<int>(d)] == 1));
  }
  const auto first = std::ranges::find_if(items, [](const std::string& item) { return item != ":"; });
  std::string text = of;
  if (first != items.end()) {
    if (first - items.begin() > 1) items.erase(items.begin(), first), items.insert(items.begin(), "...");
    if (items[0] != "...") {
      while (items.back() == ":") items.pop_back();
    }
    text += fmt::format("[{}]", fmt::join(items, ", "));
  }
  std::vector<int> order;
  for (const Given& given : map.given) {
    if (given.from != Given::kRepeated) order.push_back(given.from);
  }
  if (std::ranges::is_sorted(order)) return text;
  std::vector<int> ranks = order;
  std::ranges::sort(ranks);
  for (int& d : order) d = static_cast<int>(std::ranges::find(ranks, d) - ranks.begin());
  return fmt::format("permute({}, ({}))", text, fmt::join(order, ", "));
}

}  // namespace

std::string text_of(const std::string& name, const Dims& shape, const Steps& steps) {
  std::string text = name;
  Dims now = shape;
  for (const ViewStep& step : steps) {
    if (const auto* map = std::get_if<DimensionMap>(&step)) {
      text = text_of(text, *map, now);
    } else if (const auto* indexed = std::get_if<Indexed>(&step)) {
      text = text_of(text, *indexed);
    } else if (const auto* repeated = std::get_if<Repeated>(&step)) {
      text = text_of(text, *repeated);
    } else if (const auto* unfolded = std::get_if<Unfolded>(&step)) {
      text = fmt::format("unfold({}, {}, {}, {}{})", text, unfolded->dimension,
                         unfolded->shape[unfolded->shape.size() - 1], unfolded->step,
                         unfolded->padding == 0 ? "" : fmt::format(", padding={}", unfolded->padding));
    } else {
      std::string sizes = to_string(std::get<Dims>(step));
      text = fmt::format("reshape({}, ({}))", text, sizes.substr(1, sizes.size() - 2));
    }
    now = shape_of(step);
  }
  return text;
}

}  // namespace epifuse::plan
