#include "support/view_functions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/places.hpp"
#include "support/view_draw.hpp"
#include "support/windows.hpp"

namespace epifuse::test {
namespace {

// As f32 rounds a quotient of whole numbers.
double rounded(double value) { return static_cast<double>(static_cast<float>(value)); }

class Draw : public ViewDraw<Draw> {
 public:
  explicit Draw(std::uint64_t seed) : ViewDraw(seed) {}

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {{"max_pool", &Draw::max_pool},
                                              {"avg_pool", &Draw::avg_pool},
                                              {"lp_pool", &Draw::lp_pool},
                                              {"pool and sum", &Draw::pool_and_sum},
                                              {"adaptive pool", &Draw::adaptive},
                                              {"upsample", &Draw::upsample},
                                              {"pixel_shuffle", &Draw::shuffle},
                                              {"cat", &Draw::cat},
                                              {"stack", &Draw::stack},
                                              {"rope", &Draw::rope},
                                              {"iota", &Draw::iota},
                                              {"tril and triu", &Draw::triangle},
                                              {"argmax", &Draw::extreme},
                                              {"batch_norm", &Draw::batch_norm},
                                              {"count_nonzero", &Draw::count_nonzero},
                                              {"pad", &Draw::pad},
                                              {"roll", &Draw::roll},
                                              {"cat of sizes", &Draw::cat_of_sizes},
                                              {"repeat_as", &Draw::repeat_as}};
    return kFunctions;
  }

 private:
  // An operand of small integers; two in a row may be equal.
  IntegerArray operand(const Place& shape, int most = 9) {
    test_.inputs.push_back(made(shape, [&](const Place&) { return static_cast<double>(between(-most, most)); }));
    test_.layouts.push_back(random_.below(4));
    return test_.inputs.back();
  }

  // ---- windows

  Windows draw_windows(bool has_dilation, bool may_leave = false) {
    Windows w;
    const int rank = static_cast<int>(between(1, 3));
    for (int d = static_cast<int>(between(0, 2)); d > 0; --d) w.shape.push_back(between(1, 3));
    w.result = w.shape;
    for (int d = 0; d < rank; ++d) {
      w.size.push_back(between(1, 3));
      w.stride.push_back(between(1, 3));
      w.dilation.push_back(has_dilation ? between(1, 2) : 1);
      const std::int64_t reach = (w.size.back() - 1) * w.dilation.back() + 1;
      w.shape.push_back(reach + between(0, rank == 1 ? 40 : 7));
      w.padding.push_back(may_leave ? between(0, static_cast<int>(w.size.back() / 2)) : 0);
    }
    w.rounds_up = may_leave && random_.percent(30);
    for (std::size_t d = 0; d < w.size.size(); ++d) w.result.push_back(count_of_windows(w, d));
    w.arguments = list(w.size) + ", " + list(w.stride);
    if (may_leave) w.arguments += ", " + list(w.padding);
    if (has_dilation) w.arguments += ", dilation=" + list(w.dilation);
    if (w.rounds_up) w.arguments += ", ceil_mode=true";
    return w;
  }

  // A window begins at each multiple of the stride, counted from the padding on, if it ends inside or in the padding
  // behind; with ceil_mode if it begins before the padding behind.
  static std::int64_t count_of_windows(const Windows& w, std::size_t d) {
    const std::int64_t extent = w.shape[w.shape.size() - w.size.size() + d];
    const std::int64_t reach = (w.size[d] - 1) * w.dilation[d] + 1;
    std::int64_t count = 0;
    std::int64_t begin = -w.padding[d];
    // The last one that ends inside has at most one behind it.
    for (; begin + reach <= extent + w.padding[d]; begin += w.stride[d]) ++count;
    const bool leaves_some = begin - w.stride[d] + reach < extent + w.padding[d];
    return count + (w.rounds_up && leaves_some && begin < extent ? 1 : 0);
  }

