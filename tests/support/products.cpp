// A case draws its tensors on the host; a launch takes copies of their memory on its device.
#include "support/products.hpp"
#include "support/as_written.hpp"

#include <algorithm>
#include <cmath>

#include <spdlog/fmt/fmt.h>

#include "support/random.hpp"
#include "support/shapes.hpp"
#include "support/storage.hpp"

namespace epifuse::test {
namespace {

// A tensor of which the last two dimensions may be exchanged in memory.
struct Tensor {
  Tensor(Random& random, DType type, const Dims& extents, bool transposed, bool has_gaps)
      : shape(extents), strides(extents), dtype(type) {
    std::vector<int> order;
    for (int d = 0; d < shape.size(); ++d) order.push_back(d);
    if (transposed) std::swap(order[order.size() - 2], order[order.size() - 1]);
    std::int64_t step = has_gaps ? random.between(1, 2) : 1;
    for (std::size_t i = order.size(); i-- > 0;) {
      strides[order[i]] = step;
      step *= shape[order[i]] + (has_gaps ? random.between(0, 2) : 0);
    }
    memory.resize(static_cast<std::size_t>(step + 1) * size_of(type), std::byte{0x7f});
    for_each([&](const Dims& at) {
      encode(dtype, dtype == DType::i8 ? random.between(-128, 127) : random.uniform(-1, 1), memory.data() + place(at));
    });
  }
  std::size_t place(const Dims& at) const {
    std::int64_t offset = 0;
    for (int d = 0; d < shape.size(); ++d) offset += shape[d] == 1 ? 0 : at[d] * strides[d];
    return static_cast<std::size_t>(offset) * size_of(dtype);
  }
  // The element that stands at `at` of a larger shape, to which this one broadcasts.
  double value(const Dims& at, const std::byte* in) const {
    Dims own;
    for (int d = 0; d < shape.size(); ++d) own.push_back(shape[d] == 1 ? 0 : at[d + at.size() - shape.size()]);
    return static_cast<double>(decode(dtype, in + place(own)));
  }
  double value(const Dims& at) const { return value(at, memory.data()); }
  template <class Action>
  void for_each(const Action& action) const {
    Dims at = shape;
    for (std::int64_t i = 0; i < elements_of(shape); ++i) {
      std::int64_t rest = i;
      for (int d = shape.size(); d-- > 0; rest /= shape[d]) at[d] = rest % shape[d];
      action(at);
    }
  }

  Dims shape, strides;
  DType dtype;
  std::vector<std::byte> memory;
};

// The sum of products, and of their magnitudes.
struct Sum {
  double value = 0, magnitude = 0;
};
Sum sum_at(const Tensor& left, const Tensor& right, Dims at) {
  const int rank = at.size();
  const std::int64_t row = at[rank - 2];
  const std::int64_t column = at[rank - 1];
  Sum sum;
  for (std::int64_t k = 0; k < left.shape[left.shape.size() - 1]; ++k) {
    at[rank - 2] = row;
    at[rank - 1] = k;
    const double a = left.value(at);
    at[rank - 2] = k;
    at[rank - 1] = column;
    const double product = a * right.value(at);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  return sum;
}

// Operands go by their names: x @ w and x @ v are products, b a row vector, c a column vector, r of the result's shape.
struct ProductChain {
  const char* text;
  double (*value)(double p, double q, double b, double c, double r);
};
constexpr ProductChain kChains[] = {
    {"x @ w", [](double p, double, double, double, double) { return p; }},
    {"relu(x @ w + b)", [](double p, double, double b, double, double) { return std::fmax(p + b, 0); }},
    {"(x @ w) * b + r", [](double p, double, double b, double, double r) { return p * b + r; }},
    {"t = x @ w; r - t * c", [](double p, double, double, double c, double r) { return r - p * c; }},
    {"relu(x @ w) * (x @ v)", [](double p, double q, double, double, double) { return std::fmax(p, 0) * q; }},
    {"(x @ w + b) * (x @ v) * 0.25 - r",
     [](double p, double q, double b, double, double r) { return (p + b) * q * 0.25 - r; }},
};

}  // namespace

struct ProductCase::Impl {
  const ProductChain& chain;
  Tensor left, right, other, b, c, r, out;

