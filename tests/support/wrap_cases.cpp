#include "support/wrap_cases.hpp"
#include "support/as_written.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "support/places.hpp"
#include "support/random.hpp"

namespace epifuse::test {
namespace {

constexpr std::int64_t kZero = -1;  // of elements that a pad adds

// Elements of x by their places, as each view leaves them.
struct Seen {
  Place shape;
  std::vector<std::int64_t> sources;

  std::int64_t at(const Place& place) const {
    std::size_t i = 0;
    for (std::size_t d = 0; d < shape.size(); ++d)
      i = i * static_cast<std::size_t>(shape[d]) + static_cast<std::size_t>(place[d]);
    return sources[i];
  }
  void become(const Place& next, const std::function<std::int64_t(Place)>& source) {
    std::vector<std::int64_t> all;
    each_place(next, [&](const Place& place) { all.push_back(source(place)); });
    shape = next;
    sources = std::move(all);
  }
};

std::int64_t modulo(std::int64_t number, std::int64_t by) { return (number % by + by) % by; }

class Views {
 public:
  Views(Random& random, Seen& seen) : random_(random), seen_(seen) {}

  std::string applied(std::string text) {
    switch (random_.below(7)) {
      case 0:
        return padded(text);
      case 1:
        return cut(text);
      case 2:
        return reordered(text);
      default:
        return rolled(text);
    }
  }

 private:
  int rank() const { return static_cast<int>(seen_.shape.size()); }

  std::string rolled(const std::string& text) {
    Place dims;
    Place shifts;
    for (int d = 0; d < rank(); ++d) {
      if (random_.percent(50)) continue;
      dims.push_back(random_.percent(50) ? d : d - rank());
      const int extent = static_cast<int>(seen_.shape[static_cast<std::size_t>(d)]);
      shifts.push_back(random_.pick({random_.between(-3, 3), 8, 2 * extent + 1, random_.between(-extent, extent)}));
    }
    if (dims.empty()) return text;
    const Seen before = seen_;
    seen_.become(before.shape, [&](Place at) {
      for (std::size_t i = 0; i < dims.size(); ++i) {
        const auto d = static_cast<std::size_t>(modulo(dims[i], rank()));
        at[d] = modulo(at[d] - shifts[i], before.shape[d]);
      }
      return before.at(at);
    });
    return "roll(" + text + ", " + list(shifts) + ", " + list(dims) + ")";
  }

  std::string padded(const std::string& text) {
    const auto sized = static_cast<std::size_t>(random_.between(1, rank()));
    Place sizes;
    Place shape = seen_.shape;
    Place first(shape.size(), 0);
    for (std::size_t k = 0; k < sized; ++k) {
      const std::size_t d = shape.size() - 1 - k;
      sizes.push_back(random_.between(-1, 9));
      sizes.push_back(random_.between(0, 3));
      first[d] = sizes[2 * k];
      shape[d] += sizes[2 * k] + sizes[2 * k + 1];
    }
    const Seen before = seen_;
    seen_.become(shape, [&](Place at) {
      for (std::size_t d = 0; d < at.size(); ++d) {
        at[d] -= first[d];
        if (at[d] < 0 || at[d] >= before.shape[d]) return kZero;
      }
      return before.at(at);
    });
    return "pad(" + text + ", " + list(sizes) + ")";
  }

  std::string cut(const std::string& text) {
    const auto d = static_cast<std::size_t>(random_.below(rank()));
    const std::int64_t extent = seen_.shape[d];
    const std::int64_t step = random_.pick({1, 1, -1, 2});
    const std::int64_t start = random_.below(static_cast<int>(extent));
    Place shape = seen_.shape;
    shape[d] = step > 0 ? (extent - start - 1) / step + 1 : start + 1;
    const Seen before = seen_;
    seen_.become(shape, [&](Place at) {
      at[d] = start + step * at[d];
      return before.at(at);
    });
    std::string items;
    for (std::size_t k = 0; k < d; ++k) items += ":, ";
    return "(" + text + ")[" + items + std::to_string(start) + "::" + std::to_string(step) + "]";
  }