  void max_pool() {
    const Windows w = draw_windows(true, random_.percent(60));
    const IntegerArray x = operand(w.shape);
    test_.text = w.name("max_pool") + "(relu(x0 - 1), " + w.arguments + ") * 2 + 1";
    const At inner = [&](const Place& at) { return std::max(value_at(x, at) - 1, 0.0); };
    test_.expected = made(w.result, [&](const Place& place) {
      return 1 + 2 * over_window(w, place, inner, -100, [](double a, double b) { return std::max(a, b); });
    });
  }

  double sum_at(const Windows& w, const Place& place, const At& x) {
    return over_window(w, place, x, 0, std::plus<>());
  }

  void avg_pool() {
    Windows w = draw_windows(false, random_.percent(60));
    const IntegerArray x = operand(w.shape);
    const bool overrides = w.rank() > 1 && random_.percent(30);
    const bool pads = std::ranges::any_of(w.padding, [](std::int64_t padding) { return padding != 0; });
    const bool counts_padded = !overrides && w.rounds_up && random_.percent(50);
    const bool counts_existing =
        !overrides && !counts_padded && (pads || w.rounds_up) && (w.rounds_up || random_.percent(60));
    if (counts_existing) w.arguments += ", count_include_pad=false";
    const std::int64_t divisor = overrides ? between(1, 9) : count_of(w.size);
    test_.text = w.name("avg_pool") + "(x0 * 3, " + w.arguments +
                 (overrides ? ", divisor_override=" + std::to_string(divisor) : "") + ")";
    const At inner = [&](const Place& at) { return 3 * value_at(x, at); };
    test_.expected = made(w.result, [&](const Place& place) {
      const double existing = sum_at(w, place, [](const Place&) { return 1; });
      const double count = counts_padded ? padded_count(w, place) : static_cast<double>(divisor);
      return rounded(sum_at(w, place, inner) / (counts_existing ? existing : count));
    });
  }

  // Elements of a window that lie in the tensor or its padding.
  static double padded_count(const Windows& w, const Place& place) {
    double count = 1;
    const std::size_t outer = place.size() - w.size.size();
    for (std::size_t d = 0; d < w.size.size(); ++d) {
      const std::int64_t begin = place[outer + d] * w.stride[d] - w.padding[d];
      const std::int64_t end = std::min(begin + w.size[d], w.shape[outer + d] + w.padding[d]);
      count *= static_cast<double>(end - begin);
    }
    return count;
  }

  void lp_pool() {
    Windows w = draw_windows(false);
    w.rounds_up = random_.percent(30);
    for (std::size_t d = 0; d < w.size.size(); ++d)
      w.result[w.result.size() - w.size.size() + d] = count_of_windows(w, d);
    if (w.rounds_up) w.arguments += ", ceil_mode=true";
    const IntegerArray x = operand(w.shape);
    const double p = random_.pick({1.0, 2.0, 3.0});
    test_.text = w.name("lp_pool") + "(abs(x0), " + std::to_string(static_cast<int>(p)) + ", " + w.arguments + ")";
    const At inner = [&](const Place& at) { return std::pow(std::abs(value_at(x, at)), p); };
    const auto all = static_cast<double>(count_of(w.size));
    test_.expected = made(w.result, [&](const Place& place) {
      const double existing = sum_at(w, place, [](const Place&) { return 1; });
      return std::pow(sum_at(w, place, inner) * (all / existing), 1 / p);
    });
    test_.tolerance = 1e-6;
  }