  static Impl draw(std::uint64_t seed, Drawn drawn) {
    Random random(seed);
    const bool tiled = drawn == Drawn::for_tiles;
    const DType type = tiled ? random.pick({DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8})
                             : random.pick({DType::f16, DType::bf16, DType::f32, DType::f64, DType::i8, DType::f8e4m3});
    Dims batches;
    for (int d = random.below(3); d-- > 0;) batches.push_back(random.between(1, 3));
    const std::int64_t rows = tiled ? random.between(1, 300) : random.between(1, 9);
    const std::int64_t columns = tiled ? 8 * random.between(1, 40) : random.between(1, 9);
    const std::int64_t depth = tiled ? (size_of(type) == 1 ? 16 : 8) * random.between(1, 24) : random.between(0, 40);
    // A factor has all batches, the last ones, or one of some.
    std::vector<bool> is_one;
    const auto shape_of = [&](std::int64_t outer, std::int64_t inner, int first) {
      Dims shape;
      for (int d = first; d < batches.size(); ++d) shape.push_back(random.percent(30) ? 1 : batches[d]);
      shape.push_back(outer);
      shape.push_back(inner);
      return shape;
    };
    const Dims left_shape = shape_of(rows, depth, random.below(batches.size() + 1));
    const Dims right_shape = shape_of(depth, columns, random.below(batches.size() + 1));
    Dims result = left_shape.size() >= right_shape.size() ? left_shape : right_shape;
    for (int d = 0; d < result.size() - 2; ++d) {
      const int l = d - (result.size() - left_shape.size());
      const int w = d - (result.size() - right_shape.size());
      result[d] = std::max(l < 0 ? 1 : left_shape[l], w < 0 ? 1 : right_shape[w]);
    }
    result[result.size() - 2] = rows;
    result[result.size() - 1] = columns;
    const bool gaps = !tiled;
    // What TMA copies has rows that are multiples of 16 bytes.
    const bool is_narrow = tiled && size_of(type) == 1;
    const bool left_transposed = random.percent(is_narrow ? 10 : 50) && (!tiled || rows % 8 == 0);
    const bool right_transposed = random.percent(is_narrow ? 90 : 50);
    const DType wide = type == DType::f16 || type == DType::f8e5m2 ? DType::f16 : DType::bf16;
    const DType of_operands = tiled && random.percent(60) ? wide : DType::f32;
    const DType of_result = type == DType::f64 ? type : tiled && random.percent(60) ? wide : DType::f32;
    return {kChains[random.below(static_cast<int>(std::size(kChains)))],
            Tensor(random, type, left_shape, left_transposed, gaps),
            Tensor(random, type, right_shape, right_transposed, gaps),
            Tensor(random, type, right_shape, right_transposed, gaps),
            Tensor(random, of_operands, {columns}, false, gaps),
            Tensor(random, of_operands, {rows, 1}, false, gaps),
            Tensor(random, of_operands, result, !tiled && random.percent(50), gaps),
            Tensor(random, of_result, result, !tiled && random.percent(50), gaps)};
  }

  const Tensor& operand(const std::string& name) const {
    return name == "x" ? left : name == "w" ? right : name == "v" ? other : name == "b" ? b : name == "c" ? c : r;
  }

  // What is wrong with that memory of the result. `is_rounded`: a product may be rounded to its factors' type before
  // the chain reads it.
  std::string judge(const std::byte* memory, bool is_rounded) const {
    std::string problem;
    const double unit = out.dtype == DType::f64 ? 0x1p-50 : 0x1p-22;
    const auto rounding_to = [&](DType type) {
      return type == DType::bf16 ? 0x1p-7 : type == DType::f16 ? 0x1p-10 : unit;
    };
    const double stored = rounding_to(out.dtype);
    const double rounded = is_rounded ? rounding_to(left.dtype) : unit;
    const auto depth = static_cast<double>(left.shape[left.shape.size() - 1]);
    out.for_each([&](const Dims& at) {
      const Sum p = sum_at(left, right, at), q = sum_at(left, other, at);
      const double want = chain.value(p.value, q.value, b.value(at), c.value(at), r.value(at));
      // No chain is steeper in a product than the other one and the operands, which are 1 at most, are large.
      const double slope = std::fabs(p.value) + std::fabs(q.value) + 2;
      // Tensor cores keep about 14 bits of sums of float8 numbers.
      const double of_a_sum = is_rounded && size_of(left.dtype) == 1 ? 0x1p-13 : unit * (depth + 2);
      const double sums = of_a_sum * (p.magnitude + q.magnitude);
      const double products = rounded * (std::fabs(p.value) + std::fabs(q.value));
      const double allowed = (sums + products) * slope + stored * (std::fabs(want) + 0.01);
      const double found = out.value(at, memory);
      if (!(std::fabs(found - want) <= allowed))
        problem = fmt::format("at {} found {}, expected {} within {}", to_string(at), found, want, allowed);
    });
    return problem;
  }
};

ProductCase::ProductCase(std::uint64_t seed, Drawn drawn) : impl_(std::make_unique<Impl>(Impl::draw(seed, drawn))) {}
ProductCase::~ProductCase() = default;

std::string ProductCase::judge(Engine& engine) const {
  const Epilogue tail = as_written(impl_->chain.text);
  std::vector<Array> arrays;
  const auto placed = [&](const Tensor& tensor) {
    const Dims bytes = {static_cast<std::int64_t>(tensor.memory.size())};
    arrays.push_back(engine.array(DType::u8, bytes, tensor.memory.data()));
    return OutputView(arrays.back().view().writable(), tensor.dtype, tensor.shape, tensor.strides);
  };
  std::vector<TensorView> inputs;
  for (const std::string& name : tail.inputs()) inputs.push_back(placed(impl_->operand(name)));
  const Dims shape = tail.result_shapes(inputs)[0];
  if (shape != impl_->out.shape) return "its shape is " + to_string(shape);
  engine.launch(tail, nullptr, placed(impl_->out), inputs);
  std::vector<std::byte> memory(impl_->out.memory.size());
  arrays.back().download(static_cast<void*>(memory.data()));
  return impl_->judge(memory.data(), engine.device().kind != Device::Kind::cpu);
}

std::string ProductCase::text() const {
  std::string text = impl_->chain.text;
  const Epilogue tail = Epilogue::parse(text);
  for (const std::string& name : tail.inputs()) {
    const Tensor& tensor = impl_->operand(name);
    text +=
        fmt::format(" {}={}{}:{}", name, to_string(tensor.dtype), to_string(tensor.shape), to_string(tensor.strides));
  }
  return text;
}

}  // namespace epifuse::test
