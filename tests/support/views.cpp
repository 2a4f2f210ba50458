// A chain is drawn and computed at once, one operation after the other.
#include "support/views.hpp"
#include "support/as_written.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <optional>

#include <epifuse/error.hpp>

#include "support/storage.hpp"

namespace epifuse::test {
namespace {

using Place = std::vector<std::int64_t>;

std::int64_t elements_of(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::optional<Dims> broadcast(const Dims& a, const Dims& b) {
  Dims out;
  const int rank = std::max(a.size(), b.size());
  for (int d = 0; d < rank; ++d) {
    const std::int64_t x = d < rank - a.size() ? 1 : a[d - (rank - a.size())];
    const std::int64_t y = d < rank - b.size() ? 1 : b[d - (rank - b.size())];
    if (x != y && x != 1 && y != 1) return std::nullopt;
    out.push_back(x == 1 ? y : x);
  }
  return out;
}

// Visits all places of a shape in row-major order.
void each_place(const Dims& shape, const std::function<void(const Place&)>& visit) {
  Place at(static_cast<std::size_t>(shape.size()), 0);
  for (std::int64_t left = elements_of(shape); left > 0; --left) {
    visit(at);
    for (std::size_t d = at.size(); d-- > 0 && ++at[d] == shape[static_cast<int>(d)];) at[d] = 0;
  }
}

double at(const IntegerArray& array, const Place& place) {
  std::int64_t index = 0;
  for (int d = 0; d < array.shape.size(); ++d) index = index * array.shape[d] + place[static_cast<std::size_t>(d)];
  return array.values[static_cast<std::size_t>(index)];
}

IntegerArray gathered(const IntegerArray& from, const Dims& shape, const std::function<Place(const Place&)>& source) {
  IntegerArray out{shape, {}};
  each_place(shape, [&](const Place& place) { out.values.push_back(at(from, source(place))); });
  return out;
}

// The positions that `start:stop:step` takes of n, as Python counts them.
Place positions(std::int64_t n, const std::int64_t* start, const std::int64_t* stop, std::int64_t step) {
  const auto bounded = [&](std::int64_t value) {
    if (value < 0) value += n;
    if (value < 0) return step < 0 ? std::int64_t{-1} : std::int64_t{0};
    return value >= n ? (step < 0 ? n - 1 : n) : value;
  };
  std::int64_t i = start != nullptr ? bounded(*start) : step < 0 ? n - 1 : 0;
  const std::int64_t end = stop != nullptr ? bounded(*stop) : step < 0 ? -1 : n;
  Place all;
  for (; step < 0 ? i > end : i < end; i += step) all.push_back(i);
  return all;
}

struct Drawn {
  std::string text;
  IntegerArray array;
};

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : random_(seed) {}

  ViewCase run() {
    Drawn value = operand(draw_shape());
    for (int steps = random_.between(2, 6); steps > 0; --steps) {
      value = random_.percent(55) ? viewed(value) : computed(value);
      for (double& v : value.array.values) largest_ = std::max(largest_, std::abs(v));
    }
    test_.text = value.text;
    test_.expected = value.array;
    return std::move(test_);
  }
  // Within what f32 holds, so that all is exact.
  bool is_exact() const { return largest_ < 0x1p22; }

 private:
  Dims draw_shape() {
    Dims shape;
    for (int rank = random_.pick({0, 1, 2, 2, 2, 3, 3, 4}); rank > 0; --rank) shape.push_back(random_.between(1, 6));
    return shape;
  }

  Drawn operand(const Dims& shape) {
    const std::string name = "x" + std::to_string(test_.inputs.size());
    IntegerArray array{shape, {}};
    for (std::int64_t i = elements_of(shape); i > 0; --i) array.values.push_back(random_.between(-9, 9));
    test_.inputs.push_back(array);
    test_.layouts.push_back(random_.percent(60) ? 0 : random_.between(1, 3));
    return {name, array};
  }

  // ---- operations

  Drawn computed(const Drawn& value) {
    const int kind = random_.below(100);
    if (kind < 25 && value.array.shape.size() > 0) return reduced(value);
    if (kind < 35) return {"(-" + value.text + ")", mapped(value.array, [](double v) { return -v; })};
    if (kind < 45) return {"(" + value.text + " * 2)", mapped(value.array, [](double v) { return v * 2; })};
    // With another operand, a view of the value, or what it was made of.
    Drawn other = kind < 75 ? operand(partner(value.array.shape)) : viewed(value);
    if (!broadcast(value.array.shape, other.array.shape)) other = operand(partner(value.array.shape));
    const Dims shape = *broadcast(value.array.shape, other.array.shape);
    const int operation = random_.below(3);
    IntegerArray out{shape, {}};
    each_place(shape, [&](const Place& place) {
      const double a = at(value.array, own(place, value.array.shape));
      const double b = at(other.array, own(place, other.array.shape));
      out.values.push_back(operation == 0 ? a + b : operation == 1 ? a - b : std::max(a, b));
    });
    if (operation == 2) return {"maximum(" + value.text + ", " + other.text + ")", out};
    return {"(" + value.text + (operation == 0 ? " + " : " - ") + other.text + ")", out};
  }

  static IntegerArray mapped(IntegerArray array, double (*function)(double)) {
    for (double& value : array.values) value = function(value);
    return array;
  }

  // Where a smaller shape keeps what stands at `place` of the one that it broadcasts to.
  static Place own(const Place& place, const Dims& shape) {
    Place out(place.end() - shape.size(), place.end());
    for (int d = 0; d < shape.size(); ++d) {
      if (shape[d] == 1) out[static_cast<std::size_t>(d)] = 0;
    }
    return out;
  }

  // What broadcasts with it: some dimensions fewer, some of one element.
  Dims partner(const Dims& shape) {
    Dims out;
    for (int d = random_.percent(30) && shape.size() > 0 ? random_.below(shape.size() + 1) : 0; d < shape.size(); ++d)
      out.push_back(random_.percent(20) ? 1 : shape[d]);
    return out;
  }

  Drawn reduced(const Drawn& value) {
    const Dims& shape = value.array.shape;
    const int axis = random_.below(shape.size());
    const bool largest = random_.percent(40) && elements_of(shape) > 0;
    const bool keepdim = random_.percent(60);
    Dims kept = shape;
    kept[axis] = 1;
    IntegerArray out{kept, {}};
    each_place(kept, [&](const Place& place) {
      double result = largest ? -1e9 : 0;
      for (std::int64_t i = 0; i < shape[axis]; ++i) {
        Place from = place;
        from[static_cast<std::size_t>(axis)] = i;
        result = largest ? std::max(result, at(value.array, from)) : result + at(value.array, from);
      }
      out.values.push_back(result);
    });
    if (!keepdim) {
      out.shape = {};
      for (int d = 0; d < shape.size(); ++d) {
        if (d != axis) out.shape.push_back(shape[d]);
      }
    }
    return {std::string(largest ? "amax(" : "sum(") + value.text + ", " +
                std::to_string(random_.percent(50) ? axis : axis - shape.size()) + (keepdim ? ", keepdim=true)" : ")"),
            out};
  }

  // ---- views

  Drawn viewed(const Drawn& value) {
    const std::string& kind =
        view_kinds()[static_cast<std::size_t>(random_.below(static_cast<int>(view_kinds().size())))];
    const int rank = value.array.shape.size();
    if (rank == 0 && kind != "index" && kind != "unsqueeze" && kind != "expand" && kind != "reshape")
      return viewed(value);
    test_.used.insert(kind);
    if (kind == "index") return indexed(value);
    if (kind == "flip") return flipped(value);
    if (kind == "permute" || kind == "transpose") return ordered(value, kind);
    if (kind == "unsqueeze" || kind == "squeeze") return stretched(value, kind);
    if (kind == "expand") return expanded(value);
    if (kind == "reshape") return reshaped(value);
    return cut(value, kind);
  }

  // What each dimension of the result takes, and of which dimension; -1: of a new one.
  struct Taken {
    int from;
    Place at;
  };
  static IntegerArray taken(const IntegerArray& array, const std::vector<Taken>& dims, const Place& fixed) {
    Dims shape;
    for (const Taken& dim : dims) shape.push_back(static_cast<std::int64_t>(dim.at.size()));
    return gathered(array, shape, [&](const Place& place) {
      Place source = fixed;
      for (std::size_t d = 0; d < dims.size(); ++d) {
        if (dims[d].from >= 0)
          source[static_cast<std::size_t>(dims[d].from)] = dims[d].at[static_cast<std::size_t>(place[d])];
      }
      return source;
    });
  }
  static std::vector<Taken> all_of(const Dims& shape) {
    std::vector<Taken> dims;
    for (int d = 0; d < shape.size(); ++d) dims.push_back({d, positions(shape[d], nullptr, nullptr, 1)});
    return dims;
  }
  static Place zeros(const Dims& shape) { return Place(static_cast<std::size_t>(shape.size()), 0); }
  // Counted from the front or from the back.
  std::string dimension(int d, int rank) { return std::to_string(random_.percent(50) ? d : d - rank); }

  Drawn indexed(const Drawn& value) {
    const Dims& shape = value.array.shape;
    const int rank = shape.size();
    std::vector<Taken> dims;
    Place fixed = zeros(shape);
    std::string text;
    int ellipsis = random_.percent(30) ? random_.below(rank + 1) : -1;  // the dimension before which it stands
    const int left_out = ellipsis >= 0         ? random_.below(rank - ellipsis + 1)
                         : random_.percent(30) ? random_.below(rank + 1)
                                               : 0;
    const int end = ellipsis >= 0 ? rank : rank - left_out;
    const auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
    for (int d = 0; d < end; ++d) {
      if (dims.size() < 6 && random_.percent(10)) {
        add("None");
        dims.push_back({-1, {0}});
      }
      if (d == ellipsis) {
        add("...");
        for (int k = 0; k < left_out; ++k, ++d) dims.push_back({d, positions(shape[d], nullptr, nullptr, 1)});
        ellipsis = -1;
        if (d == end) break;
      }
      item(d, shape[d], dims, fixed, add);
    }
    if (ellipsis == rank) add("...");
    for (int d = end; d < rank; ++d) dims.push_back({d, positions(shape[d], nullptr, nullptr, 1)});
    if (text.empty()) add("...");
    return {value.text + "[" + text + "]", taken(value.array, dims, fixed)};
  }

  template <class Add>
  void item(int d, std::int64_t n, std::vector<Taken>& dims, Place& fixed, const Add& add) {
    if (n > 0 && random_.percent(15)) {
      const std::int64_t place = random_.below(static_cast<int>(n));
      fixed[static_cast<std::size_t>(d)] = place;
      return add(std::to_string(random_.percent(50) ? place : place - n));
    }
    const std::int64_t start = random_.between(static_cast<int>(-n) - 2, static_cast<int>(n) + 1);
    const std::int64_t stop = random_.between(static_cast<int>(-n) - 2, static_cast<int>(n) + 1);
    const bool has_start = random_.percent(30);
    const bool has_stop = random_.percent(30);
    const std::int64_t step = random_.pick({1, 1, 1, 2, -1, -2, 3});
    dims.push_back({d, positions(n, has_start ? &start : nullptr, has_stop ? &stop : nullptr, step)});
    add((has_start ? std::to_string(start) : "") + ":" + (has_stop ? std::to_string(stop) : "") +
        (step != 1 ? ":" + std::to_string(step) : ""));
  }

  Drawn cut(const Drawn& value, const std::string& kind) {
    const Dims& shape = value.array.shape;
    const int rank = shape.size();
    const int d = random_.below(rank);
    const std::int64_t n = shape[d];
    std::vector<Taken> dims = all_of(shape);
    Place fixed = zeros(shape);
    const std::string where = dimension(d, rank);
    if (kind == "select") {
      if (n == 0) return indexed(value);
      fixed[static_cast<std::size_t>(d)] = random_.below(static_cast<int>(n));
      dims.erase(dims.begin() + d);
      return {"select(" + value.text + ", " + where + ", " + std::to_string(fixed[static_cast<std::size_t>(d)]) + ")",
              taken(value.array, dims, fixed)};
    }
    std::int64_t start = random_.below(static_cast<int>(n) + 1);
    std::int64_t length = random_.below(static_cast<int>(n - start) + 1);
    std::string text =
        "narrow(" + value.text + ", " + where + ", " + std::to_string(start) + ", " + std::to_string(length) + ")";
    if (kind != "narrow") {
      const std::int64_t number = random_.between(1, 4);
      const std::int64_t size = kind == "split" ? number : (n + number - 1) / number;
      const std::int64_t pieces = size == 0 ? 1 : std::max<std::int64_t>((n + size - 1) / size, 1);
      const std::int64_t index = random_.below(static_cast<int>(pieces));
      start = std::min(index * size, n);
      length = std::min(size, n - start);
      text =
          kind + "(" + value.text + ", " + std::to_string(number) + ", " + where + ")[" + std::to_string(index) + "]";
    }
    const std::int64_t stop = start + length;
    dims[static_cast<std::size_t>(d)].at = positions(n, &start, &stop, 1);
    return {text, taken(value.array, dims, fixed)};
  }

  Drawn flipped(const Drawn& value) {
    const Dims& shape = value.array.shape;
    std::vector<Taken> dims = all_of(shape);
    std::string list;
    for (int d = 0; d < shape.size(); ++d) {
      if (!random_.percent(50)) continue;
      std::ranges::reverse(dims[static_cast<std::size_t>(d)].at);
      list += std::to_string(d) + ", ";
    }
    return {"flip(" + value.text + ", (" + list + "))", taken(value.array, dims, zeros(shape))};
  }

  Drawn ordered(const Drawn& value, const std::string& kind) {
    const Dims& shape = value.array.shape;
    const int rank = shape.size();
    std::vector<Taken> dims = all_of(shape);
    if (kind == "transpose") {
      const int a = random_.below(rank);
      const int b = random_.below(rank);
      std::swap(dims[static_cast<std::size_t>(a)], dims[static_cast<std::size_t>(b)]);
      return {"transpose(" + value.text + ", " + dimension(a, rank) + ", " + dimension(b, rank) + ")",
              taken(value.array, dims, zeros(shape))};
    }
    std::string list;
    for (int d = 0; d < rank; ++d) {
      std::swap(dims[static_cast<std::size_t>(d)], dims[static_cast<std::size_t>(random_.between(d, rank - 1))]);
      list += dimension(dims[static_cast<std::size_t>(d)].from, rank) + ", ";
    }
    return {"permute(" + value.text + ", (" + list + "))", taken(value.array, dims, zeros(shape))};
  }

  Drawn stretched(const Drawn& value, const std::string& kind) {
    const Dims& shape = value.array.shape;
    const int rank = shape.size();
    std::vector<Taken> dims = all_of(shape);
    const bool adds = kind == "unsqueeze" || std::ranges::find(shape, 1) == shape.end();
    if (adds && rank < 6) {
      const int d = random_.below(rank + 1);
      dims.insert(dims.begin() + d, {-1, {0}});
      return {"unsqueeze(" + value.text + ", " + dimension(d, rank + 1) + ")", taken(value.array, dims, zeros(shape))};
    }
    const auto one = std::ranges::find(shape, 1);
    if (one == shape.end()) return flipped(value);
    const auto d = static_cast<int>(one - shape.begin());
    dims.erase(dims.begin() + d);
    return {"squeeze(" + value.text + ", " + dimension(d, rank) + ")", taken(value.array, dims, zeros(shape))};
  }

  Drawn expanded(const Drawn& value) {
    const Dims& shape = value.array.shape;
    std::vector<Taken> dims = all_of(shape);
    std::string list;
    for (int d = 0; d < shape.size(); ++d) {
      const bool repeats = shape[d] == 1 && random_.percent(60);
      const std::int64_t size = repeats ? random_.between(1, 4) : shape[d];
      dims[static_cast<std::size_t>(d)].at.resize(static_cast<std::size_t>(size), 0);
      list += std::to_string(random_.percent(30) && !repeats ? -1 : size) + ", ";
    }
    if (shape.size() < 5 && random_.percent(40)) {
      const std::int64_t size = random_.between(1, 3);
      dims.insert(dims.begin(), {-1, Place(static_cast<std::size_t>(size), 0)});
      list = std::to_string(size) + ", " + list;
    }
    return {"expand(" + value.text + ", (" + list + "))", taken(value.array, dims, zeros(shape))};
  }

  Drawn reshaped(const Drawn& value) {
    std::int64_t left = elements_of(value.array.shape);
    IntegerArray out{{}, value.array.values};
    std::string list;
    if (left == 0) return {"reshape(" + value.text + ", (2, 0, 3))", {{2, 0, 3}, {}}};
    while (out.shape.size() < 4 && (left > 1 || random_.percent(20))) {
      std::vector<std::int64_t> divisors;
      for (std::int64_t i = 1; i <= left; ++i) {
        if (left % i == 0) divisors.push_back(i);
      }
      const std::int64_t size =
          out.shape.size() == 3 ? left
                                : divisors[static_cast<std::size_t>(random_.below(static_cast<int>(divisors.size())))];
      out.shape.push_back(size);
      left /= size;
    }
    if (left != 1) out.shape.push_back(left);
    bool open = elements_of(out.shape) > 0 && random_.percent(30);
    for (const std::int64_t size : out.shape) {
      list += std::to_string(open && random_.percent(50) ? (open = false, -1) : size) + ", ";
    }
    return {"reshape(" + value.text + ", (" + list + "))", out};
  }

  Random random_;
  ViewCase test_;
  double largest_ = 0;
};

// An array in memory of its own, gaps included.
TensorView placed(const IntegerArray& array, int layout, std::vector<float>& memory) {
  const Dims& shape = array.shape;
  Dims strides = row_major(shape);
  std::int64_t size = elements_of(shape);
  if (layout == 1 || layout == 3) {
    size = 1;
    for (int i = 0; i < shape.size(); ++i) {
      const int d = layout == 1 ? shape.size() - 1 - i : i;
      strides[d] = size;
      size *= shape[d] + (layout == 1 && i == 0 ? 3 : 0);
    }
  }
  std::int64_t first = 0;
  if (layout == 2) {
    for (int d = 0; d < shape.size(); ++d) {
      first += std::max<std::int64_t>(shape[d] - 1, 0) * strides[d];
      strides[d] = -strides[d];
    }
  }
  memory.assign(static_cast<std::size_t>(size) + 1, 12345.0F);
  std::size_t next = 0;
  each_place(shape, [&](const Place& place) {
    std::int64_t offset = first;
    for (int d = 0; d < shape.size(); ++d) offset += place[static_cast<std::size_t>(d)] * strides[d];
    memory[static_cast<std::size_t>(offset)] = static_cast<float>(array.values[next++]);
  });
  return {memory.data() + first, DType::f32, shape, strides};
}

}  // namespace

const std::vector<std::string>& view_kinds() {
  static const std::vector<std::string> kinds = {"index",   "narrow",    "select",    "chunk",   "split",  "flip",
                                                 "permute", "transpose", "unsqueeze", "squeeze", "expand", "reshape"};
  return kinds;
}

ViewCase draw_view_case(std::uint64_t seed) {
  while (true) {
    Drawing drawing(seed);
    ViewCase test = drawing.run();
    if (drawing.is_exact() && elements_of(test.expected.shape) < 20'000 && test.expected.shape.size() <= 6) return test;
    ++seed;
  }
}

namespace {

constexpr std::byte kUntouched{0x5B};

}  // namespace

PlacedViewCase::PlacedViewCase(const ViewCase& test) : test_(test), tail_(as_written(test.text)) {
  memory_.resize(tail_.inputs().size());
  stored_.resize(memory_.size());
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const auto ordinal = static_cast<std::size_t>(std::atoi(tail_.inputs()[i].c_str() + 1));
    inputs_.push_back(placed(test.inputs[ordinal], test.layouts[ordinal], memory_[i]));
    if (!test.types.empty() && test.types[ordinal] != DType::f32) store_as(i, test.types[ordinal]);
  }
  result_.assign((test.expected.values.size() + 1) * size_of(test.result), kUntouched);
  output_ = OutputView(result_.data(), test.result, tail_.result_shapes(inputs_)[0]);
}

void PlacedViewCase::store_as(std::size_t input, DType type) {
  const std::vector<float>& memory = memory_[input];
  std::vector<std::byte>& stored = stored_[input];
  stored.resize(memory.size() * size_of(type));
  for (std::size_t i = 0; i < memory.size(); ++i)
    encode(type, static_cast<double>(memory[i]), stored.data() + i * size_of(type));
  TensorView& view = inputs_[input];
  const std::ptrdiff_t first = static_cast<const float*>(view.data) - memory.data();
  view.data = stored.data() + first * static_cast<std::ptrdiff_t>(size_of(type));
  view.dtype = type;
}

std::string PlacedViewCase::judge() const {
  const auto& [shape, expected] = test_.expected;
  if (output_.shape != shape) return "has the shape " + to_string(output_.shape) + ", expected " + to_string(shape);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double allowed = test_.tolerance * std::max(1.0, std::abs(expected[i]));
    const auto found = static_cast<double>(decode(test_.result, result_.data() + i * size_of(test_.result)));
    // A window of a maximum that has no element gives -inf, as PyTorch does.
    if (found == expected[i] || (std::isnan(found) && std::isnan(expected[i]))) continue;
    if (!(std::abs(found - expected[i]) <= allowed))
      return "element " + std::to_string(i) + " is " + std::to_string(found) + ", expected " +
             std::to_string(expected[i]);
  }
  return result_.back() == kUntouched ? "" : "writes behind its end";
}

std::string judge_on(Engine& engine, const ViewCase& test) {
  const PlacedViewCase placed(test);
  if (placed.outputs()[0].shape == test.expected.shape)
    engine.launch(placed.tail(), nullptr, placed.outputs(), placed.inputs());
  return placed.judge();
}

}  // namespace epifuse::test
