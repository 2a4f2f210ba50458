// What a view means for a shape, and what it makes of strides. lower.cpp pushes views down to operands with this.
#include "plan/bind/views.hpp"

#include <algorithm>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "plan/bind/shape_rules.hpp"
#include "plan/bind/shapes.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;
using Taken = DimensionMap::Taken;
using Given = DimensionMap::Given;

// A view that is being resolved, for errors.
struct Resolving {
  const ir::Program& program;
  const ir::Node& node;
  const ir::View& view;
  const Dims& shape;

  std::string text() const { return text_of(program, node); }
  // Within a composite others stand before it, whose shapes nobody has written.
  std::string shape_text() const {
    return ir::is_within_call(node, view) ? "" : fmt::format(": the shape is {}", to_string(shape));
  }

  int dimension(std::int64_t dim, int rank) const {
    if (dim < -rank || dim >= rank) {
      fail(invalid_argument, "'{}': there is no dimension {}, the value has the shape {}", text(), dim,
           to_string(shape));
    }
    return from_front(dim, rank);
  }
  int dimension(std::int64_t dim) const { return dimension(dim, shape.size()); }
};

// As Python's slice.indices().
Taken slice_of(const ir::Index& item, std::int64_t extent) {
  const std::int64_t step = item.step;
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? extent : extent - 1;
  const auto place = [&](std::int64_t at, std::int64_t open) {
    if (at == ir::Index::kOpen) return open;
    return std::clamp(at < 0 ? at + extent : at, low, high);
  };
  const std::int64_t start = place(item.start, step > 0 ? low : high);
  const std::int64_t stop = place(item.stop, step > 0 ? high : low);
  const std::int64_t span = step > 0 ? stop - start : start - stop;
  const std::uint64_t stride = step > 0 ? static_cast<std::uint64_t>(step) : 0 - static_cast<std::uint64_t>(step);
  const std::int64_t count =
      span <= 0 ? 0 : static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1;
  // A step to nowhere may be any number.
  return count == 0 ? Taken{0, 1, 0} : Taken{start, count == 1 ? 1 : step, count};
}

DimensionMap indexed(const Resolving& r) {
  using Kind = ir::Index::Kind;
  const auto named = std::ranges::count_if(
      r.view.items, [](const ir::Index& item) { return item.kind == Kind::slice || item.kind == Kind::at; });
  const int rank = r.shape.size();
  if (named > rank && ir::is_within_call(r.node, r.view)) {
    fail(invalid_argument, "'{}' takes a value of {} dimensions or more, found the shape {}", r.text(), named,
         to_string(r.shape));
  }
  if (named > rank) {
    fail(invalid_argument, "'{}' names {} dimensions, but the value has {}: its shape is {}", r.text(), named, rank,
         to_string(r.shape));
  }
  DimensionMap map;
  int d = 0;
  const auto keep = [&](const Taken& taken) {
    map.taken.push_back(taken);
    map.given.push_back({d++, taken.count});
  };
  for (const ir::Index& item : r.view.items) {
    if (item.kind == Kind::added) map.given.push_back({Given::kRepeated, 1});
    if (item.kind == Kind::slice) keep(slice_of(item, r.shape[d]));
    if (item.kind == Kind::at) {
      const std::int64_t extent = r.shape[d];
      if (item.start < -extent || item.start >= extent) {
        fail(invalid_argument, "'{}': the index {} is out of range, dimension {} has {} elements", r.text(), item.start,
             d, extent);
      }
      map.taken.push_back({item.start < 0 ? item.start + extent : item.start, 1, 1});
      ++d;
    }
    for (int k = 0; item.kind == Kind::rest && k < rank - named; ++k) keep({0, 1, r.shape[d]});
  }
  while (d < rank) keep({0, 1, r.shape[d]});
  return map;
}

DimensionMap cut(const Resolving& r, std::int64_t dim, std::int64_t start, std::int64_t count) {
  DimensionMap map = DimensionMap::whole(r.shape);
  const auto d = static_cast<std::size_t>(dim);
  map.taken[d] = {count == 0 ? 0 : start, 1, count};
  map.given[d].extent = count;
  return map;
}

