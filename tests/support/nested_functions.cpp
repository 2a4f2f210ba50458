#include "support/nested_functions.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "support/places.hpp"

namespace epifuse::test {
namespace {

// x0 has four dimensions, of which the inner reduction takes some and the outer one dimension 1.
class NestedDraw {
 public:
  explicit NestedDraw(std::uint64_t seed) : random_(seed) {}

  ViewCase run() {
    const std::string& name = random_.pick(std::span<const std::string>(nested_functions()));
    test_.used = {name};
    test_.tolerance = 4e-5;
    draw_shape();
    draw_inner();
    draw_outer(name);
    return test_;
  }

 private:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return random_.between(static_cast<int>(low), static_cast<int>(high));
  }

  IntegerArray operand(const Place& shape, int most) {
    test_.inputs.push_back(made(shape, [&](const Place&) { return static_cast<double>(between(-most, most)); }));
    test_.layouts.push_back(random_.percent(60) ? 0 : random_.below(4));
    test_.types.push_back(random_.pick({DType::f32, DType::f16, DType::bf16}));
    return test_.inputs.back();
  }

  // Lines of whole vectors and others; rows of a thread, of a few, of a block.
  void draw_shape() {
    static const std::vector<std::vector<std::size_t>> kAxes = {{2}, {3}, {0}, {2, 3}, {0, 2}};
    axes_ = random_.pick(std::span<const std::vector<std::size_t>>(kAxes));
    shape_ = {between(1, 4), random_.percent(20) ? between(60, 200) : between(1, 20), between(1, 7),
              random_.percent(40) ? 8 * between(1, 5) : between(1, 9)};
    // Each element that an inner reduction takes is an operand, of which there are 64 at most.
    const bool takes_two_operands = axes_.size() == 1 && random_.percent(40);
    has_factor_ = takes_two_operands;
    const std::int64_t most = takes_two_operands ? 32 : 64;
    for (std::int64_t count = most + 1; count > most;) {
      count = 1;
      for (const std::size_t d : axes_) count *= shape_[d];
      if (count > most) shape_[axes_.back()] = std::max<std::int64_t>(shape_[axes_.back()] / 2, 1);
    }
  }

  bool is_reduced(std::size_t d) const { return std::ranges::find(axes_, d) != axes_.end(); }

  // What the inner reduction takes, which may be a view: dimensions in another order, or every second element.
  std::pair<std::string, IntegerArray> draw_operand(int most) {
    const int kind = random_.below(4);
    if (kind == 0) {
      const IntegerArray stored = operand({shape_[1], shape_[0], shape_[2], shape_[3]}, most);
      return {"permute(x0, (1, 0, 2, 3))", made(shape_, [&](const Place& at) {
                return value_at(stored, {at[1], at[0], at[2], at[3]});
              })};
    }
    if (kind == 1) {
      const IntegerArray stored = operand({shape_[0], shape_[1], 2 * shape_[2], shape_[3]}, most);
      return {"x0[:, :, ::2]", made(shape_, [&](const Place& at) {
                return value_at(stored, {at[0], at[1], 2 * at[2], at[3]});
              })};
    }
    return {"x0", operand(shape_, most)};
  }

  // The values of the inner reduction, with its dimensions of one element.
  void draw_inner() {
    static constexpr std::array<const char*, 5> kNames = {"mean", "sum", "amax", "amin", "prod"};
    const auto kind = static_cast<std::size_t>(random_.below(5));
    const auto drawn = draw_operand(kind == 4 ? 1 : 4);
    const std::string& name = drawn.first;
    const IntegerArray& x = drawn.second;
    std::string argument = name;
    IntegerArray factor;
    if (has_factor_) {
      factor = operand({shape_[1], 1, 1}, 2);
      argument = "abs(" + name + ") * x1";
    }
    const auto element = [&](const Place& at) {
      return has_factor_ ? std::abs(value_at(x, at)) * value_at(factor, {at[1], 0, 0}) : value_at(x, at);
    };
    keeps_ = random_.percent(60);
    Place axes;
    for (const std::size_t d : axes_) axes.push_back(static_cast<std::int64_t>(d) - (random_.percent(30) ? 4 : 0));
    text_ = std::string(kNames.at(kind)) + "(" + argument +
            ", axis=" + (axes.size() == 1 ? std::to_string(axes[0]) : list(axes)) + (keeps_ ? ", keepdim=true)" : ")");
    Place kept = shape_;
    std::int64_t count = 1;
    for (const std::size_t d : axes_) count *= std::exchange(kept[d], 1);
    inner_ = made(kept, [&](const Place& at) {
      double all = kind == 2   ? -std::numeric_limits<double>::infinity()
                   : kind == 3 ? std::numeric_limits<double>::infinity()
                   : kind == 4 ? 1
                               : 0;
      Place taken(shape_.size(), 1);
      for (const std::size_t d : axes_) taken[d] = shape_[d];
      each_place(taken, [&](const Place& of) {
        Place from = at;
        for (const std::size_t d : axes_) from[d] = of[d];
        const double value = element(from);
        all = kind == 2   ? std::max(all, value)
              : kind == 3 ? std::min(all, value)
              : kind == 4 ? all * value
                          : all + value;
      });
      return kind == 0 ? all / static_cast<double>(count) : all;
    });
    if (keeps_ && random_.percent(50)) {  // between both reductions
      const std::string number = std::to_string(test_.inputs.size());
      const IntegerArray bias = operand({shape_[1], 1, 1}, 3);
      text_ = text_ + " * 0.5 + x" + number;
      const IntegerArray before = inner_;
      inner_ = made(kept, [&](const Place& at) { return value_at(before, at) * 0.5 + value_at(bias, {at[1], 0, 0}); });
    }
    kept_ = kept;
  }