  std::string reordered(const std::string& text) {
    const auto a = static_cast<std::size_t>(random_.below(rank()));
    const auto b = static_cast<std::size_t>(random_.below(rank()));
    Place shape = seen_.shape;
    std::swap(shape[a], shape[b]);
    const Seen before = seen_;
    seen_.become(shape, [&](Place at) {
      std::swap(at[a], at[b]);
      return before.at(at);
    });
    return "transpose(" + text + ", " + std::to_string(a) + ", " + std::to_string(b) + ")";
  }

  Random& random_;
  Seen& seen_;
};

// A number that is exact in every type, and no NaN.
void put(DType type, std::int64_t i, unsigned char* at) {
  if (type == DType::f32) {
    const auto number = static_cast<float>(i + 1);
    std::memcpy(at, &number, sizeof(number));
  } else if (type == DType::f16) {
    const auto bits = static_cast<std::uint16_t>(0x3c00 + i % 0x3000);
    std::memcpy(at, &bits, sizeof(bits));
  } else if (type == DType::i32) {
    const auto number = static_cast<std::int32_t>(i + 1);
    std::memcpy(at, &number, sizeof(number));
  } else {
    *at = static_cast<unsigned char>(i % 255 + 1);
  }
}

}  // namespace

WrapCase::WrapCase(std::uint64_t seed) {
  Random random(seed);
  type_ = random.pick({DType::f16, DType::f16, DType::f32, DType::u8, DType::i32});
  bytes_ = size_of(type_);
  Place shape;
  for (int rank = random.between(1, 4); rank > 0; --rank)
    shape.push_back(rank > 1 ? random.between(1, 5) : random.pick({random.between(1, 40), 8, 16, 32, 24}));
  if (random.percent(2)) shape[0] = 0;
  // Dense in some order of dimensions: the last dimension, or another, is the innermost in memory.
  std::vector<std::size_t> order(shape.size());
  for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
  if (random.percent(30))
    std::swap(order.back(), order[static_cast<std::size_t>(random.below(static_cast<int>(order.size())))]);
  std::vector<std::int64_t> strides(shape.size(), 0);
  std::int64_t step = 1;
  for (std::size_t k = order.size(); k-- > 0;) {
    strides[order[k]] = step;
    step *= std::max<std::int64_t>(shape[order[k]], 1);
  }
  for (std::size_t d = 0; d < shape.size(); ++d) {
    shape_.push_back(shape[d]);
    strides_.push_back(strides[d]);
  }
  Seen seen{shape, {}};
  each_place(shape, [&](const Place& at) {
    std::int64_t element = 0;
    for (std::size_t d = 0; d < at.size(); ++d) element += at[d] * strides[d];
    seen.sources.push_back(element);
  });
  text_ = "x";
  Views views(random, seen);
  if (count_of(shape) > 0) {
    for (int k = random.between(1, 3); k > 0; --k) text_ = views.applied(text_);
  } else {
    text_ = "roll(x, (" + std::to_string(random.between(-3, 3)) + "), (0))";
  }
  tail_ = as_written(text_);
  begins_ = random.percent(40) ? random.between(0, 7) * static_cast<std::int64_t>(bytes_) : 0;
  const std::int64_t elements = count_of(shape);
  reserved_ = static_cast<std::size_t>(begins_) + static_cast<std::size_t>(elements) * bytes_;
  memory_ = std::make_unique<unsigned char[]>(std::max<std::size_t>(reserved_, 1));
  for (std::int64_t i = 0; i < elements; ++i)
    put(type_, i, memory_.get() + begins_ + i * static_cast<std::int64_t>(bytes_));
  for (const std::int64_t extent : seen.shape) result_.push_back(extent);
  sources_ = std::move(seen.sources);
  written_.assign(std::max<std::size_t>(sources_.size() * bytes_, 1), 0xcd);
}

std::vector<TensorView> WrapCase::inputs() const {
  return {TensorView(memory_.get() + begins_, type_, shape_, strides_)};
}

std::vector<OutputView> WrapCase::outputs() { return {OutputView(written_.data(), type_, result_)}; }

std::string WrapCase::judge() const {
  const unsigned char zeros[8] = {};
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const unsigned char* const expected =
        sources_[i] == kZero ? zeros : memory_.get() + begins_ + sources_[i] * static_cast<std::int64_t>(bytes_);
    if (std::memcmp(written_.data() + i * bytes_, expected, bytes_) != 0)
      return "element " + std::to_string(i) + " of " + to_string(result_) + " is not that of x";
  }
  return {};
}

}  // namespace epifuse::test