DimensionMap narrowed(const Resolving& r) {
  const int d = r.dimension(r.view.numbers[0]);
  const std::int64_t extent = r.shape[d];
  const std::int64_t start = r.view.numbers[1] < 0 ? r.view.numbers[1] + extent : r.view.numbers[1];
  const std::int64_t length = r.view.numbers[2];
  if (start < 0 || start > extent || length > extent - start) {
    fail(invalid_argument, "'{}' ends outside the value: dimension {} has {} elements", r.text(), d, extent);
  }
  return cut(r, d, start, length);
}

// PyTorch's chunk and split: all of one size, but for the last.
DimensionMap divided(const Resolving& r) {
  const int d = r.dimension(r.view.numbers[1]);
  const std::int64_t extent = r.shape[d];
  const bool is_chunk = r.view.kind == ir::View::Kind::chunk;
  const std::int64_t size = is_chunk ? (extent - 1) / r.view.numbers[0] + 1 : r.view.numbers[0];
  // Of nothing there are as many empty chunks as wanted, and one empty result of split.
  const std::int64_t count = extent > 0 ? (extent - 1) / size + 1 : is_chunk ? r.view.numbers[0] : 1;
  const std::int64_t index = r.view.numbers[2];
  if (index >= count) {
    fail(invalid_argument, "'{}' does not exist: dimension {} of {} elements is divided in {}, numbered from 0",
         r.text(), d, extent, count);
  }
  if (extent == 0) return cut(r, d, 0, 0);
  const std::int64_t start = index * size;
  return cut(r, d, start, std::min(size, extent - start));
}

// How many windows there are along dimension d. `padding` elements stand before and behind it; with `rounds_up` the
// last window may end behind these.
std::int64_t count_windows(const Resolving& r, int d, std::int64_t reach, std::int64_t stride, std::int64_t padding,
                           bool rounds_up) {
  const std::int64_t extent = r.shape[d];
  const std::int64_t padded = extent + 2 * padding;
  const std::int64_t beyond = rounds_up ? stride - 1 : 0;
  if (reach > padded + beyond) {
    fail(invalid_argument, "'{}': a window reaches over {} elements, dimension {} has {}{}{}", r.text(), reach, d,
         padded, padding > 0 ? fmt::format(" with its padding of {}", padding) : "", r.shape_text());
  }
  const std::int64_t count = (padded - reach + beyond) / stride + 1;
  // As in PyTorch: the last window begins inside the value, or in the padding before it.
  return rounds_up && (count - 1) * stride >= extent + padding ? count - 1 : count;
}

// One element of each window: those of all windows stand a stride apart.
DimensionMap windowed(const Resolving& r) {
  const std::vector<std::int64_t>& numbers = r.view.numbers;
  const int d = r.dimension(numbers[0]);
  const std::int64_t reach = (numbers[1] - 1) * numbers[3] + 1;
  const bool may_leave = numbers.size() > 5;
  const std::int64_t padding = may_leave ? numbers[5] : 0;
  const std::int64_t count = count_windows(r, d, reach, numbers[2], padding, may_leave && numbers[6] != 0);
  DimensionMap map = DimensionMap::whole(r.shape);
  const Taken taken = {numbers[4] * numbers[3] - padding, count == 1 ? 1 : numbers[2], count};
  map.taken[static_cast<std::size_t>(d)] = taken.within(0, r.shape[d]);
  map.given[static_cast<std::size_t>(d)].extent = count;
  return map;
}

Unfolded unfolded(const Resolving& r) {
  const std::vector<std::int64_t>& numbers = r.view.numbers;
  const int d = r.dimension(numbers[0]);
  const bool may_leave = numbers.size() > 3;
  Unfolded made{d, numbers[2], r.shape, may_leave ? numbers[3] : 0};
  made.shape[d] = count_windows(r, d, numbers[1], made.step, made.padding, may_leave && numbers[4] != 0);
  made.shape.push_back(numbers[1]);
  return made;
}