  // Over the channels of each place.
  using OfChannels = std::function<double(const std::vector<double>&)>;
  IntegerArray over_channels(const OfChannels& reduce) const {
    Place shape = kept_;
    shape[1] = 1;
    return made(shape, [&](const Place& at) {
      std::vector<double> values;
      for (std::int64_t c = 0; c < kept_[1]; ++c) {
        Place from = at;
        from[1] = c;
        values.push_back(value_at(inner_, from));
      }
      return reduce(values);
    });
  }

  void draw_outer(const std::string& name) {
    // Without the dimensions that were reduced before it, the channels have another number.
    const std::string axis = !keeps_ && is_reduced(0) ? "0" : "1";
    const IntegerArray largest =
        over_channels([](const std::vector<double>& values) { return *std::ranges::max_element(values); });
    const auto largest_at = [&](Place at) {
      at[1] = 0;
      return value_at(largest, at);
    };
    IntegerArray reduced;
    if (name == "logsumexp" || name == "softmax") {
      reduced = over_channels([](const std::vector<double>& values) {
        const double top = *std::ranges::max_element(values);
        double sum = 0;
        for (const double value : values) sum += std::exp(value - top);
        return sum;
      });
    } else {
      reduced = over_channels([](const std::vector<double>& values) {
        double sum = 0;
        for (const double value : values) sum += value;
        return sum / static_cast<double>(values.size());
      });
    }
    const auto reduced_at = [&](Place at) {
      at[1] = 0;
      return value_at(reduced, at);
    };
    At result;
    Place shape = kept_;
    if (name == "logsumexp") {
      test_.text = "logsumexp(" + text_ + ", axis=" + axis + ", keepdim=true) * 2";
      result = [&](const Place& at) { return (std::log(reduced_at(at)) + largest_at(at)) * 2; };
      shape[1] = 1;
    } else if (name == "softmax") {
      test_.text = "tanh(softmax(" + text_ + ", axis=" + axis + ")) * 2";
      result = [&](const Place& at) {
        return std::tanh(std::exp(value_at(inner_, at) - largest_at(at)) / reduced_at(at)) * 2;
      };
    } else if (name == "centred") {
      test_.text = "y = " + text_ + "; y - mean(y, axis=" + axis + ", keepdim=true)";
      result = [&](const Place& at) { return value_at(inner_, at) - reduced_at(at); };
    } else {  // "summed": and everything behind it is one number
      test_.text = "sum(logsumexp(" + text_ + ", axis=" + axis + "))";
      const IntegerArray all = over_channels([](const std::vector<double>& values) {
        const double top = *std::ranges::max_element(values);
        double sum = 0;
        for (const double value : values) sum += std::exp(value - top);
        return std::log(sum) + top;
      });
      double sum = 0;
      for (const double value : all.values) sum += value;
      test_.expected.values = {sum};
      return;
    }
    test_.expected = made(shape, result);
    if (keeps_) return;
    Dims without;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      if (!is_reduced(d)) without.push_back(shape[d]);
    }
    test_.expected.shape = without;
  }

  Random random_;
  ViewCase test_;
  Place shape_;
  std::vector<std::size_t> axes_;  // of the inner reduction
  bool has_factor_ = false;
  bool keeps_ = true;
  std::string text_;    // of what the outer reduction takes
  IntegerArray inner_;  // its values
  Place kept_;          // and their shape
};

}  // namespace

const std::vector<std::string>& nested_functions() {
  static const std::vector<std::string> names = {"softmax", "logsumexp", "centred", "summed"};
  return names;
}

ViewCase draw_nested_function(std::uint64_t seed) { return NestedDraw(seed).run(); }

}  // namespace epifuse::test
