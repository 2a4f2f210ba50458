#include "support/large_windows.hpp"

#include <algorithm>
#include <functional>

#include "support/places.hpp"
#include "support/view_draw.hpp"
#include "support/windows.hpp"

namespace epifuse::test {
namespace {

class WindowDraw : public ViewDraw<WindowDraw> {
 public:
  explicit WindowDraw(std::uint64_t seed) : ViewDraw(seed) {}

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {{"max_pool", &WindowDraw::max_pool},
                                              {"avg_pool", &WindowDraw::avg_pool},
                                              {"lp_pool", &WindowDraw::lp_pool},
                                              {"unfold", &WindowDraw::unfold}};
    return kFunctions;
  }

 private:
  // Small whole numbers: f16 holds the sums.
  IntegerArray operand(const Place& shape) {
    return add(made(shape, [&](const Place&) { return static_cast<double>(between(-3, 3)); }),
               random_.pick({DType::f32, DType::f16, DType::bf16}));
  }

  Windows draw_windows(bool has_dilation, int most_dimensions = 3) {
    Windows w;
    const int rank = random_.below(most_dimensions);
    w.size = rank == 0   ? Place{between(65, 90)}
             : rank == 1 ? Place{between(7, 9), between(10, 12)}
                         : Place{between(3, 5), 5, between(5, 6)};
    for (std::int64_t d = between(0, 2); d > 0; --d) w.shape.push_back(between(1, 3));
    w.result = w.shape;
    for (const std::int64_t size : w.size) {
      w.stride.push_back(random_.percent(50) ? between(1, 3) : size + between(0, 2));
      w.dilation.push_back(has_dilation ? between(1, 2) : 1);
      const std::int64_t reach = (size - 1) * w.dilation.back() + 1;
      w.shape.push_back(reach + between(0, w.size.size() == 1 ? 100 : 9));
      w.result.push_back((w.shape.back() - reach) / w.stride.back() + 1);
    }
    w.arguments = list(w.size) + ", " + list(w.stride) + (has_dilation ? ", dilation=" + list(w.dilation) : "");
    return w;
  }

  void max_pool() {
    const Windows w = draw_windows(true);
    const IntegerArray x = operand(w.shape);
    test_.text = w.name("max_pool") + "(x0 * 2, " + w.arguments + ") + 1";
    test_.expected = made(w.result, [&](const Place& place) {
      const At doubled = [&](const Place& at) { return value_at(x, at) * 2; };
      return 1 + over_window(w, place, doubled, -100, [](double a, double b) { return std::max(a, b); });
    });
  }

  void avg_pool() {
    const Windows w = draw_windows(false);
    const IntegerArray x = operand(w.shape);
    double count = 1;
    for (const std::int64_t size : w.size) count *= static_cast<double>(size);
    test_.tolerance = 1e-6;
    test_.text = w.name("avg_pool") + "(relu(x0), " + w.arguments + ")";
    test_.expected = made(w.result, [&](const Place& place) {
      const At above = [&](const Place& at) { return std::max(value_at(x, at), 0.0); };
      return over_window(w, place, above, 0, std::plus<>()) / count;
    });
  }

  void lp_pool() {
    const Windows w = draw_windows(false, 2);
    const IntegerArray x = operand(w.shape);
    test_.text = w.name("lp_pool") + "(x0 + 4, 1, " + w.arguments + ")";
    test_.expected = made(w.result, [&](const Place& place) {
      const At raised = [&](const Place& at) { return value_at(x, at) + 4; };
      return over_window(w, place, raised, 0, std::plus<>());
    });
  }

  // Each window, or what a slice takes of it, or its sum.
  void unfold() {
    Place shape;
    for (std::int64_t d = between(1, 3); d > 0; --d) shape.push_back(between(1, 12));
    const auto d = static_cast<std::size_t>(between(0, std::ssize(shape) - 1));
    const std::int64_t size = between(1, shape[d]);
    const std::int64_t step = between(1, 4);
    const IntegerArray x = operand(shape);
    const At element = [&](const Place& at) {
      Place from(at.begin(), at.end() - 1);
      from[d] = at[d] * step + at.back();
      return value_at(x, from) + 1;
    };
    Place windows = shape;
    windows[d] = (shape[d] - size) / step + 1;
    windows.push_back(size);
    const int dim = static_cast<int>(d) - (random_.percent(50) ? static_cast<int>(shape.size()) : 0);
    const std::string text = "unfold(x0 + 1, " + std::to_string(dim) + ", " + list({size, step}).substr(1);
    const int kind = random_.below(3);
    if (kind == 0) {
      test_.text = "sum(" + text + ", -1)";
      test_.expected = summed(windows, windows.size() - 1, element);
      return;
    }
    test_.text = kind == 1 ? text + "[..., ::-2]" : text;
    if (kind == 1) windows.back() = (size + 1) / 2;
    test_.expected = made(windows, [&](Place at) {
      if (kind == 1) at.back() = size - 1 - 2 * at.back();
      return element(at);
    });
  }
};

}  // namespace

const std::vector<std::string>& large_windows() { return WindowDraw::names(); }

ViewCase draw_large_windows(std::uint64_t seed) { return WindowDraw(seed).run(); }

}  // namespace epifuse::test
