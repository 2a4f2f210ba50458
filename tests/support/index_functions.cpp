#include "support/index_functions.hpp"

#include <algorithm>
#include <cmath>

#include "support/places.hpp"
#include "support/view_draw.hpp"

namespace epifuse::test {
namespace {

class IndexDraw : public ViewDraw<IndexDraw> {
 public:
  explicit IndexDraw(std::uint64_t seed) : ViewDraw(seed) {}

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {
        {"take", &IndexDraw::take},           {"index_select", &IndexDraw::index_select},
        {"embedding", &IndexDraw::embedding}, {"reduced", &IndexDraw::reduced},
        {"gather", &IndexDraw::gather},       {"one_hot", &IndexDraw::one_hot},
        {"rope", &IndexDraw::rope},           {"padded", &IndexDraw::padded},
        {"viewed", &IndexDraw::viewed},       {"twice", &IndexDraw::twice}};
    return kFunctions;
  }

 private:
  // Of rows: some that are a few vectors, some that are not.
  std::int64_t row_extent() { return random_.percent(50) ? 8 * between(1, 6) : between(1, 11); }
  // Whole numbers, which every type holds.
  IntegerArray table(const Place& shape, int most = 9) {
    return add(made(shape, [&](const Place&) { return static_cast<double>(between(-most, most)); }),
               random_.pick({DType::f32, DType::f32, DType::f16, DType::bf16}));
  }
  IntegerArray index(const Place& shape, std::int64_t low, std::int64_t high) {
    return add(made(shape, [&](const Place&) { return static_cast<double>(between(low, high)); }),
               random_.percent(50) ? DType::i32 : DType::i64);
  }
  Place some_shape(int least, int most) {
    Place shape;
    for (std::int64_t rank = between(least, most); rank > 0; --rank) shape.push_back(between(1, 6));
    return shape;
  }

  // A table's dimension d, and an index of some shape for it.
  struct Drawn {
    IntegerArray x, i;
    Place shape, index, result;
    std::size_t d = 0;
  };
  Drawn draw(bool from_the_end, int least_rank = 0, int most_rank = 2) {
    Drawn drawn;
    drawn.shape = some_shape(1, 3);
    drawn.d = static_cast<std::size_t>(between(0, static_cast<std::int64_t>(drawn.shape.size()) - 1));
    if (drawn.d + 1 < drawn.shape.size()) drawn.shape.back() = row_extent();
    drawn.index = some_shape(least_rank, most_rank);
    drawn.x = table(drawn.shape);
    const std::int64_t extent = drawn.shape[drawn.d];
    drawn.i = index(drawn.index, from_the_end ? -extent : 0, extent - 1);
    drawn.result = drawn.shape;
    drawn.result.erase(drawn.result.begin() + static_cast<std::ptrdiff_t>(drawn.d));
    drawn.result.insert(drawn.result.begin() + static_cast<std::ptrdiff_t>(drawn.d), drawn.index.begin(),
                        drawn.index.end());
    return drawn;
  }
  // The element of the table that stands at a place of the result.
  static double taken(const Drawn& drawn, const Place& at) {
    const auto first = at.begin() + static_cast<std::ptrdiff_t>(drawn.d);
    const auto last = first + static_cast<std::ptrdiff_t>(drawn.index.size());
    auto position = static_cast<std::int64_t>(value_at(drawn.i, Place(first, last)));
    if (position < 0) position += drawn.shape[drawn.d];
    Place from(at.begin(), first);
    from.push_back(position);
    from.insert(from.end(), last, at.end());
    return value_at(drawn.x, from);
  }

  void take() {
    const Drawn drawn = draw(true);
    const bool from_the_back = random_.percent(50);
    const std::int64_t axis =
        static_cast<std::int64_t>(drawn.d) - (from_the_back ? static_cast<std::int64_t>(drawn.shape.size()) : 0);
    const bool is_computed = random_.percent(50);
    test_.text =
        std::string("take(") + (is_computed ? "relu(x0) + 1" : "x0") + ", x1, " + std::to_string(axis) + ") * 2";
    test_.expected = made(drawn.result, [&](const Place& at) {
      const double x = taken(drawn, at);
      return 2 * (is_computed ? std::max(x, 0.0) + 1 : x);
    });
  }

  void index_select() {
    const Drawn drawn = draw(false, 1, 1);
    test_.text = "index_select(x0, " + std::to_string(drawn.d) + ", x1)";
    test_.expected = made(drawn.result, [&](const Place& at) { return taken(drawn, at); });
  }

