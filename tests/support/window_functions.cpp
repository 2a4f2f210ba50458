#include "support/window_functions.hpp"

#include <algorithm>
#include <cmath>

#include "support/places.hpp"
#include "support/view_draw.hpp"
#include "support/windows.hpp"

namespace epifuse::test {
namespace {

class WindowFunctionDraw : public ViewDraw<WindowFunctionDraw> {
 public:
  explicit WindowFunctionDraw(std::uint64_t seed) : ViewDraw(seed) {}

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {{"max_pool", &WindowFunctionDraw::max_pool},
                                              {"avg_pool", &WindowFunctionDraw::avg_pool}};
    return kFunctions;
  }

 private:
  // So many elements of a window that to compute each of them once pays, whatever the step.
  Windows draw_windows(bool has_dilation) {
    Windows w;
    const int rank = random_.percent(30) ? 1 : 2;
    w.shape = {between(1, 3), between(2, 4)};
    w.result = w.shape;
    const bool is_dilated = has_dilation && random_.percent(30);
    const bool ceils = random_.percent(30);
    for (int d = 0; d < rank; ++d) {
      const std::int64_t size = rank == 1 ? between(16, 20) / (is_dilated ? 2 : 1) : between(5, 7);
      w.size.push_back(size);
      w.stride.push_back(rank == 1 || size < 7 || is_dilated ? 1 : between(1, 2));
      w.padding.push_back(between(0, static_cast<int>(size / 2)));
      w.dilation.push_back(is_dilated ? 2 : 1);
      const std::int64_t reach = (size - 1) * w.dilation.back() + 1;
      const std::int64_t extent = std::max<std::int64_t>(3 * reach, 40) + between(0, rank == 1 ? 900 : 40);
      w.shape.push_back(extent);
      const std::int64_t left = extent + 2 * w.padding.back() - reach;
      std::int64_t results = (left + (ceils ? w.stride.back() - 1 : 0)) / w.stride.back() + 1;
      if ((results - 1) * w.stride.back() >= extent + w.padding.back()) --results;
      w.result.push_back(results);
    }
    w.arguments = list(w.size) + ", " + list(w.stride) + ", " + list(w.padding);
    if (has_dilation) w.arguments += ", " + list(w.dilation);
    if (ceils) w.arguments += ", ceil_mode=true";
    return w;
  }

  // What each element becomes, and its text: of the operand, or also of one for each channel.
  At computed(const Windows& w, std::string& text) {
    const DType type = random_.pick({DType::f32, DType::f16, DType::bf16});
    const auto halves = [&](const Place&) { return static_cast<double>(between(-6, 6)) / 2; };
    const IntegerArray x = add(made(w.shape, halves), type);
    test_.layouts.back() = random_.below(2);  // dense, or with gaps behind rows
    test_.result = random_.pick({DType::f32, type});
    test_.tolerance = test_.result == DType::f32 ? 2e-5 : test_.result == DType::f16 ? 2e-3 : 1.5e-2;
    if (random_.percent(50)) {
      text = "(exp(x0 * 0.5) + sin(x0) + tanh(x0))";
      return [=](const Place& at) {
        const double v = value_at(x, at);
        return std::exp(v * 0.5) + std::sin(v) + std::tanh(v);
      };
    }
    Place of_channels(w.shape.size() - 1, 1);
    of_channels[0] = w.shape[1];
    const IntegerArray bias = add(made(of_channels, halves), type);
    text = "sin(exp(x0 * 0.25 + x1) * sin(x0))";
    return [=](const Place& at) {
      Place channel(at.size() - 1, 0);
      channel[0] = at[1];
      const double v = value_at(x, at);
      return std::sin(std::exp(v * 0.25 + value_at(bias, channel)) * std::sin(v));
    };
  }

  void max_pool() {
    const Windows w = draw_windows(true);
    std::string text;
    const At value = computed(w, text);
    test_.text = w.name("max_pool") + "(" + text + ", " + w.arguments + ") * 2";
    test_.expected = made(w.result, [&](const Place& place) {
      return 2 * over_window(w, place, value, -1e30, [](double a, double b) { return std::max(a, b); });
    });
  }

  void avg_pool() {
    Windows w = draw_windows(false);
    w.arguments += ", count_include_pad=false";
    std::string text;
    const At value = computed(w, text);
    test_.text = w.name("avg_pool") + "(" + text + ", " + w.arguments + ")";
    test_.expected = made(w.result, [&](const Place& place) {
      const At one = [](const Place&) { return 1.0; };
      const auto sum = [](double a, double b) { return a + b; };
      return over_window(w, place, value, 0, sum) / over_window(w, place, one, 0, sum);
    });
  }
};

}  // namespace

ViewCase draw_window_function(std::uint64_t seed) { return WindowFunctionDraw(seed).run(); }

}  // namespace epifuse::test
