// Arguments: bit patterns at equal steps (every exponent, both signs, denormals) and an equal share of usual numbers.
#include "support/ulp.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "support/chain.hpp"
#include "support/oracle.hpp"
#include "support/random.hpp"
#include "support/storage.hpp"

namespace epifuse::test {
namespace {

template <class T>
std::vector<T> first_arguments(int points) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  std::vector<T> values;
  const Bits step = static_cast<Bits>(~Bits{0} / static_cast<Bits>(points / 2));
  for (int i = 0; i < points / 2; ++i) {
    const T value = std::bit_cast<T>(static_cast<Bits>(static_cast<Bits>(i) * step + static_cast<Bits>(i) * 7919));
    values.push_back(std::isnan(value) ? T{0} : value);
    values.push_back(static_cast<T>(-24 + 48.0 * i / (points / 2)));
  }
  return values;
}

// Exponents, slopes, alphas: usual numbers, both signs for pow.
template <class T>
std::vector<T> other_arguments(std::string_view name, std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    values.push_back(static_cast<T>(name == "pow" ? random.uniform(-10, 10) : random.uniform(0.0625, 4)));
  }
  return values;
}

// What a correct function cannot be measured on: the formula that PyTorch documents gives up earlier than the real
// function.
bool is_measurable(const Definition& d, const Range& expected) {
  return d.shape == Shape::monotone || d.shape == Shape::wave || d.shape == Shape::power || !expected.is_anything();
}

template <class T>
double error_of(long double real, T found, DType type) {
  const bool same_class = std::isnan(real) == std::isnan(found);
  if (std::isnan(real) || std::isnan(found)) return same_class ? 0 : INFINITY;
  if (std::isinf(found)) {
    // The next number after the largest would be where infinity stands.
    const long double beyond = largest(type) + spacing(type, largest(type));
    const long double reach = std::fabs(real) >= beyond ? 0 : (beyond - std::fabs(real)) / spacing(type, largest(type));
    return std::signbit(real) == std::signbit(found) ? static_cast<double>(reach) : INFINITY;
  }
  if (std::isinf(real)) return INFINITY;
  if (real == 0) return found == 0 ? 0 : INFINITY;
  const long double clamped = std::min(std::fabs(real), largest(type));
  return static_cast<double>(std::fabs(real - found) / spacing(type, clamped));
}

template <class T>
UlpRow sweep(Engine& engine, const Definition& definition, int points) {
  constexpr DType kType = sizeof(T) == 4 ? DType::f32 : DType::f64;
  constexpr Compute kCompute = sizeof(T) == 4 ? Compute::f32 : Compute::f64;
  std::vector<std::vector<T>> arguments = {first_arguments<T>(points)};
  for (int i = 1; i < definition.arity; ++i) {
    arguments.push_back(other_arguments<T>(definition.name, arguments[0].size(), static_cast<std::uint64_t>(i)));
    if (i == 2) std::fill(arguments[2].begin(), arguments[2].end(), T{20});  // softplus' threshold
  }
  const Dims shape = {static_cast<std::int64_t>(arguments[0].size())};
  Chain chain;
  std::vector<int> args;
  std::vector<Array> arrays;
  std::vector<TensorView> views;
  for (int i = 0; i < definition.arity; ++i) {
    args.push_back(chain.input(i));
    arrays.push_back(engine.array(kType, shape, arguments[static_cast<std::size_t>(i)].data()));
    views.push_back(arrays.back().view());
  }
  chain.results = {chain.op(definition.name, args)};
  Array out = engine.empty(kType, shape);
  const OutputView view = out.view();
  engine.launch(to_epilogue(chain), nullptr, std::span(&view, 1), views);
  engine.synchronize();
  std::vector<T> found(arguments[0].size());
  out.download(found.data());

  UlpRow row{
      .name = definition.name, .compute = kCompute, .allowed = ulps(definition, kCompute), .arity = definition.arity};
  for (std::size_t i = 0; i < found.size(); ++i) {
    double a[3] = {0, 0, 0};
    Range ranges[3];
    for (std::size_t k = 0; k < arguments.size(); ++k)
      ranges[k] = Range::of(a[k] = static_cast<double>(arguments[k][i]));
    const double error = error_of(definition.real(a[0], a[1], a[2]), found[i], kType);
    if (!(error > row.worst)) continue;
    const Range expected = apply(definition, std::span(ranges, arguments.size()), kCompute);
    // Beyond the bound, but within what else may be right there: a formula's overflow, PyTorch's NaN.
    if (error > ulps(definition, kCompute) &&
        (!is_measurable(definition, expected) || accepts(expected, kType, &found[i])))
      continue;
    row.worst = error;
    std::copy(a, a + 3, row.at);
  }
  return row;
}

}  // namespace

std::vector<UlpRow> sweep_ulps(Engine& engine, int points) {
  std::vector<UlpRow> rows;
  for (const Definition& definition : definitions()) {
    if (definition.is_exact()) continue;
    rows.push_back(sweep<float>(engine, definition, points));
    rows.push_back(sweep<double>(engine, definition, points / 8));
  }
  return rows;
}

std::string to_table(const std::vector<UlpRow>& rows) {
  std::string out = "function      type   worst error   allowed   at\n";
  for (const UlpRow& row : rows) {
    char line[160];
    std::snprintf(line, sizeof line, "%-13.*s %-6s %7.3f ulp   %7g   ", static_cast<int>(row.name.size()),
                  row.name.data(), row.compute == Compute::f32 ? "f32" : "f64", row.worst, row.allowed);
    out += line;
    for (int i = 0; i < row.arity; ++i) {
      std::snprintf(line, sizeof line, "%s%.9g", i == 0 ? "" : ", ", row.at[i]);
      out += line;
    }
    out += "\n";
  }
  return out;
}

}  // namespace epifuse::test