  struct Embedding {
    IntegerArray ids, weight;
    Place result;
  };
  Embedding draw_embedding() {
    Embedding e;
    const std::int64_t rows = between(1, 20);
    e.result = some_shape(1, 2);
    if (random_.percent(30)) e.result[0] = between(20, 90);
    e.ids = index(e.result, 0, rows - 1);
    const std::int64_t width = row_extent();
    e.weight = table({rows, width});
    e.result.push_back(width);
    return e;
  }
  static double row_element(const Embedding& e, const Place& at) {
    const auto row = static_cast<std::int64_t>(value_at(e.ids, Place(at.begin(), at.end() - 1)));
    return value_at(e.weight, {row, at.back()});
  }

  void embedding() {
    const Embedding e = draw_embedding();
    const IntegerArray bias = table({e.result.back()});
    test_.text = "relu(embedding(x0, x1) + x2)";
    test_.expected = made(
        e.result, [&](const Place& at) { return std::max(row_element(e, at) + value_at(bias, {at.back()}), 0.0); });
  }

  // One class of each row: the logarithm of its share, as a cross entropy has it.
  void log_softmax() {
    const Place shape = {between(1, 9), between(2, 40)};
    const IntegerArray x = table(shape, 3);
    const IntegerArray i = index({between(1, shape[0]), 1}, 0, shape[1] - 1);
    test_.text = "-gather(log_softmax(x0, 1), 1, x1)";
    test_.expected = made({i.shape[0], 1}, [&](const Place& at) {
      double sum = 0;
      for (std::int64_t k = 0; k < shape[1]; ++k) sum += std::exp(value_at(x, {at[0], k}));
      return std::log(sum) - value_at(x, {at[0], static_cast<std::int64_t>(value_at(i, at))});
    });
    test_.tolerance = 1e-5;
  }

  void reduced() {
    if (random_.percent(30)) return log_softmax();
    const Embedding e = draw_embedding();
    const bool over_rows = random_.percent(50);
    Place result = e.result;
    const std::size_t d = over_rows ? result.size() - 1 : 0;
    const std::int64_t extent = result[d];
    result.erase(result.begin() + static_cast<std::ptrdiff_t>(d));
    const auto at_all = [&](const Place& at, const auto& visit) {
      for (std::int64_t k = 0; k < extent; ++k) {
        Place place = at;
        place.insert(place.begin() + static_cast<std::ptrdiff_t>(d), k);
        visit(row_element(e, place));
      }
    };
    if (!over_rows || random_.percent(40)) {
      test_.text = "sum(embedding(x0, x1) * 2, " + std::to_string(d) + ")";
      test_.expected = made(result, [&](const Place& at) {
        double sum = 0;
        at_all(at, [&](double x) { sum += 2 * x; });
        return sum;
      });
      return;
    }
    test_.text = "layer_norm(embedding(x0, x1), eps=0.5)";
    test_.expected = made(e.result, [&](const Place& at) {
      const Place row(at.begin(), at.end() - 1);
      double mean = 0;
      double square = 0;
      at_all(row, [&](double x) { mean += x / static_cast<double>(extent); });
      at_all(row, [&](double x) { square += (x - mean) * (x - mean) / static_cast<double>(extent); });
      return (row_element(e, at) - mean) / std::sqrt(square + 0.5);
    });
    test_.tolerance = 1e-5;
  }

  void gather() {
    const Place shape = some_shape(1, 3);
    const auto d = static_cast<std::size_t>(between(0, static_cast<std::int64_t>(shape.size()) - 1));
    const IntegerArray x = table(shape);
    Place result;
    for (std::size_t k = 0; k < shape.size(); ++k) result.push_back(between(1, k == d ? 12 : shape[k]));
    const IntegerArray i = index(result, 0, shape[d] - 1);
    test_.text = "gather(x0, " + std::to_string(d) + ", x1) + 1";
    test_.expected = made(result, [&](Place at) {
      at[d] = static_cast<std::int64_t>(value_at(i, at));
      return value_at(x, at) + 1;
    });
  }

  void one_hot() {
    Place result = some_shape(1, 3);
    const std::int64_t classes = between(1, 12);
    const IntegerArray i = index(result, 0, classes - 1);
    result.push_back(classes);
    const bool is_scaled = random_.percent(50);
    const IntegerArray scale = is_scaled ? table({classes}) : IntegerArray();
    test_.text = "one_hot(x0, " + std::to_string(classes) + ")" + (is_scaled ? " * x1" : "");
    test_.expected = made(result, [&](const Place& at) {
      const double one = value_at(i, {at.begin(), at.end() - 1}) == static_cast<double>(at.back()) ? 1 : 0;
      return is_scaled ? one * value_at(scale, {at.back()}) : one;
    });
  }