// Elements before and behind each of the last dimensions.
DimensionMap padded(const Resolving& r) {
  const std::vector<std::int64_t>& numbers = r.view.numbers;
  const int sized = static_cast<int>(numbers.size() / 2);
  if (sized > r.shape.size()) {
    fail(invalid_argument, "'{}' pads {} dimensions, but the value has {}: its shape is {}", r.text(), sized,
         r.shape.size(), to_string(r.shape));
  }
  DimensionMap map = DimensionMap::whole(r.shape);
  for (int k = 0; k < sized; ++k) {
    const int d = r.shape.size() - 1 - k;
    const std::int64_t before = numbers[static_cast<std::size_t>(2 * k + 1)];
    const std::int64_t count = r.shape[d] + before + numbers[static_cast<std::size_t>(2 * k + 2)];
    if (count < 0) {
      fail(invalid_argument, "'{}' takes more elements away than dimension {} has: the shape is {}", r.text(), d,
           to_string(r.shape));
    }
    map.taken[static_cast<std::size_t>(d)] = Taken{count == 0 ? 0 : -before, 1, count}.within(0, r.shape[d]);
    map.given[static_cast<std::size_t>(d)].extent = count;
  }
  return map;
}

// The last `shift` elements, which come first, or the others.
DimensionMap rolled(const Resolving& r) {
  const int d = r.dimension(r.view.numbers[0]);
  const std::int64_t extent = r.shape[d];
  const std::int64_t rest = extent == 0 ? 0 : r.view.numbers[1] % extent;
  const std::int64_t shift = rest < 0 ? rest + extent : rest;
  return r.view.numbers[2] == 0 ? cut(r, d, extent - shift, shift) : cut(r, d, 0, extent - shift);
}

DimensionMap permuted(const Resolving& r, const std::vector<int>& dims) {
  DimensionMap map = DimensionMap::whole(r.shape);
  for (std::size_t i = 0; i < dims.size(); ++i) map.given[i] = {dims[i], r.shape[dims[i]]};
  return map;
}

DimensionMap permuted(const Resolving& r) {
  const int rank = r.shape.size();
  if (r.view.numbers.size() != static_cast<std::size_t>(rank)) {
    fail(invalid_argument, "'{}' orders {} dimensions, but the value has {}: its shape is {}", r.text(),
         r.view.numbers.size(), rank, to_string(r.shape));
  }
  std::vector<int> dims;
  for (const std::int64_t dim : r.view.numbers) {
    const int d = r.dimension(dim);
    if (std::ranges::find(dims, d) != dims.end())
      fail(invalid_argument, "'{}' names dimension {} of {} twice", r.text(), d, rank);
    dims.push_back(d);
  }
  return permuted(r, dims);
}

DimensionMap transposed(const Resolving& r) {
  std::vector<int> dims;
  for (int d = 0; d < r.shape.size(); ++d) dims.push_back(d);
  if (dims.empty()) dims.push_back(0);  // PyTorch lets one exchange the dimensions 0 and 0 of what has none
  const auto last = static_cast<int>(dims.size());
  std::swap(dims[static_cast<std::size_t>(r.dimension(r.view.numbers[0], last))],
            dims[static_cast<std::size_t>(r.dimension(r.view.numbers[1], last))]);
  return r.shape.empty() ? DimensionMap::whole(r.shape) : permuted(r, dims);
}

DimensionMap squeezed(const Resolving& r) {
  const int d = r.dimension(r.view.numbers[0]);
  if (r.shape[d] != 1) {
    fail(invalid_argument, "'{}' takes a dimension of one element away, but dimension {} has {}: the shape is {}",
         r.text(), d, r.shape[d], to_string(r.shape));
  }
  DimensionMap map = DimensionMap::whole(r.shape);
  map.given.erase(map.given.begin() + d);
  return map;
}

DimensionMap expanded(const Resolving& r) {
  const int added = static_cast<int>(r.view.numbers.size()) - r.shape.size();
  const auto refuse = [&] {
    fail(invalid_argument, "'{}' gives the shape ({}), to which {} does not broadcast", r.text(),
         fmt::join(r.view.numbers, ", "), to_string(r.shape));
  };
  if (added < 0) refuse();
  DimensionMap map = DimensionMap::whole(r.shape);
  map.given.clear();
  for (int i = 0; i < static_cast<int>(r.view.numbers.size()); ++i) {
    const std::int64_t size = r.view.numbers[static_cast<std::size_t>(i)];
    const int own = i - added;
    if (own < 0 && size < 0) refuse();
    if (own >= 0 && (size == -1 || size == r.shape[own])) {
      map.given.push_back({own, r.shape[own]});
      continue;
    }
    if (own >= 0 && r.shape[own] != 1) refuse();
    map.given.push_back({Given::kRepeated, size});
  }
  return map;
}

