// Convolutions with a chain behind them: random tensors, and the results by the definition, in f64. For tests of the
// CPU device, of emitted text and of a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/random.hpp"
#include "support/storage.hpp"

namespace epifuse::test {

/// A tensor [N, C, H, W] of small multiples of 1/8, whose sums f32 holds exactly, among bytes that are NaN.
struct ImageTensor {
  enum class Layout : std::uint8_t { channels_last, row_major };

  /// `gap`: elements between pixels, channels-last, or between rows.
  ImageTensor(Random& random, DType kind, const Dims& extents, Layout layout, std::int64_t gap)
      : type(kind), shape(extents) {
    if (layout == Layout::channels_last) {
      const std::int64_t pixel = shape[1] + gap;
      strides = {shape[2] * shape[3] * pixel, 1, shape[3] * pixel, pixel};
    } else {
      const std::int64_t row = shape[3] + gap;
      strides = {shape[1] * shape[2] * row, shape[2] * row, row, 1};
    }
    memory.assign(static_cast<std::size_t>(shape[0] * strides[0]) * size_of(type), std::byte{0x7f});
    for_each([&](const Dims& at) { encode(type, random.between(-16, 16) / 8.0, memory.data() + place(at)); });
  }
  std::size_t place(const Dims& at) const {
    std::int64_t offset = 0;
    for (int d = 0; d < 4; ++d) offset += shape[d] == 1 ? 0 : at[d] * strides[d];
    return static_cast<std::size_t>(offset) * size_of(type);
  }
  double value(const Dims& at) const { return static_cast<double>(decode(type, memory.data() + place(at))); }
  /// All elements, the last dimension's beside each other.
  std::vector<double> values() const {
    std::vector<double> all;
    for_each([&](const Dims& at) { all.push_back(value(at)); });
    return all;
  }
  TensorView view() const { return {memory.data(), type, shape, strides}; }
  template <class Action>
  void for_each(const Action& action) const {
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      for (std::int64_t c = 0; c < shape[1]; ++c) {
        for (std::int64_t y = 0; y < shape[2]; ++y) {
          for (std::int64_t x = 0; x < shape[3]; ++x) action(Dims{n, c, y, x});
        }
      }
    }
  }

  DType type;
  Dims shape, strides;
  // Kernels want addresses that are multiples of 16: the allocator gives them.
  std::vector<std::byte> memory;
};

struct ConvolutionExtents {
  std::int64_t images, channels, height, width, filters, filter_height, filter_width;
  std::int64_t stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  ImageTensor::Layout layout = ImageTensor::Layout::channels_last;
  std::int64_t gap = 0;

  std::int64_t result(int along) const {
    const std::int64_t pixels = along == 0 ? height : width;
    const std::int64_t size = along == 0 ? filter_height : filter_width;
    return (pixels + 2 * padding[along] - (size - 1) * dilation[along] - 1) / stride[along] + 1;
  }
  std::string text() const {
    return fmt::format("{} x {} x {} x {}, {} of {} x {}, stride {} {}, padding {} {}, dilation {} {}", images,
                       channels, height, width, filters, filter_height, filter_width, stride[0], stride[1], padding[0],
                       padding[1], dilation[0], dilation[1]);
  }
};

struct ConvolutionTypes {
  DType factor, operand, result;
};

/// Small ones of few images, odd in all that may be: pixels begin at multiples of 16 bytes.
inline ConvolutionExtents drawn_for_tiles(Random& random, const ConvolutionTypes& types) {
  ConvolutionExtents e{};
  const int unit = 16 / static_cast<int>(size_of(types.factor));
  const int unit_of_result = 16 / static_cast<int>(std::min(size_of(types.operand), size_of(types.result)));
  e.images = random.between(1, 5);
  e.channels = unit * random.between(1, 9);
  e.filters = unit_of_result * random.between(1, 160 / unit_of_result);
  e.filter_height = random.between(1, 3);
  e.filter_width = random.between(1, 3);
  for (int d = 0; d < 2; ++d) {
    e.stride[d] = random.between(1, 3);
    e.padding[d] = random.between(0, 2);
    e.dilation[d] = random.between(1, 2);
  }
  const auto pixels = [&](int along, std::int64_t size, int most) {
    const std::int64_t reach = (size - 1) * e.dilation[along] + 1 - 2 * e.padding[along];
    return std::max<std::int64_t>(reach, 1) + random.between(0, most);
  };
  e.height = pixels(0, e.filter_height, 12);
  e.width = pixels(1, e.filter_width, 20);
  e.gap = random.percent(30) ? 16 : 0;
  return e;
}

