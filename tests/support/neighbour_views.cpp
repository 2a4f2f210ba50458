#include "support/neighbour_views.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "support/places.hpp"

namespace epifuse::test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}

  ViewCase run() {
    test_.used = {"views side by side"};
    random_.percent(50) ? pool() : slices();
    if (random_.percent(30)) add_row();
    if (random_.percent(40)) subtract_largest();
    return test_;
  }

 private:
  std::int64_t between(int low, int high) { return random_.between(low, high); }

  // Small integers, which every type holds.
  IntegerArray operand(const Place& shape) {
    test_.inputs.push_back(made(shape, [&](const Place&) { return static_cast<double>(between(0, 9)); }));
    test_.layouts.push_back(random_.percent(70) ? 0 : random_.below(4));
    static constexpr std::array kTypes = {DType::f16, DType::f16,    DType::bf16, DType::f32,
                                          DType::f64, DType::f8e4m3, DType::i8,   DType::u8};
    test_.types.push_back(random_.pick(std::span<const DType>(kTypes)));
    return test_.inputs.back();
  }

  std::int64_t length_of_rows() { return (std::int64_t{2} << random_.below(4)) * between(1, 3); }

  // Windows over the last dimension, or the last two. Behind the last window there may be elements that none has.
  void pool() {
    const bool is_max = random_.percent(50);
    const int rank = static_cast<int>(between(1, 2));
    Place size, stride, padding, dilation, shape = {between(1, 3)}, result = shape;
    for (int d = 0; d < rank; ++d) {
      size.push_back(between(1, 5));
      stride.push_back(between(1, static_cast<int>(std::max<std::int64_t>(2, size.back()))));
      padding.push_back(random_.percent(60) ? between(0, static_cast<int>(size.back() / 2)) : 0);
      dilation.push_back(is_max && random_.percent(20) ? 2 : 1);
      const std::int64_t reach = (size.back() - 1) * dilation.back() + 1;
      std::int64_t count = d + 1 == rank ? length_of_rows() : between(1, 5);
      while ((count - 1) * stride.back() + reach - 2 * padding.back() < 1) ++count;
      const auto more =
          random_.percent(50) ? static_cast<std::int64_t>(0) : between(0, static_cast<int>(stride.back()) - 1);
      result.push_back(count);
      shape.push_back((count - 1) * stride.back() + reach - 2 * padding.back() + more);
    }
    const IntegerArray x = operand(shape);
    test_.text = (is_max ? "max_pool" : "avg_pool") + std::to_string(rank) + "d(x0 + 1, " + list(size) + ", " +
                 list(stride) + ", " + list(padding) + (is_max ? ", " + list(dilation) : "") + ")";
    test_.expected = made(result, [&](const Place& place) {
      double all = is_max ? -std::numeric_limits<double>::infinity() : 0;
      each_place(size, [&](const Place& inside) {
        Place at = place;
        for (std::size_t d = 0; d < size.size(); ++d) {
          at[d + 1] = place[d + 1] * stride[d] + inside[d] * dilation[d] - padding[d];
          if (at[d + 1] < 0 || at[d + 1] >= shape[d + 1]) return;
        }
        const double value = value_at(x, at) + 1;
        all = is_max ? std::max(all, value) : all + value;
      });
      return is_max ? all : all / static_cast<double>(count_of(size));
    });
    if (!is_max) test_.tolerance = 1e-6;
  }

  // Some of the slices of one step, in any order, each with a factor. Most often each element of rows is in one.
  void slices() {
    const std::int64_t step = between(1, 4), length = length_of_rows(), count = step == 1 ? between(2, 4) : step;
    const std::int64_t begin = random_.percent(50) ? 0 : between(0, 3);
    const std::int64_t rows = between(1, 6);
    const bool is_all = random_.percent(70);
    const std::int64_t behind = random_.percent(50) ? 0 : between(0, 8);
    const Place shape = {rows, begin + (length - 1) * step + count + behind};
    const IntegerArray x = operand(shape);
    std::vector<std::int64_t> firsts;
    for (std::int64_t k = 0; k < count; ++k)
      if (is_all || k == 0 || random_.percent(70)) firsts.push_back(begin + k);
    for (std::size_t i = firsts.size(); i-- > 1;) std::swap(firsts[i], firsts[random_.below(static_cast<int>(i) + 1)]);
    for (std::size_t k = 0; k < firsts.size(); ++k) {
      const std::string end = std::to_string(firsts[k] + (length - 1) * step + 1);
      test_.text += (k == 0 ? "" : " + ") + ("x0[:, " + std::to_string(firsts[k])) + ":" + end + ":" +
                    std::to_string(step) + "] * " + std::to_string(k + 1);
    }
    test_.expected = made({rows, length}, [&](const Place& place) {
      double sum = 0;
      for (std::size_t k = 0; k < firsts.size(); ++k)
        sum += value_at(x, {place[0], firsts[k] + place[1] * step}) * static_cast<double>(k + 1);
      return sum;
    });
  }

  void add_row() {
    Place shape;
    for (const std::int64_t extent : test_.expected.shape) shape.push_back(extent);
    const std::string name = "x" + std::to_string(test_.inputs.size());
    const IntegerArray row = operand({shape.back()});
    test_.text = test_.text + " + " + name;
    const IntegerArray before = test_.expected;
    test_.expected = made(shape, [&](const Place& at) { return value_at(before, at) + value_at(row, {at.back()}); });
  }

  // A reduction of rows, which reads the views in its own kernel.
  void subtract_largest() {
    const IntegerArray before = test_.expected;
    const Place shape(before.shape.begin(), before.shape.end());
    test_.text = "t = " + test_.text + "; t - amax(t, axis=-1, keepdim=true)";
    test_.tolerance *= 16;  // differences of means are as wrong as the means
    test_.expected = made(shape, [&](const Place& place) {
      Place at = place;
      double largest = value_at(before, at);
      for (at.back() = 0; at.back() < shape.back(); ++at.back()) largest = std::max(largest, value_at(before, at));
      return value_at(before, place) - largest;
    });
  }

  Random random_;
  ViewCase test_;
};

}  // namespace

ViewCase draw_neighbour_views(std::uint64_t seed) { return Draw(seed).run(); }

}  // namespace epifuse::test
