#include "support/row_view_functions.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "support/places.hpp"
#include "support/view_draw.hpp"

namespace epifuse::test {
namespace {

class RowViewDraw : public ViewDraw<RowViewDraw> {
 public:
  explicit RowViewDraw(std::uint64_t seed) : ViewDraw(seed) { test_.tolerance = 2e-5; }

  static std::span<const Function> functions() {
    static constexpr Function kFunctions[] = {{"rope", &RowViewDraw::rope},       {"halves", &RowViewDraw::halves},
                                              {"flipped", &RowViewDraw::flipped}, {"permuted", &RowViewDraw::permuted},
                                              {"scaled", &RowViewDraw::scaled},   {"rotated", &RowViewDraw::rotated},
                                              {"joined", &RowViewDraw::joined}};
    return kFunctions;
  }

 private:
  // Whole numbers, which every type holds.
  IntegerArray operand(const Place& shape, int most = 9) {
    return add(made(shape, [&](const Place&) { return static_cast<double>(between(-most, most)); }),
               random_.pick({DType::f32, DType::f16, DType::bf16}));
  }

  // Some rows of a few vectors, some of a few hundred elements, some of neither.
  Place row_shape() {
    const std::int64_t half = random_.percent(30)   ? 8 * between(4, 40)
                              : random_.percent(50) ? 8 * between(1, 4)
                                                    : between(1, 9);
    return {between(1, 3), between(1, 5), 2 * half};
  }

  // What stands behind whole rows of x0, along its last dimension: text and values.
  struct Rows {
    Place shape;
    std::string text;
    IntegerArray y;
  };
  Rows draw_rows() {
    Rows rows;
    rows.shape = row_shape();
    const IntegerArray x = operand(rows.shape);
    const int kind = random_.below(3);
    rows.text = std::array{"rms_norm(x0, eps=0.5)", "softmax(x0, -1)", "x0 - mean(x0, -1, keepdim=true)"}[kind];
    // By row: the sum of the elements, of their squares, of their exponentials.
    std::array<IntegerArray, 3> sums;
    for (std::size_t of = 0; of < sums.size(); ++of) {
      sums[of] = summed(rows.shape, 2, [&](const Place& at) {
        const double value = value_at(x, at);
        return of == 0 ? value : of == 1 ? value * value : std::exp(value);
      });
    }
    rows.y = made(rows.shape, [&](const Place& at) {
      const double own = value_at(x, at);
      const auto count = static_cast<double>(rows.shape.back());
      const auto sum = [&](std::size_t of) { return value_at(sums[of], {at[0], at[1]}); };
      return kind == 0   ? own / std::sqrt(sum(1) / count + 0.5)
             : kind == 1 ? std::exp(own) / sum(2)
                         : own - sum(0) / count;
    });
    return rows;
  }

  void rope() {
    const Rows rows = draw_rows();
    const std::int64_t half = rows.shape.back() / 2;
    const bool at_positions = random_.percent(50);
    const std::int64_t table_rows = at_positions ? between(1, 20) : rows.shape[1];
    const IntegerArray cosines = operand({table_rows, half});
    const IntegerArray sines = operand({table_rows, half});
    IntegerArray positions;
    if (at_positions)
      positions =
          add(made({rows.shape[1]}, [&](const Place&) { return static_cast<double>(between(0, table_rows - 1)); }),
              random_.pick({DType::i32, DType::i64}));
    const bool pairs = random_.percent(40);
    test_.text =
        "rope(" + rows.text + ", x1, x2" + (at_positions ? ", x3" : "") + (pairs ? ", interleaved=true)" : ")");
    test_.expected = made(rows.shape, [&](const Place& at) {
      const std::int64_t row = at_positions ? static_cast<std::int64_t>(value_at(positions, {at[1]})) : at[1];
      const std::int64_t k = pairs ? at[2] / 2 : at[2] % half;
      const bool second = pairs ? at[2] % 2 == 1 : at[2] >= half;
      const double one = value_at(rows.y, {at[0], at[1], pairs ? 2 * k : k});
      const double two = value_at(rows.y, {at[0], at[1], pairs ? 2 * k + 1 : k + half});
      const double c = value_at(cosines, {row, k});
      const double s = value_at(sines, {row, k});
      return second ? two * c + one * s : one * c - two * s;
    });
  }