Dims reshaped(const Resolving& r) {
  const std::int64_t elements = element_count(r.shape);
  std::int64_t product = 1;
  bool fits = true;
  for (const std::int64_t size : r.view.numbers) {
    if (size != -1) fits = fits && !__builtin_mul_overflow(product, size, &product);
  }
  const bool finds_one = std::ranges::find(r.view.numbers, -1) != r.view.numbers.end();
  fits = fits && (finds_one ? product != 0 && elements % product == 0 : product == elements);
  if (!fits) {
    fail(invalid_argument, "'{}': the shape {} has {} elements, which do not fill these sizes", r.text(),
         to_string(r.shape), elements);
  }
  Dims shape;
  for (const std::int64_t size : r.view.numbers) shape.push_back(size == -1 ? elements / product : size);
  return shape;
}

}  // namespace

Taken Taken::within(std::int64_t from, std::int64_t end) const noexcept {
  Taken taken = *this;
  taken.low = std::max(low, from);
  taken.high = std::min(high, end);
  const std::int64_t last = start + (count - 1) * step;
  const bool all_exist = std::min(start, last) >= taken.low && std::max(start, last) < taken.high;
  if (count == 0 || all_exist) {
    taken.low = kOpenLow;
    taken.high = kOpenHigh;
  }
  return taken;
}

Taken Taken::unrolled() const noexcept {
  Taken taken = *this;
  const std::int64_t last = start + (count - 1) * step;
  const std::int64_t least = std::max(std::min(start, last), low);
  const std::int64_t most = std::min(std::max(start, last), high == kOpenHigh ? high : high - 1);
  if (period == 0 || count == 0 || least > most) {
    taken.period = 0;
    return taken;
  }
  const std::int64_t first = step > 0 ? least : most;
  const std::int64_t rest = first % period;
  const std::int64_t turns = first - (rest < 0 ? rest + period : rest);
  taken.start -= turns;
  if (low != kOpenLow) taken.low -= turns;
  if (high != kOpenHigh) taken.high -= turns;
  if (least - turns >= 0 && most - turns < period) taken.period = 0;
  return taken;
}

DimensionMap DimensionMap::whole(const Dims& shape) {
  DimensionMap map;
  for (int d = 0; d < shape.size(); ++d) {
    map.taken.push_back({0, 1, shape[d]});
    map.given.push_back({d, shape[d]});
  }
  return map;
}

ViewStep resolve(const ir::Program& program, const ir::Node& node, const Dims& shape) {
  const ir::View& view = program.view(node);
  const Resolving r{program, node, view, shape};
  if (ir::rank_of(view, shape.size()) > kMaxRank) {
    fail(invalid_argument, "'{}' would have {} dimensions; at most {} are supported", r.text(),
         ir::rank_of(view, shape.size()), kMaxRank);
  }
  switch (view.kind) {
    case ir::View::Kind::index:
      return indexed(r);
    case ir::View::Kind::narrow:
      return narrowed(r);
    case ir::View::Kind::squeeze:
      return squeezed(r);
    case ir::View::Kind::permute:
      return permuted(r);
    case ir::View::Kind::transpose:
      return transposed(r);
    case ir::View::Kind::expand:
      return expanded(r);
    case ir::View::Kind::chunk:
    case ir::View::Kind::split:
      return divided(r);
    case ir::View::Kind::window:
      return windowed(r);
    case ir::View::Kind::pad:
      return padded(r);
    case ir::View::Kind::roll:
      return rolled(r);
    case ir::View::Kind::unfold:
      return unfolded(r);
    case ir::View::Kind::reshape:
      break;
  }
  return reshaped(r);
}

Dims shape_of(const ViewStep& step) {
  if (const auto* shape = std::get_if<Dims>(&step)) return *shape;
  if (const auto* indexed = std::get_if<Indexed>(&step)) return indexed->shape;
  if (const auto* repeated = std::get_if<Repeated>(&step)) return repeated->shape;
  if (const auto* unfolded = std::get_if<Unfolded>(&step)) return unfolded->shape;
  Dims shape;
  for (const Given& given : std::get<DimensionMap>(step).given) shape.push_back(given.extent);
  return shape;
}