/// Likewise, but of any channels and strides.
inline ConvolutionExtents drawn_in_any_layout(Random& random) {
  ConvolutionExtents e{};
  e.images = random.between(1, 3);
  e.channels = random.between(1, 7);
  e.filters = random.between(1, 6);
  e.filter_height = random.between(1, 4);
  e.filter_width = random.between(1, 4);
  for (int d = 0; d < 2; ++d) {
    e.stride[d] = random.between(1, 3);
    e.padding[d] = random.between(0, 3);
    e.dilation[d] = random.between(1, 3);
  }
  // At least one window fits.
  const auto pixels = [&](int along, std::int64_t size) {
    const std::int64_t reach = (size - 1) * e.dilation[along] + 1 - 2 * e.padding[along];
    return std::max<std::int64_t>(reach, 1) + random.between(0, 8);
  };
  e.height = pixels(0, e.filter_height);
  e.width = pixels(1, e.filter_width);
  e.layout = random.percent(50) ? ImageTensor::Layout::channels_last : ImageTensor::Layout::row_major;
  e.gap = random.percent(30) ? random.between(1, 3) : 0;
  return e;
}

/// `{}` stands for what is behind the factors. x are images, w and v filters, b and s have a value for each channel,
/// and r and t one for each element.
struct ConvolutionChain {
  std::string_view text;
  double (*value)(double p, double q, double b, double s, double r, double t);
};
inline constexpr ConvolutionChain kConvolutionChains[] = {
    {"conv2d(x, w{})", [](double p, double, double, double, double, double) { return p; }},
    {"relu(conv2d(x, w, b{}) + r)",
     [](double p, double, double b, double, double r, double) { return std::fmax(p + b + r, 0); }},
    {"(conv2d(x, w{}) * s[:, None, None] + r) * 0.5 - t",
     [](double p, double, double, double s, double r, double t) { return (p * s + r) * 0.5 - t; }},
    {"relu(conv2d(x, w, b{}))", [](double p, double, double b, double, double, double) { return std::fmax(p + b, 0); }},
    {"relu(conv2d(x, w, b{})) * conv2d(x, v{})",
     [](double p, double q, double b, double, double, double) { return std::fmax(p + b, 0) * q; }},
};

class ConvolutionProblem {
 public:
  ConvolutionProblem(const ConvolutionChain& chain, const ConvolutionExtents& extents, const ConvolutionTypes& types,
                     Random& random)
      : chain_(chain),
        extents_(extents),
        tail_(as_written(text_of(chain, extents))),
        x_(random, types.factor, {extents.images, extents.channels, extents.height, extents.width}, extents.layout,
           extents.gap),
        w_(random, types.factor, filters(), extents.layout, 0),
        v_(random, types.factor, filters(), extents.layout, 0),
        b_(random, types.operand, {1, extents.filters, 1, 1}, ImageTensor::Layout::channels_last, 0),
        s_(random, types.operand, {1, extents.filters, 1, 1}, ImageTensor::Layout::channels_last, 0),
        r_(random, types.operand, result(), extents.layout, extents.gap),
        t_(random, types.operand, result(), extents.layout, extents.gap),
        out_(random, types.result, result(), extents.layout, extents.gap),
        before_(out_.memory) {
    set_expected();
  }

  const Epilogue& tail() const { return tail_; }
  std::vector<TensorView> inputs() const {
    std::vector<TensorView> all;
    for (const std::string& name : tail_.inputs()) all.push_back(view_of(name));
    return all;
  }
  OutputView output() { return {out_.memory.data(), out_.type, out_.shape, out_.strides}; }
  void reset() { out_.memory = before_; }

  /// What is wrong with the result, or nothing. `rounding`: of sums, before the chain reads them.
  std::optional<std::string> judge(double rounding = 0) const {
    std::optional<std::string> problem;
    std::vector<bool> is_element(before_.size(), false);
    auto next = expected_.begin();
    auto slope = slopes_.begin();
    out_.for_each([&](const Dims& at) {
      for (std::size_t i = 0; i < size_of(out_.type); ++i) is_element[out_.place(at) + i] = true;
      const double want = *next++;
      const double found = out_.value(at);
      const double neighbour = is_floating(out_.type) ? static_cast<double>(spacing(out_.type, want)) : 0;
      const double allowed = std::max(neighbour, std::fabs(want) * 0x1p-20) + rounding * *slope++;
      if (!(std::fabs(found - want) <= allowed) && !problem)
        problem = fmt::format("at {} found {}, expected {}", to_string(at), found, want);
    });
    for (std::size_t i = 0; i < before_.size() && !problem; ++i) {
      if (!is_element[i] && out_.memory[i] != before_[i]) problem = "memory between pixels was written";
    }
    return problem;
  }
  /// The same of a launch on that engine's device.
  std::optional<std::string> judge_on(Engine& engine, double rounding) {
    return judge_on(engine, rounding, [&](const OutputView& out, const std::vector<TensorView>& inputs) {
      engine.launch(tail_, nullptr, out, inputs);
    });
  }
  /// The same of what `launch` does with the result and the inputs in the device's memory.
  template <class Launch>
  std::optional<std::string> judge_on(Engine& engine, double rounding, const Launch& launch) {
    std::vector<Array> arrays;
    const auto placed = [&](const TensorView& view, std::size_t bytes) {
      arrays.push_back(engine.array(DType::u8, {static_cast<std::int64_t>(bytes)}, view.data));
      return OutputView(arrays.back().view().writable(), view.dtype, view.shape, view.strides);
    };
    std::vector<TensorView> placed_inputs;
    for (const std::string& name : tail_.inputs())
      placed_inputs.push_back(placed(view_of(name), tensor_of(name).memory.size()));
    const OutputView out = placed(output(), out_.memory.size());
    launch(out, placed_inputs);
    arrays.back().download(static_cast<void*>(out_.memory.data()));
    return judge(rounding);
  }
  std::string text() const {
    return fmt::format("{}, {} to {}, {}", tail_.str(), to_string(x_.type), to_string(out_.type), extents_.text());
  }

