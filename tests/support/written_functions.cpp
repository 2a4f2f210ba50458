#include "support/written_functions.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "support/places.hpp"
#include "support/view_draw.hpp"

namespace epifuse::test {
namespace {

class WrittenDraw : public ViewDraw<WrittenDraw> {
 public:
  explicit WrittenDraw(std::uint64_t seed) : ViewDraw(seed) { test_.tolerance = 4e-5; }

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {{"windows of a row", &WrittenDraw::windows_of_row},
                                              {"windows of several rows", &WrittenDraw::windows_across},
                                              {"windows of groups", &WrittenDraw::windows_of_groups},
                                              {"slices", &WrittenDraw::slices},
                                              {"slices of columns", &WrittenDraw::slices_of_columns},
                                              {"slices of a table", &WrittenDraw::slices_of_table},
                                              {"slices with operands", &WrittenDraw::slices_with_operands},
                                              {"joined slices", &WrittenDraw::joined_slices}};
    return kFunctions;
  }

  // Two rows, whose elements, more than registers hold, lie in one dimension or in two.
  ViewCase run_long() {
    const bool is_f16 = random_.percent(40);
    const std::int64_t elements = between(17'000, random_.percent(60) ? 27'000 : 36'000) * (is_f16 ? 2 : 1);
    const bool is_plane = random_.percent(50);
    const std::int64_t width = between(100, 300);
    const Place shape = is_plane ? Place{1, 2, elements / width, width} : Place{1, 2, elements};
    const IntegerArray x = add(made(shape, [&](const Place&) { return static_cast<double>(between(-9, 9)); }),
                               is_f16 ? DType::f16 : DType::f32);
    test_.layouts.back() = 0;
    test_.used = {"long rows"};
    const Rows rows = behind_rows("x0", shape, is_plane ? Place{2, 3} : Place{2}, x);
    Place sizes = {between(3, 6)};
    if (is_plane) sizes.push_back(between(2, 5));
    pool(rows, sizes, rows.text);
    return test_;
  }

 private:
  // Whole numbers, which every type holds.
  IntegerArray operand(const Place& shape, int most = 9) {
    return add(made(shape, [&](const Place&) { return static_cast<double>(between(-most, most)); }),
               random_.pick({DType::f32, DType::f16, DType::bf16}));
  }

  struct Rows {
    Place shape;
    std::string text;
    IntegerArray y;
  };

  // What stands behind rows of `x`, which has that text: these dimensions are reduced.
  Rows behind_rows(const std::string& of, const Place& shape, const Place& axes, const IntegerArray& x) {
    struct Sums {
      double of_values = 0, of_squares = 0, of_exponentials = 0, count = 0;
    };
    const auto key_of = [&](Place at) {
      for (const std::int64_t d : axes) at[static_cast<std::size_t>(d)] = 0;
      return at;
    };
    std::map<Place, Sums> sums;
    each_place(shape, [&](const Place& at) {
      const double value = value_at(x, at);
      Sums& own = sums[key_of(at)];
      own.of_values += value;
      own.of_squares += value * value;
      own.of_exponentials += std::exp(value);
      own.count += 1;
    });
    const int kind = random_.below(axes.size() == 1 ? 3 : 2);
    const std::string over = list(axes);
    const std::string mean = "mean(" + of + ", axis=" + over + ", keepdim=true)";
    Rows rows{shape, "", {}};
    rows.text = kind == 0   ? "(" + of + " - " + mean + ")"
                : kind == 1 ? "(" + of + " - " + mean + ") * rsqrt(var(" + of + ", axis=" + over +
                                  ", correction=0, keepdim=true) + 0.5)"
                            : "softmax(" + of + ", " + std::to_string(axes[0]) + ")";
    rows.y = made(shape, [&](const Place& at) {
      const Sums& own = sums.at(key_of(at));
      const double value = value_at(x, at);
      const double middle = own.of_values / own.count;
      return kind == 0   ? value - middle
             : kind == 1 ? (value - middle) / std::sqrt(own.of_squares / own.count - middle * middle + 0.5)
                         : std::exp(value) / own.of_exponentials;
    });
    return rows;
  }

  std::int64_t extent() {
    return random_.percent(30) ? 8 * between(4, 40) : random_.percent(50) ? 8 * between(1, 4) : between(2, 19);
  }

  // Windows of those sizes over the last dimensions, without overlap; what they do not cover is left out.
  void pool(const Rows& rows, const Place& sizes, const std::string& text) {
    const bool is_largest = random_.percent(60);
    const std::size_t first = rows.shape.size() - sizes.size();
    test_.text = (is_largest ? "max_pool" : "avg_pool") + std::to_string(sizes.size()) + "d(" + text + ", " +
                 list(sizes) + ") * 2 - 1";
    Place shape = rows.shape;
    for (std::size_t d = 0; d < sizes.size(); ++d) shape[first + d] /= sizes[d];
    test_.expected = made(shape, [&](const Place& at) {
      double sum = 0;
      double largest = -std::numeric_limits<double>::infinity();
      each_place(sizes, [&](const Place& of) {
        Place from = at;
        for (std::size_t d = 0; d < sizes.size(); ++d) from[first + d] = at[first + d] * sizes[d] + of[d];
        sum += value_at(rows.y, from);
        largest = std::max(largest, value_at(rows.y, from));
      });
      return (is_largest ? largest : sum / static_cast<double>(count_of(sizes))) * 2 - 1;
    });
  }

  void windows_of_row() {
    const Place shape = {between(1, 4), between(1, 5), extent()};
    const Rows rows = behind_rows("x0", shape, {2}, operand(shape));
    pool(rows, {between(2, std::min<std::int64_t>(shape[2], 9))}, rows.text);
  }

  // Of two or three dimensions, the last of which makes rows, or the last two.
  void windows_across() {
    const bool is_volume = random_.percent(40);
    Place shape = {between(1, 3), between(1, 3)};
    if (is_volume) shape.push_back(between(2, 5));
    shape.push_back(between(2, 6));
    shape.push_back(random_.percent(30) ? 8 * between(1, 8) : between(2, 19));
    const auto last = static_cast<std::int64_t>(shape.size()) - 1;
    const Rows rows =
        behind_rows("x0", shape, random_.percent(60) ? Place{last} : Place{last - 1, last}, operand(shape));
    Place sizes(is_volume ? 3 : 2, 2);
    if (!is_volume && shape[3] >= 4 && random_.percent(40)) sizes[1] = between(2, 4);
    pool(rows, sizes, rows.text);
  }

  void windows_of_groups() {
    const std::int64_t groups = between(1, 3);
    const std::int64_t channels = between(1, 4);
    const Place shape = {between(1, 3), groups * channels, between(2, 13), between(2, 13)};
    const IntegerArray x = operand(shape);
    const IntegerArray weight = operand({shape[1]}, 3);
    const IntegerArray bias = operand({shape[1]}, 3);
    Rows rows{shape, "group_norm(x0, " + std::to_string(groups) + ", x1, x2, eps=0.5)", {}};
    const auto row_of = [&](const Place& at) { return Place{at[0], at[1] / channels}; };
    std::map<Place, std::vector<double>> values;
    each_place(shape, [&](const Place& at) { values[row_of(at)].push_back(value_at(x, at)); });
    rows.y = made(shape, [&](const Place& at) {
      const std::vector<double>& own = values.at(row_of(at));
      double mean = 0;
      for (const double value : own) mean += value / static_cast<double>(own.size());
      double variance = 0;
      for (const double value : own) variance += (value - mean) * (value - mean) / static_cast<double>(own.size());
      return (value_at(x, at) - mean) / std::sqrt(variance + 0.5) * value_at(weight, {at[1]}) + value_at(bias, {at[1]});
    });
    pool(rows, {between(1, 2), between(2, 3) - (shape[3] < 3 ? 1 : 0)}, rows.text);
  }

  struct Taken {
    std::int64_t start, step, count;
    std::string text;
    std::int64_t at(std::int64_t i) const { return start + step * i; }
  };
  // Some elements of a dimension, but not all.
  Taken some_of(std::int64_t extent) {
    const std::int64_t step = between(1, 3);
    const std::int64_t start = between(0, extent - 2);
    const std::int64_t end = between(start + 1, extent - (start == 0 && step == 1 ? 1 : 0));
    const std::int64_t count = (end - start + step - 1) / step;
    return {start, step, count,
            std::to_string(start) + ":" + std::to_string(end) + (step == 1 ? "" : ":" + std::to_string(step))};
  }

  void slices() {
    const Place shape = {between(1, 4), between(1, 5), extent()};
    const Rows rows = behind_rows("x0", shape, random_.percent(70) ? Place{2} : Place{1, 2}, operand(shape));
    const Taken taken = some_of(shape[2]);
    test_.text = "y = " + rows.text + "; y[..., " + taken.text + "] + 1";
    test_.expected = made({shape[0], shape[1], taken.count}, [&](const Place& at) {
      return value_at(rows.y, {at[0], at[1], taken.at(at[2])}) + 1;
    });
  }

  // The rows lie side by side in memory.
  void slices_of_columns() {
    const Place shape = {between(1, 3), between(2, 40), extent()};
    const Rows rows = behind_rows("x0", shape, {1}, operand(shape));
    const Taken taken = some_of(shape[1]);
    test_.text = "y = " + rows.text + "; abs(y[:, " + taken.text + "])";
    test_.expected = made({shape[0], taken.count, shape[2]}, [&](const Place& at) {
      return std::abs(value_at(rows.y, {at[0], taken.at(at[1]), at[2]}));
    });
  }

  void slices_of_table() {
    const Place table = {between(2, 12), extent()};
    const IntegerArray x = operand(table);
    const std::int64_t count = between(1, 20);
    const IntegerArray ids =
        add(made({count}, [&](const Place&) { return static_cast<double>(between(0, table[0] - 1)); }),
            random_.pick({DType::i32, DType::i64}));
    const Place shape = {count, table[1]};
    const IntegerArray read = made(shape, [&](const Place& at) {
      return value_at(x, {static_cast<std::int64_t>(value_at(ids, {at[0]})), at[1]});
    });
    const Rows rows = behind_rows("take(x0, x1)", shape, {1}, read);
    const Taken taken = some_of(shape[1]);
    test_.text = "y = " + rows.text + "; y[:, " + taken.text + "] * 2";
    test_.expected = made({count, taken.count}, [&](const Place& at) {
      return value_at(rows.y, {at[0], taken.at(at[1])}) * 2;
    });
  }

  // Of one size, each of which is a result of the kernel, or the second with one element of each row.
  void joined_slices() {
    const Place shape = {between(1, 4), between(1, 5), extent() + 2};
    const Rows rows = behind_rows("x0", shape, {2}, operand(shape));
    const std::int64_t cut = between(1, shape[2] - 2);
    const std::int64_t first = std::min(cut, shape[2] - 1 - cut);
    const std::int64_t second = random_.percent(70) ? first : 1;
    test_.text = "y = " + rows.text + "; cat((y[..., :" + std::to_string(first) + "] * 2, y[..., " +
                 std::to_string(cut) + ":" + std::to_string(cut + second) + "]), -1)";
    test_.expected = made({shape[0], shape[1], first + second}, [&](const Place& at) {
      return at[2] < first ? value_at(rows.y, at) * 2 : value_at(rows.y, {at[0], at[1], at[2] - first + cut});
    });
  }

  // What is written has operands of its own, with an element for each, for each row, and for each place of a row.
  void slices_with_operands() {
    const Place shape = {between(1, 4), between(1, 5), extent()};
    const Rows rows = behind_rows("x0", shape, {2}, operand(shape));
    const Taken taken = some_of(shape[2]);
    const Place written = {shape[0], shape[1], taken.count};
    const IntegerArray residual = operand(written);
    const IntegerArray scale = operand({shape[1], 1});
    const IntegerArray bias = operand({taken.count});
    test_.text = "y = " + rows.text + "; (y[..., " + taken.text + "] + x1) * x2 + x3";
    test_.expected = made(written, [&](const Place& at) {
      return (value_at(rows.y, {at[0], at[1], taken.at(at[2])}) + value_at(residual, at)) *
                 value_at(scale, {at[1], 0}) +
             value_at(bias, {at[2]});
    });
  }
};

}  // namespace

const std::vector<std::string>& written_functions() { return WrittenDraw::names(); }

ViewCase draw_written_function(std::uint64_t seed) { return WrittenDraw(seed).run(); }

ViewCase draw_written_of_long_rows(std::uint64_t seed) { return WrittenDraw(seed).run_long(); }

}  // namespace epifuse::test
