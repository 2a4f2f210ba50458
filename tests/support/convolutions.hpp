// Convolutions with a chain behind them: random tensors, and the results by the definition, in f64. For tests of the CPU
// device, of emitted text and of a GPU.
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

/// `{}` stands for what is behind the factors. x are images, w and v filters, b and s have a value for each channel, and
/// r and t one for each element.
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
        before_(out_.memory) {}

  const Epilogue& tail() const { return tail_; }
  std::vector<TensorView> inputs() const {
    std::vector<TensorView> all;
    for (const std::string& name : tail_.inputs()) {
      const ImageTensor& tensor = name == "x"   ? x_
                                  : name == "w" ? w_
                                  : name == "v" ? v_
                                  : name == "b" ? b_
                                  : name == "s" ? s_
                                  : name == "r" ? r_
                                                : t_;
      const bool is_vector = name == "b" || name == "s";
      all.push_back(is_vector ? TensorView(tensor.memory.data(), tensor.type, {extents_.filters}) : tensor.view());
    }
    return all;
  }
  OutputView output() { return {out_.memory.data(), out_.type, out_.shape, out_.strides}; }
  void reset() { out_.memory = before_; }

  /// What is wrong with the result, or nothing.
  std::optional<std::string> judge() const {
    std::optional<std::string> problem;
    std::vector<bool> is_element(before_.size(), false);
    out_.for_each([&](const Dims& at) {
      for (std::size_t i = 0; i < size_of(out_.type); ++i) is_element[out_.place(at) + i] = true;
      const Dims channel = {0, at[1], 0, 0};
      const double q = chain_.text.find('v') == std::string_view::npos ? 0 : sum(v_, at);
      const double exact =
          chain_.value(sum(w_, at), q, b_.value(channel), s_.value(channel), r_.value(at), t_.value(at));
      const auto want = static_cast<double>(stored(out_.type, exact));
      const double found = out_.value(at);
      const double neighbour = is_floating(out_.type) ? static_cast<double>(spacing(out_.type, want)) : 0;
      if (!(std::fabs(found - want) <= std::max(neighbour, std::fabs(want) * 0x1p-20)) && !problem)
        problem = fmt::format("at {} found {}, expected {}", to_string(at), found, want);
    });
    for (std::size_t i = 0; i < before_.size() && !problem; ++i) {
      if (!is_element[i] && out_.memory[i] != before_[i]) problem = "memory between pixels was written";
    }
    return problem;
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
  Dims filters() const { return {extents_.filters, extents_.channels, extents_.filter_height, extents_.filter_width}; }
  Dims result() const { return {extents_.images, extents_.filters, extents_.result(0), extents_.result(1)}; }

  // The definition: zeros stand around the images.
  double sum(const ImageTensor& filters, const Dims& at) const {
    double total = 0;
    filters.for_each([&](const Dims& tap) {
      const std::int64_t y = at[2] * extents_.stride[0] - extents_.padding[0] + tap[2] * extents_.dilation[0];
      const std::int64_t x = at[3] * extents_.stride[1] - extents_.padding[1] + tap[3] * extents_.dilation[1];
      if (tap[0] != at[1] || y < 0 || y >= extents_.height || x < 0 || x >= extents_.width) return;
      total += x_.value({at[0], tap[1], y, x}) * filters.value(tap);
    });
    return total;
  }

  const ConvolutionChain& chain_;
  ConvolutionExtents extents_;
  Epilogue tail_;
  ImageTensor x_, w_, v_, b_, s_, r_, t_, out_;
  std::vector<std::byte> before_;
};

}  // namespace epifuse::test