 private:
  static std::string text_of(const ConvolutionChain& chain, const ConvolutionExtents& e) {
    const std::string how = fmt::format(", stride=({}, {}), padding=({}, {}), dilation=({}, {})", e.stride[0],
                                        e.stride[1], e.padding[0], e.padding[1], e.dilation[0], e.dilation[1]);
    std::string text(chain.text);
    for (auto at = text.find("{}"); at != text.npos; at = text.find("{}")) text.replace(at, 2, how);
    return text;
  }
  const ImageTensor& tensor_of(const std::string& name) const {
    return name == "x"   ? x_
           : name == "w" ? w_
           : name == "v" ? v_
           : name == "b" ? b_
           : name == "s" ? s_
           : name == "r" ? r_
                         : t_;
  }
  TensorView view_of(const std::string& name) const {
    const ImageTensor& tensor = tensor_of(name);
    const bool is_vector = name == "b" || name == "s";
    return is_vector ? TensorView(tensor.memory.data(), tensor.type, {extents_.filters}) : tensor.view();
  }
  Dims filters() const { return {extents_.filters, extents_.channels, extents_.filter_height, extents_.filter_width}; }
  Dims result() const { return {extents_.images, extents_.filters, extents_.result(0), extents_.result(1)}; }

  // The definition: zeros stand around the images. `images` and `filters` are values() of tensors.
  double sum(const std::vector<double>& images, const std::vector<double>& filters, const Dims& at) const {
    const ConvolutionExtents& e = extents_;
    double total = 0;
    for (std::int64_t c = 0; c < e.channels; ++c) {
      for (std::int64_t r = 0; r < e.filter_height; ++r) {
        for (std::int64_t s = 0; s < e.filter_width; ++s) {
          const std::int64_t y = at[2] * e.stride[0] - e.padding[0] + r * e.dilation[0];
          const std::int64_t x = at[3] * e.stride[1] - e.padding[1] + s * e.dilation[1];
          if (y < 0 || y >= e.height || x < 0 || x >= e.width) continue;
          const std::int64_t pixel = ((at[0] * e.channels + c) * e.height + y) * e.width + x;
          const std::int64_t tap = ((at[1] * e.channels + c) * e.filter_height + r) * e.filter_width + s;
          total += images[static_cast<std::size_t>(pixel)] * filters[static_cast<std::size_t>(tap)];
        }
      }
    }
    return total;
  }
  // By element of the result: what its type makes of the chain's value.
  void set_expected() {
    const std::vector<double> x = x_.values(), w = w_.values(), v = v_.values();
    const bool is_gated = chain_.text.find("(x, v") != std::string_view::npos;
    out_.for_each([&](const Dims& at) {
      const Dims channel = {0, at[1], 0, 0};
      const double p = sum(x, w, at);
      const double q = is_gated ? sum(x, v, at) : 0;
      const double exact = chain_.value(p, q, b_.value(channel), s_.value(channel), r_.value(at), t_.value(at));
      expected_.push_back(static_cast<double>(stored(out_.type, exact)));
      slopes_.push_back((std::fabs(p) + std::fabs(q)) * (std::fabs(p) + std::fabs(q) + 4));
    });
  }

  const ConvolutionChain& chain_;
  ConvolutionExtents extents_;
  Epilogue tail_;
  ImageTensor x_, w_, v_, b_, s_, r_, t_, out_;
  std::vector<std::byte> before_;
  std::vector<double> expected_;  // computed once: a problem is run several times
  std::vector<double> slopes_;    // likewise: how far an error of one in the sums moves the result, at most
};

}  // namespace epifuse::test