  // A reduction behind the small one, over any one dimension.
  void pool_and_sum() {
    const Windows w = draw_windows(false, random_.percent(60));
    const IntegerArray x = operand(w.shape);
    const auto axis = static_cast<std::size_t>(between(0, static_cast<int>(w.shape.size()) - 1));
    test_.text = "sum(" + w.name("max_pool") + "(x0, " + w.arguments + "), " + std::to_string(axis) + ")";
    const At inner = [&](const Place& at) { return value_at(x, at); };
    Place kept = w.result;
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(axis));
    test_.expected = made(kept, [&](const Place& place) {
      double sum = 0;
      for (std::int64_t i = 0; i < w.result[axis]; ++i) {
        Place at = place;
        at.insert(at.begin() + static_cast<std::ptrdiff_t>(axis), i);
        sum += over_window(w, at, inner, -100, [](double a, double b) { return std::max(a, b); });
      }
      return sum;
    });
  }

  void adaptive() {
    Windows w;
    const int rank = static_cast<int>(between(1, 3));
    w.shape = {between(1, 2), between(1, 3)};
    w.result = w.shape;
    Place parts;
    for (int d = 0; d < rank; ++d) {
      parts.push_back(between(1, 4));
      w.size.push_back(between(1, 4));
      w.shape.push_back(parts.back() * w.size.back());
      w.result.push_back(parts.back());
    }
    w.stride = w.size;
    w.dilation.assign(w.size.size(), 1);
    const IntegerArray x = operand(w.shape);
    const bool is_max = random_.percent(50);
    test_.text = w.name(is_max ? "adaptive_max_pool" : "adaptive_avg_pool") + "(x0, " + list(parts) + ")";
    const At inner = [&](const Place& at) { return value_at(x, at); };
    test_.expected = made(w.result, [&](const Place& place) {
      if (!is_max) return sum_at(w, place, inner) / static_cast<double>(count_of(w.size));
      return over_window(w, place, inner, -100, [](double a, double b) { return std::max(a, b); });
    });
    test_.tolerance = 1e-6;
  }

  void upsample() {
    const int rank = static_cast<int>(between(1, 3));
    Place shape = {between(1, 3), between(1, 3)};
    Place result = shape;
    Place factors;
    for (int d = 0; d < rank; ++d) {
      factors.push_back(between(1, 3));
      shape.push_back(between(1, 5));
      result.push_back(shape.back() * factors.back());
    }
    const IntegerArray x = operand(shape);
    test_.text = "upsample_nearest" + std::to_string(rank) + "d" + "(x0 + 1, " + list(factors) + ")";
    test_.expected = made(result, [&](Place at) {
      for (std::size_t d = 0; d < factors.size(); ++d) at[d + 2] /= factors[d];
      return value_at(x, at) + 1;
    });
  }

  void shuffle() {
    const std::int64_t r = between(1, 3);
    const std::int64_t c = between(1, 3);
    const std::int64_t h = between(1, 4);
    const std::int64_t w = between(1, 5);
    const std::int64_t n = between(1, 2);
    const bool back = random_.percent(50);
    const IntegerArray x = operand(back ? Place{n, c, h * r, w * r} : Place{n, c * r * r, h, w});
    test_.text = (back ? "pixel_unshuffle(x0, " : "pixel_shuffle(x0, ") + std::to_string(r) + ") * 2";
    test_.layouts[0] = 0;
    const auto wide = [&](std::int64_t k, const Place& at) {  // channel k of c * r * r
      return Place{at[0], k / (r * r), at[2] * r + k / r % r, at[3] * r + k % r};
    };
    if (back) {
      test_.expected = made({n, c * r * r, h, w}, [&](const Place& at) { return 2 * value_at(x, wide(at[1], at)); });
    } else {
      test_.expected = made({n, c, h * r, w * r}, [&](const Place& at) {
        return 2 * value_at(x, {at[0], (at[1] * r + at[2] % r) * r + at[3] % r, at[2] / r, at[3] / r});
      });
    }
  }

  // ---- padding

  // Pads by sizes of both signs; where `fill` is given it is that number outside.
  struct Padding {
    Place before, behind, result;
    double value = 0;
    std::string text;
  };