  void rope() {
    const std::int64_t half = random_.percent(50) ? 8 * between(1, 3) : between(1, 8);
    const Place shape = {between(1, 3), between(1, 4), between(1, 5), 2 * half};
    const std::int64_t rows = between(1, 30);
    const IntegerArray x = table(shape);
    const IntegerArray cosines = table({rows, half});
    const IntegerArray sines = table({rows, half});
    const bool is_batched = random_.percent(50);
    const IntegerArray positions = index(is_batched ? Place{shape[0], 1, shape[2]} : Place{shape[2]}, 0, rows - 1);
    const bool pairs = random_.percent(50);
    test_.text = std::string("rope(x0, x1, x2, x3") + (pairs ? ", interleaved=true)" : ")");
    test_.expected = made(shape, [&](const Place& at) {
      const auto row =
          static_cast<std::int64_t>(value_at(positions, is_batched ? Place{at[0], 0, at[2]} : Place{at[2]}));
      const std::int64_t k = pairs ? at[3] / 2 : at[3] % half;
      const bool second = pairs ? at[3] % 2 == 1 : at[3] >= half;
      const double one = value_at(x, {at[0], at[1], at[2], pairs ? 2 * k : k});
      const double two = value_at(x, {at[0], at[1], at[2], pairs ? 2 * k + 1 : k + half});
      const double c = value_at(cosines, {row, k});
      const double s = value_at(sines, {row, k});
      return second ? two * c + one * s : one * c - two * s;
    });
  }

  // Elements that do not exist, among those that are read at indices.
  void padded() {
    const Embedding e = draw_embedding();
    const std::int64_t before = between(0, 3);
    const std::int64_t above = between(0, 3);
    Place result = e.result;
    result.back() += before + 1;
    result[result.size() - 2] += above + 2;
    test_.text =
        "pad(embedding(x0, x1), (" + std::to_string(before) + ", 1, " + std::to_string(above) + ", 2), value=7) + 1";
    test_.expected = made(result, [&](Place at) {
      at.back() -= before;
      at[at.size() - 2] -= above;
      bool exists = true;
      for (std::size_t d = 0; d < at.size(); ++d) exists = exists && at[d] >= 0 && at[d] < e.result[d];
      return (exists ? row_element(e, at) : 7) + 1;
    });
  }

  // Views of the table, of the index and of what is read.
  void viewed() {
    const std::int64_t rows = between(2, 12);
    const std::int64_t width = row_extent();
    const std::int64_t count = between(2, 9);
    const IntegerArray x = table({width, rows});
    const IntegerArray i = index({count, 2}, 0, (rows - 1) / 2);
    // Every second column of the table is a row of what is read; the index is a column from back to front.
    test_.text = "transpose(index_select(transpose(x0, 0, 1)[::2], 0, x1[::-1, 1])[1:], 0, 1) - 1";
    test_.expected = made({width, count - 1}, [&](const Place& at) {
      const auto row = static_cast<std::int64_t>(value_at(i, {count - 2 - at[1], 1}));
      return value_at(x, {at[0], 2 * row}) - 1;
    });
  }

  // One table at two indices, and two tables at one.
  void twice() {
    const std::int64_t rows = between(1, 9);
    const std::int64_t columns = between(1, 9);
    const std::int64_t count = between(1, 7);
    const IntegerArray x = table({rows, columns});
    const IntegerArray y = table({rows, columns});
    const IntegerArray i = index({count}, 0, rows - 1);
    const IntegerArray k = index({between(1, 7)}, 0, columns - 1);
    test_.text = "take(take(x0, x2), x3, 1) + take(x1, x2)[:, :1] * x2[:, None]";
    test_.expected = made({count, k.shape[0]}, [&](const Place& at) {
      const double first = value_at(i, {at[0]});
      const auto row = static_cast<std::int64_t>(first);
      const auto column = static_cast<std::int64_t>(value_at(k, {at[1]}));
      return value_at(x, {row, column}) + value_at(y, {row, 0}) * first;
    });
  }
};

}  // namespace

const std::vector<std::string>& index_functions() { return IndexDraw::names(); }

ViewCase draw_index_function(std::uint64_t seed) { return IndexDraw(seed).run(); }

}  // namespace epifuse::test