base::InlineVector<TensorView, 8> Lowered::views(std::span<const TensorView> inputs) const {
  base::InlineVector<TensorView, 8> views;
  for (const Operand& operand : operands) {
    const TensorView& input = inputs[operand.input];
    // Integers: where there is no memory, the address says how the elements would be aligned. A mask has none, whatever
    // memory there is.
    constexpr std::uintptr_t kOfMasks = 256;
    const auto address =
        operand.is_mask ? kOfMasks
                        : reinterpret_cast<std::uintptr_t>(input.data) + static_cast<std::uintptr_t>(operand.offset);
    TensorView view(reinterpret_cast<const void*>(address), operand.is_mask ? DType::boolean : input.dtype,
                    operand.shape, operand.strides);
    for (const Operand::Within& within : operand.within) {
      if (operand.is_mask) continue;
      view.shape[within.dimension] = within.is_of_windows() ? 1 : within.count;
      if (!within.is_of_windows()) continue;
      view.shape[within.inner] = within.count;
      view.strides[within.inner] /= within.inner_step;
    }
    for (const Operand::Wrap& wrap : operand.wraps) view.shape[wrap.dimension] = wrap.extent;
    views.push_back(view);
  }
  return views;
}

namespace {

void check_destination(const std::string& result, const OutputView& output, const std::string& operand,
                       const TensorView& destination) {
  if (output.dtype == destination.dtype && same_view(output, destination)) return;
  fail(
      invalid_argument,
      "output '{0}' of 'index_copy' must be the memory of operand '{1}', which it writes into: found the type {2}, the "
      "shape {3} and the strides {4}{5}. Pass the tensor '{1}' as the output, too",
      result, operand, to_string(output.dtype), to_string(output.shape), to_string(output.strides),
      output.data == destination.data ? "" : " at another address");
}

void check_result(const Lowered::Result& result, const OutputView& output) {
  if (output.shape == result.shape && output.strides.size() == output.shape.size()) return;
  fail(invalid_argument, "output '{}' has shape {}; with these operands the chain's result has shape {}",
       result.text.substr(0, result.text.find('[')), to_string(output.shape), to_string(result.shape));
}

OutputView slice_of(const OutputView& output, const std::vector<Taken>& all) {
  OutputView slice = output;
  std::int64_t offset = 0;
  for (int d = 0; d < output.shape.size(); ++d) {
    const Taken& taken = all[static_cast<std::size_t>(d)];
    offset += taken.start * output.strides[d];
    slice.shape[d] = taken.count;
    slice.strides[d] = taken.count > 1 ? output.strides[d] * taken.step : 0;
  }
  const auto address =
      reinterpret_cast<std::uintptr_t>(output.data) + static_cast<std::uintptr_t>(size_of(output.dtype, offset));
  slice.data = output.data == nullptr && offset == 0 ? nullptr : reinterpret_cast<const void*>(address);
  return slice;
}

}  // namespace

base::InlineVector<OutputView, 4> Lowered::outputs(std::span<const OutputView> outputs,
                                                   std::span<const TensorView> inputs) const {
  base::InlineVector<OutputView, 4> views;
  for (const Result& result : results) {
    // Too few: bind() says so.
    if (result.output >= outputs.size()) break;
    const OutputView& output = outputs[result.output];
    if (result.placed && result.placed->destination) {
      const std::size_t destination = *result.placed->destination;
      check_destination(result.text.substr(0, result.text.find('[')), output, result.placed->operand,
                        inputs[destination]);
    }
    const bool is_tiled = result.placed && !result.placed->destination;
    if (is_tiled || !result.taken.empty()) check_result(result, output);
    if (is_tiled && is_packed(output.dtype)) {
      fail(unsupported,
           "output '{}' of 'scale_tiles' holds two elements in a byte, of the type {}: scales have a byte or more",
           result.text, to_string(output.dtype));
    }
    views.push_back(result.taken.empty() ? output : slice_of(output, result.taken));
  }
  // Too many: bind() says so, too.
  const std::size_t known = results.empty() ? outputs.size() : results.back().output + 1;
  for (std::size_t i = known; i < outputs.size(); ++i) views.push_back(outputs[i]);
  return views;
}

}  // namespace epifuse::plan