  Padding draw_padding(const Place& shape) {
    Padding p{Place(shape.size(), 0), Place(shape.size(), 0), shape, 0, {}};
    const std::size_t sized = static_cast<std::size_t>(between(1, static_cast<int>(shape.size())));
    Place sizes;
    for (std::size_t k = 0; k < sized; ++k) {
      const std::size_t d = shape.size() - 1 - k;
      p.before[d] = between(-1, 3);
      p.behind[d] = between(-1, 3);
      if (shape[d] + p.before[d] + p.behind[d] < 1) p.behind[d] = 2;
      p.result[d] += p.before[d] + p.behind[d];
      sizes.insert(sizes.end(), {p.before[d], p.behind[d]});
    }
    p.value = static_cast<double>(random_.percent(40) ? 0 : between(-9, 9));
    p.text = list(sizes) + (p.value == 0 ? "" : ", value=" + std::to_string(static_cast<int>(p.value)));
    return p;
  }

  static double padded(const Padding& p, const Place& shape, Place at, const At& x) {
    for (std::size_t d = 0; d < at.size(); ++d) {
      at[d] -= p.before[d];
      if (at[d] < 0 || at[d] >= shape[d]) return p.value;
    }
    return x(at);
  }

  void repeat_as() {
    const Place shape = some_shape();
    const IntegerArray x = operand(shape);
    const auto d = static_cast<std::size_t>(random_.below(static_cast<int>(shape.size())));
    const std::int64_t times = between(1, 3), shift = between(-3, 3);
    Place longer = shape;
    longer[d] = between(1, 12);
    operand(longer);  // of which only the shape counts
    test_.text = "repeat_as(x0 * 2 + 1, x1, " + list({static_cast<std::int64_t>(d), times, shift}).substr(1) + " - 1";
    test_.expected = made(longer, [&](Place at) {
      const std::int64_t numerator = at[d] + shift;
      at[d] = numerator < 0 ? shape[d] : numerator / times;
      return at[d] < shape[d] ? value_at(x, at) * 2 : -1.0;
    });
  }

  void pad() {
    const Place shape = some_shape();
    const IntegerArray x = operand(shape);
    const Padding p = draw_padding(shape);
    const At inner = [&](const Place& at) { return value_at(x, at); };
    const At more = [&](const Place& at) { return value_at(x, at) * 2 + 1; };
    switch (random_.below(5)) {
      case 0:
        test_.text = "pad(x0, " + p.text + ")";
        test_.expected = made(p.result, [&](const Place& at) { return padded(p, shape, at, inner); });
        return;
      case 1:
        test_.text = "relu(pad(x0 * 2 + 1, " + p.text + "))";
        test_.expected = made(p.result, [&](const Place& at) { return std::max(padded(p, shape, at, more), 0.0); });
        return;
      case 2: {  // twice, with another number
        const Padding q = draw_padding(p.result);
        const At once = [&](const Place& at) { return padded(p, shape, at, more); };
        test_.text = "pad(pad(x0 * 2 + 1, " + p.text + ") - 1, " + q.text + ")";
        test_.expected = made(q.result, [&](const Place& at) {
          return padded(q, p.result, at, [&](const Place& inside) { return once(inside) - 1; });
        });
        return;
      }
      case 3: {  // beside an operand of the padded shape, in reverse order
        const IntegerArray y = operand(p.result);
        test_.text = "pad(x0, " + p.text + ")[::-1] + x1";
        test_.expected = made(p.result, [&](const Place& at) {
          Place reversed = at;
          reversed[0] = p.result[0] - 1 - at[0];
          return padded(p, shape, reversed, inner) + value_at(y, at);
        });
        return;
      }
      default: {  // and summed
        const auto axis = static_cast<std::size_t>(between(0, static_cast<int>(p.result.size()) - 1));
        test_.text = "sum(pad(x0 * 2 + 1, " + p.text + "), " + std::to_string(axis) + ")";
        test_.expected = summed(p.result, axis, [&](const Place& at) { return padded(p, shape, at, more); });
      }
    }
  }

