// Example 5: a linear layer with bias, then group_norm(x * sigmoid(x) + bias2): swish, a second bias and GroupNorm,
// which no library epilogue has, in one kernel.
#include <cmath>

#include "common/linear.hpp"
#include "common/reference.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 32768, .inputs = 1024, .outputs = 4096};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};
constexpr std::int64_t kFullGroups = 64;
constexpr std::int64_t kSmallGroups = 8;
constexpr double kEps = 1e-5;

/// The tail in plain double precision, from one group's y, bias2, gamma and beta.
examples::Values reference(const examples::Values& in) {
  std::vector<double> t = in[0];
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = t[i] / (1 + std::exp(-t[i])) + in[1][i];
  return {examples::normalized(t, in[2], in[3], kEps)};
}

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);
  const std::int64_t groups = session.pick(kFullGroups, kSmallGroups);

  // The layer: a product with its bias in cuBLASLt's own epilogue.
  examples::Linear linear(engine, shape, dtype, Bias::in_epilogue);
  const auto produce = [&](const ef::OutputView& y) { linear.forward(y, stream); };

  // The tail: swish first, then the second bias, then each group of a row's channels normalised.
  const auto x = ef::input("x"), bias2 = ef::input("bias2"), gamma = ef::input("gamma"), beta = ef::input("beta");
  const ef::Epilogue tail{ef::group_norm(x * ef::sigmoid(x) + bias2, groups, gamma, beta, kEps)};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 4);
  const ef::Array g = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 5);
  const ef::Array h = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 6);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"bias2", b}, {"gamma", g}, {"beta", h}});
  };

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .results = {dtype},
               .tail = tail.inputs({"x", "bias2", "gamma", "beta"}),
               .operands = {b, g, h},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return linear.expected(at); },
               .reference = examples::Reference{{1, shape.outputs / groups}, reference}});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("5_linear_swish_bias", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) run(session, dtype);
  });
}
