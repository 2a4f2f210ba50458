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

  // Of windows that may step outside, by padding or at the end, most do.
  Windows draw_windows(bool has_dilation, bool may_pad, int most_dimensions = 3) {
    Windows w;
    const bool pads = may_pad && random_.percent(60);
    w.rounds_up = random_.percent(30);
    const int rank = random_.below(most_dimensions);
    w.size = rank == 0   ? Place{between(65, 90)}
             : rank == 1 ? Place{between(7, 9), between(10, 12)}
                         : Place{between(3, 5), 5, between(5, 6)};
    for (std::int64_t d = between(0, 2); d > 0; --d) w.shape.push_back(between(1, 3));
    w.result = w.shape;
    for (const std::int64_t size : w.size) {
      w.stride.push_back(random_.percent(50) ? between(1, 3) : size + between(0, 2));
      w.dilation.push_back(has_dilation ? between(1, 2) : 1);
      w.padding.push_back(pads ? between(0, size / 2) : 0);
      const std::int64_t reach = (size - 1) * w.dilation.back() + 1;
      const std::int64_t least = std::max<std::int64_t>(reach - 2 * w.padding.back(), 1);
      w.shape.push_back(least + between(0, w.size.size() == 1 ? 100 : 9));
      w.result.push_back(count_windows(w, reach));
    }
    w.arguments = list(w.size) + ", " + list(w.stride) + (has_dilation ? ", dilation=" + list(w.dilation) : "") +
                  (pads ? ", padding=" + list(w.padding) : "") + (w.rounds_up ? ", ceil_mode=true" : "");
    return w;
  }

  // Along the dimension that was added last: those that end inside, and with ceil_mode one more that begins there.
  static std::int64_t count_windows(const Windows& w, std::int64_t reach) {
    const std::int64_t extent = w.shape.back();
    const std::int64_t padding = w.padding.back();
    std::int64_t count = 0;
    for (std::int64_t begin = -padding; begin + reach <= extent + padding; begin += w.stride.back()) ++count;
    const std::int64_t next = -padding + count * w.stride.back();
    const bool ends_inside = next - w.stride.back() + reach == extent + padding;
    return w.rounds_up && !ends_inside && next < extent ? count + 1 : count;
  }

  // How many elements of the window at a place the tensor has, or with its padding.
  static double count_elements(const Windows& w, const Place& place, bool counts_padding) {
    double count = 1;
    const std::size_t outer = place.size() - w.size.size();
    for (std::size_t d = 0; d < w.size.size(); ++d) {
      const std::int64_t padding = counts_padding ? w.padding[d] : 0;
      const std::int64_t begin = place[outer + d] * w.stride[d] - w.padding[d];
      std::int64_t inside = 0;
      for (std::int64_t at = begin; at < begin + w.size[d]; ++at)
        inside += at >= -padding && at < w.shape[outer + d] + padding ? 1 : 0;
      count *= static_cast<double>(inside);
    }
    return count;
  }

  void max_pool() {
    const Windows w = draw_windows(true, true);
    const IntegerArray x = operand(w.shape);
    test_.text = w.name("max_pool") + "(x0 * 2, " + w.arguments + ") + 1";
    test_.expected = made(w.result, [&](const Place& place) {
      const At doubled = [&](const Place& at) { return value_at(x, at) * 2; };
      return 1 + over_window(w, place, doubled, -100, [](double a, double b) { return std::max(a, b); });
    });
  }

  void avg_pool() {
    const Windows w = draw_windows(false, true);
    const IntegerArray x = operand(w.shape);
    const int divisor = random_.below(w.rank() == 1 ? 2 : 3);
    test_.tolerance = 1e-6;
    test_.text = w.name("avg_pool") + "(relu(x0 + 2), " + w.arguments +
                 (divisor == 1   ? ", count_include_pad=false"
                  : divisor == 2 ? ", divisor_override=5"
                                 : "") +
                 ")";
    test_.expected = made(w.result, [&](const Place& place) {
      const At above = [&](const Place& at) { return std::max(value_at(x, at) + 2, 0.0); };
      return over_window(w, place, above, 0, std::plus<>()) /
             (divisor == 2 ? 5 : count_elements(w, place, divisor == 0));
    });
  }

  void lp_pool() {
    const Windows w = draw_windows(false, false, 2);
    const IntegerArray x = operand(w.shape);
    double whole = 1;
    for (const std::int64_t size : w.size) whole *= static_cast<double>(size);
    test_.tolerance = 1e-6;
    test_.text = w.name("lp_pool") + "(x0 + 4, 1, " + w.arguments + ")";
    test_.expected = made(w.result, [&](const Place& place) {
      const At raised = [&](const Place& at) { return value_at(x, at) + 4; };
      return over_window(w, place, raised, 0, std::plus<>()) * whole / count_elements(w, place, false);
    });
  }

  // Where windows begin before a dimension, and what stands outside.
  struct Outside {
    std::int64_t before = 0, behind = 0;
    double value = 0;
    bool rounds_up = false;
    std::string view(const std::string& x, std::int64_t dim, std::int64_t size, std::int64_t step, int rank) const {
      const std::string numbers = std::to_string(dim) + ", " + std::to_string(size) + ", " + std::to_string(step);
      const std::string own = ", value=" + std::to_string(static_cast<int>(value));
      if (!is_pad) {
        const std::string padding = ", padding=" + std::to_string(before) + (rounds_up ? ", ceil_mode=true" : "") + own;
        return "unfold(" + x + ", " + numbers + (before > 0 || rounds_up ? padding : "") + ")";
      }
      Place sizes(static_cast<std::size_t>(2 * (dim < 0 ? -dim : rank - dim)), 0);
      sizes[sizes.size() - 2] = before;
      sizes.back() = behind;
      return "unfold(pad(" + x + ", " + list(sizes) + own + "), " + numbers + ")";
    }
    bool is_pad = false;
  };

  // Windows with or without padding, or of what is padded.
  Outside draw_outside(std::int64_t size) {
    Outside outside;
    const int kind = random_.below(3);
    if (kind > 0) outside.value = static_cast<double>(between(-2, 2));
    if (kind == 1) outside.before = outside.behind = between(0, size / 2);
    if (kind == 1) outside.rounds_up = random_.percent(30);
    if (kind != 2) return outside;
    outside.before = between(0, 4);
    outside.behind = between(0, 4);
    outside.is_pad = true;
    return outside;
  }

  // Each window, or what a slice takes of it, or its sum.
  void unfold() {
    Place shape;
    for (std::int64_t d = between(1, 3); d > 0; --d) shape.push_back(between(1, 12));
    const auto d = static_cast<std::size_t>(between(0, std::ssize(shape) - 1));
    const std::int64_t size = between(1, shape[d]);
    const std::int64_t step = between(1, 4);
    const Outside outside = draw_outside(size);
    const IntegerArray x = operand(shape);
    const At element = [&](const Place& at) {
      Place from(at.begin(), at.end() - 1);
      from[d] = at[d] * step + at.back() - outside.before;
      return from[d] < 0 || from[d] >= shape[d] ? outside.value : value_at(x, from) + 1;
    };
    Windows along;
    along.shape = {shape[d]};
    along.stride = {step};
    along.padding = {outside.before};
    along.rounds_up = outside.rounds_up;
    Place windows = shape;
    windows[d] =
        outside.is_pad ? (shape[d] + outside.before + outside.behind - size) / step + 1 : count_windows(along, size);
    windows.push_back(size);
    const std::int64_t dim = static_cast<std::int64_t>(d) - (random_.percent(50) ? std::ssize(shape) : 0);
    const std::string text = outside.view("(x0 + 1)", dim, size, step, static_cast<int>(shape.size()));
    const int kind = random_.below(4);
    if (kind == 0) {
      test_.text = "sum(" + text + ", -1)";
      test_.expected = summed(windows, windows.size() - 1, element);
      return;
    }
    const bool takes = kind == 1 || kind == 3;
    const Place given = windows;
    test_.text = kind == 1 ? text + "[..., ::-2]" : kind == 3 ? "flip(" + text + ", (0,))[..., 1:]" : text;
    if (kind == 1) windows.back() = (size + 1) / 2;
    if (kind == 3) windows.back() = size - 1;
    test_.expected = made(windows, [&](Place at) {
      if (takes) at.back() = kind == 1 ? size - 1 - 2 * at.back() : at.back() + 1;
      if (kind == 3) at[0] = given[0] - 1 - at[0];
      return element(at);
    });
  }
};

}  // namespace

const std::vector<std::string>& large_windows() { return WindowDraw::names(); }

ViewCase draw_large_windows(std::uint64_t seed) { return WindowDraw(seed).run(); }

}  // namespace epifuse::test