  // A row in two halves, each beside the other.
  void halves() {
    const Rows rows = draw_rows();
    const std::int64_t half = rows.shape.back() / 2;
    test_.text = "u = unflatten(" + rows.text + ", -1, (2, -1)); u * 2 - flip(u, -2)";
    test_.expected = made({rows.shape[0], rows.shape[1], 2, half}, [&](const Place& at) {
      const double own = value_at(rows.y, {at[0], at[1], at[2] * half + at[3]});
      return own * 2 - value_at(rows.y, {at[0], at[1], (1 - at[2]) * half + at[3]});
    });
  }

  // Along a row, or rows in another order.
  void flipped() {
    const Rows rows = draw_rows();
    const auto d = static_cast<std::size_t>(between(0, 2));
    test_.text = "y = " + rows.text + "; y * 2 + flip(y, " + std::to_string(d) + ")";
    test_.expected = made(rows.shape, [&](const Place& at) {
      Place other = at;
      other[d] = rows.shape[d] - 1 - at[d];
      return value_at(rows.y, at) * 2 + value_at(rows.y, other);
    });
  }

  void permuted() {
    const Rows rows = draw_rows();
    test_.text = "permute(" + rows.text + ", (1, 0, 2))[::-1]";
    test_.expected = made({rows.shape[1], rows.shape[0], rows.shape[2]}, [&](const Place& at) {
      return value_at(rows.y, {at[1], rows.shape[1] - 1 - at[0], at[2]});
    });
  }

  // A vector along the row that goes with its elements, and a reduction of what was read.
  void scaled() {
    const Rows rows = draw_rows();
    const IntegerArray weight = operand({rows.shape[2]});
    test_.text = "y = " + rows.text + "; z = (y * x1)[..., ::-1] + y; z - amax(z, -1, keepdim=true)";
    const IntegerArray z = made(rows.shape, [&](const Place& at) {
      const std::int64_t other = rows.shape[2] - 1 - at[2];
      return value_at(rows.y, {at[0], at[1], other}) * value_at(weight, {other}) + value_at(rows.y, at);
    });
    test_.expected = below_largest(rows.shape, z);
  }

  // Rotary embedding as models spell it out: the halves in the other order, the second negative.
  void rotated() {
    const Rows rows = draw_rows();
    const std::int64_t half = rows.shape.back() / 2;
    const IntegerArray cosines = operand({rows.shape[1], 2 * half});
    const IntegerArray sines = operand({rows.shape[1], 2 * half});
    const std::string h = std::to_string(half);
    test_.text = "y = " + rows.text + "; y * x1 + cat((-y[..., " + h + ":], y[..., :" + h + "]), -1) * x2";
    test_.expected = made(rows.shape, [&](const Place& at) {
      const bool second = at[2] >= half;
      const double other = value_at(rows.y, {at[0], at[1], second ? at[2] - half : at[2] + half});
      return value_at(rows.y, at) * value_at(cosines, {at[1], at[2]}) +
             (second ? other : -other) * value_at(sines, {at[1], at[2]});
    });
  }

  // Pieces of a row in another order, with work of their own, and a reduction of them.
  void joined() {
    const Rows rows = draw_rows();
    const std::int64_t extent = rows.shape.back();
    const std::int64_t cut = between(1, extent - 1);
    const bool reduces = random_.percent(50);
    const std::string c = std::to_string(cut);
    test_.text = "y = " + rows.text + "; z = cat((y[..., " + c + ":] * 2, y[..., :" + c + "] - 1), -1); " +
                 (reduces ? "z - amax(z, -1, keepdim=true)" : "z");
    const IntegerArray z = made(rows.shape, [&](const Place& at) {
      const std::int64_t behind = extent - cut;
      return at[2] < behind ? value_at(rows.y, {at[0], at[1], at[2] + cut}) * 2
                            : value_at(rows.y, {at[0], at[1], at[2] - behind}) - 1;
    });
    test_.expected = reduces ? below_largest(rows.shape, z) : z;
  }

  // What each element lies below the largest of its row.
  static IntegerArray below_largest(const Place& shape, const IntegerArray& z) {
    const IntegerArray largest = made({shape[0], shape[1]}, [&](const Place& at) {
      double found = value_at(z, {at[0], at[1], 0});
      for (std::int64_t i = 1; i < shape[2]; ++i) found = std::max(found, value_at(z, {at[0], at[1], i}));
      return found;
    });
    return made(shape, [&](const Place& at) { return value_at(z, at) - value_at(largest, {at[0], at[1]}); });
  }
};

}  // namespace

const std::vector<std::string>& row_view_functions() { return RowViewDraw::names(); }

ViewCase draw_row_view_function(std::uint64_t seed) { return RowViewDraw(seed).run(); }

}  // namespace epifuse::test