  void roll() {
    const Place shape = some_shape();
    const IntegerArray x = operand(shape);
    Place shifts;
    Place dims;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!dims.empty() && random_.percent(50)) continue;
      dims.push_back(static_cast<std::int64_t>(d) -
                     (random_.percent(50) ? static_cast<std::int64_t>(shape.size()) : 0));
      shifts.push_back(between(-20, 20));
    }
    const auto from = [&](Place at) {
      for (std::size_t i = 0; i < dims.size(); ++i) {
        const auto d =
            static_cast<std::size_t>(dims[i] < 0 ? dims[i] + static_cast<std::int64_t>(shape.size()) : dims[i]);
        at[d] = ((at[d] - shifts[i]) % shape[d] + shape[d]) % shape[d];
      }
      return at;
    };
    if (random_.percent(30)) {  // and summed
      const auto axis = static_cast<std::size_t>(between(0, static_cast<int>(shape.size()) - 1));
      const IntegerArray y = operand(shape);
      test_.text = "sum(roll(x0 * 2, " + list(shifts) + ", " + list(dims) + ") * x1, " + std::to_string(axis) + ")";
      test_.expected =
          summed(shape, axis, [&](const Place& at) { return value_at(x, from(at)) * 2 * value_at(y, at); });
      return;
    }
    const bool sums = random_.percent(40);
    test_.text = "roll(x0 * 2 + 1, " + list(shifts) + ", " + list(dims) + ")" + (sums ? " + x0" : "");
    test_.expected =
        made(shape, [&](const Place& at) { return value_at(x, from(at)) * 2 + 1 + (sums ? value_at(x, at) : 0); });
  }

  // Of several sizes, read as one.
  void cat_of_sizes() {
    const Place shape = some_shape();
    const auto d = static_cast<std::size_t>(between(0, static_cast<int>(shape.size()) - 1));
    Place other = shape;
    other[d] = between(1, 9);
    const IntegerArray a = operand(shape);
    const IntegerArray b = operand(other);
    Place result = shape;
    result[d] += other[d];
    const auto value = [&](Place at) {
      if (at[d] < shape[d]) return value_at(a, at) * 2;
      at[d] -= shape[d];
      return value_at(b, at) + 1;
    };
    const std::string joined = "cat((x0 * 2, x1 + 1), " + std::to_string(d) + ")";
    if (random_.percent(50)) {
      test_.text = "relu(" + joined + ")";
      test_.expected = made(result, [&](const Place& at) { return std::max(value(at), 0.0); });
      return;
    }
    test_.text = "sum(" + joined + ", " + std::to_string(d) + ")";
    test_.expected = summed(result, d, value);
  }

  // ---- joining

  Place some_shape(int low_rank = 1) {
    Place shape;
    for (auto rank = between(low_rank, 3); rank > 0; --rank) shape.push_back(between(1, 9));
    return shape;
  }

  void cat() {
    const Place shape = some_shape();
    const auto d = static_cast<std::size_t>(between(0, static_cast<int>(shape.size()) - 1));
    const auto count = static_cast<std::size_t>(between(1, 3));
    std::string names;
    for (std::size_t i = 0; i < count; ++i) {
      operand(shape);
      names += "x" + std::to_string(i) + " * " + std::to_string(i + 1) + ", ";
    }
    Place result = shape;
    result[d] *= static_cast<std::int64_t>(count);
    const IntegerArray other = operand(result);
    const auto axis = random_.percent(50) ? static_cast<std::int64_t>(d)
                                          : static_cast<std::int64_t>(d) - static_cast<std::int64_t>(shape.size());
    test_.text = "relu(cat((" + names.substr(0, names.size() - 2) + "), " + std::to_string(axis) + ") + x" +
                 std::to_string(count) + ")";
    test_.expected = made(result, [&](const Place& place) {
      Place at = place;
      const auto which = static_cast<std::size_t>(place[d] / shape[d]);
      at[d] %= shape[d];
      return std::max(value_at(test_.inputs[which], at) * static_cast<double>(which + 1) + value_at(other, place), 0.0);
    });
  }

  // Neighbours in the last dimension, which then are merged with it.
  void stack() {
    const Place shape = some_shape();
    const IntegerArray a = operand(shape);
    const IntegerArray b = operand(shape);
    const bool merges = random_.percent(60);
    test_.text = merges ? "flatten(stack((x0, x1 + x0), -1), -2, -1)" : "stack((x0, x1 + x0), 0)";
    Place result = shape;
    if (merges)
      result.back() *= 2;
    else
      result.insert(result.begin(), 2);
    test_.expected = made(result, [&](Place at) {
      const bool second = merges ? at.back() % 2 == 1 : at[0] == 1;
      if (merges)
        at.back() /= 2;
      else
        at.erase(at.begin());
      return value_at(a, at) + (second ? value_at(b, at) : 0);
    });
  }

  void rope() {
    const std::int64_t half = between(1, 8);
    const Place shape = {between(1, 3), between(1, 4), 2 * half};
    const IntegerArray x = operand(shape);
    const IntegerArray cosines = operand({shape[1], half});
    const IntegerArray sines = operand({shape[1], half});
    const bool pairs = random_.percent(50);
    test_.text = std::string("rope(x0, x1, x2") + (pairs ? ", interleaved=true)" : ")");
    test_.expected = made(shape, [&](const Place& at) {
      const std::int64_t k = pairs ? at[2] / 2 : at[2] % half;
      const bool second = pairs ? at[2] % 2 == 1 : at[2] >= half;
      const double one = value_at(x, {at[0], at[1], pairs ? 2 * k : k});
      const double two = value_at(x, {at[0], at[1], pairs ? 2 * k + 1 : k + half});
      const double c = value_at(cosines, {at[1], k});
      const double s = value_at(sines, {at[1], k});
      return second ? two * c + one * s : one * c - two * s;
    });
  }

  // ---- positions

  void iota() {
    const Place shape = some_shape();
    const auto d = static_cast<std::size_t>(between(0, static_cast<int>(shape.size()) - 1));
    const IntegerArray x = operand(shape);
    const int kind = random_.below(3);
    const std::string position = "iota(x0, " + std::to_string(d) + ")";
    if (kind == 0) {
      test_.text = position + " * 2 + x0";
      test_.expected = made(shape, [&](const Place& at) { return 2 * static_cast<double>(at[d]) + value_at(x, at); });
    } else if (kind == 1) {
      test_.text = "(" + position + " * x0)[::-1]";
      test_.expected = made(shape, [&](Place at) {
        at[0] = shape[0] - 1 - at[0];
        return static_cast<double>(at[d]) * value_at(x, at);
      });
    } else {
      test_.text = "sum(" + position + " * x0, 0)";
      test_.expected = made({shape.begin() + 1, shape.end()}, [&](const Place& at) {
        double sum = 0;
        for (std::int64_t i = 0; i < shape[0]; ++i) {
          Place all = at;
          all.insert(all.begin(), i);
          sum += static_cast<double>(all[d]) * value_at(x, all);
        }
        return sum;
      });
    }
  }

  void triangle() {
    const Place shape = some_shape(2);
    const IntegerArray x = operand(shape);
    const std::int64_t diagonal = between(-3, 3);
    const bool lower = random_.percent(50);
    test_.text = std::string(lower ? "tril" : "triu") + "(x0, " + std::to_string(diagonal) + ") + 1";
    test_.expected = made(shape, [&](const Place& at) {
      const std::int64_t off = at.back() - at[at.size() - 2];
      return (lower ? off <= diagonal : off >= diagonal) ? value_at(x, at) + 1 : 1.0;
    });
  }

  void extreme() {
    if (random_.percent(20)) return extreme_of_all();
    Place shape = some_shape();
    if (random_.percent(30)) shape[0] = between(40, 300);
    const auto d = static_cast<std::size_t>(between(0, static_cast<int>(shape.size()) - 1));
    const IntegerArray x = operand(shape, 3);
    const bool largest = random_.percent(50);
    const bool keeps = random_.percent(50);
    test_.text = std::string(largest ? "argmax" : "argmin") + "(x0, " + std::to_string(d) + (keeps ? ", true)" : ")");
    Place result = shape;
    result[d] = 1;
    if (!keeps) result.erase(result.begin() + static_cast<std::ptrdiff_t>(d));
    test_.expected = made(result, [&](Place at) {
      if (!keeps) at.insert(at.begin() + static_cast<std::ptrdiff_t>(d), 0);
      std::int64_t found = 0;
      double best = 0;
      for (std::int64_t i = 0; i < shape[d]; ++i) {
        at[d] = i;
        const double value = largest ? value_at(x, at) : -value_at(x, at);
        if (i == 0 || value > best) {
          best = value;
          found = i;
        }
      }
      return static_cast<double>(found);
    });
  }

  // In row-major order.
  void extreme_of_all() {
    const Place shape = some_shape();
    const IntegerArray x = operand(shape, 3);
    const bool largest = random_.percent(50);
    const bool keeps = random_.percent(50);
    test_.text = std::string(largest ? "argmax" : "argmin") + (keeps ? "(x0, keepdim=true)" : "(x0)");
    double place = 0;
    double found = 0;
    double best = -1e9;
    each_place(shape, [&](const Place& at) {
      const double value = largest ? value_at(x, at) : -value_at(x, at);
      if (value > best) found = place;
      best = std::max(best, value);
      ++place;
    });
    test_.expected = made(keeps ? Place(shape.size(), 1) : Place(), [&](const Place&) { return found; });
  }

  // ---- statistics

  void batch_norm() {
    Place shape = {between(2, 6), between(1, 5)};
    for (auto more = between(0, 2); more > 0; --more) shape.push_back(between(1, 6));
    const IntegerArray x = operand(shape);
    const IntegerArray weight = operand({shape[1]});
    const IntegerArray bias = operand({shape[1]});
    test_.text = "batch_norm(x0, x1, x2, 0.5)";
    std::vector<double> mean(static_cast<std::size_t>(shape[1]), 0.0);
    std::vector<double> square = mean;
    const double count = static_cast<double>(count_of(shape) / shape[1]);
    each_place(shape, [&](const Place& at) { mean[static_cast<std::size_t>(at[1])] += value_at(x, at) / count; });
    each_place(shape, [&](const Place& at) {
      const auto c = static_cast<std::size_t>(at[1]);
      square[c] += (value_at(x, at) - mean[c]) * (value_at(x, at) - mean[c]) / count;
    });
    test_.expected = made(shape, [&](const Place& at) {
      const auto c = static_cast<std::size_t>(at[1]);
      return (value_at(x, at) - mean[c]) / std::sqrt(square[c] + 0.5) * value_at(weight, {at[1]}) +
             value_at(bias, {at[1]});
    });
    test_.tolerance = 1e-5;
  }

  void count_nonzero() {
    const Place shape = some_shape();
    const IntegerArray x = operand(shape, 1);
    test_.text = "count_nonzero(x0, -1)";
    test_.expected = made({shape.begin(), shape.end() - 1}, [&](const Place& at) {
      double count = 0;
      for (std::int64_t i = 0; i < shape.back(); ++i) {
        Place all = at;
        all.push_back(i);
        count += value_at(x, all) != 0 ? 1 : 0;
      }
      return count;
    });
  }
};

}  // namespace

const std::vector<std::string>& view_functions() { return Draw::names(); }

ViewCase draw_view_function(std::uint64_t seed) { return Draw(seed).run(); }

}  // namespace epifuse::test
