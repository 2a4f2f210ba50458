// Example 7: a linear layer, then what a transformer does between two of them: the residual is added, RMSNorm taken,
// and its result quantised to fp8 for the next product, with the largest magnitude for the next scale. One kernel,
// three results.
#include <algorithm>
#include <cmath>

#include "common/linear.hpp"
#include "common/reference.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 8192, .inputs = 4096, .outputs = 4096};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};
constexpr double kEps = 1e-6;
/// From the magnitudes of an earlier step, as in training: what is expected to be the largest becomes f8e4m3's largest,
/// 448.
constexpr double kInverseScale = 448.0 / 16.0;

/// The tail in plain double precision, from one row's y, residual and weight. The kernel stores h rounded, but goes on
/// with the sum that it holds.
examples::Values reference(const examples::Values& in) {
  std::vector<double> h = in[0];
  for (std::size_t i = 0; i < h.size(); ++i) h[i] += in[1][i];
  std::vector<double> quantised = examples::rms_normalized(h, in[2], kEps);
  double largest = 0;
  for (double& v : quantised) {
    largest = std::max(largest, std::abs(v));
    v *= kInverseScale;
  }
  return {h, quantised, {largest}};
}

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);

  // The layer: a product without bias, computed by cuBLASLt.
  examples::Linear linear(engine, shape, dtype, Bias::none);
  const auto produce = [&](const ef::OutputView& y) { linear.forward(y, stream); };

  // The tail: results of two shapes and three types. Writing to f8e4m3 rounds and saturates; the scale is a number
  // given at each launch.
  const auto x = ef::input("x"), residual = ef::input("residual"), weight = ef::input("weight");
  const auto h = x + residual;
  const auto y_norm = ef::rms_norm(h, weight, kEps);
  const ef::Epilogue tail{h, y_norm * ef::scalar("inverse_scale"), ef::amax(ef::abs(y_norm))};
  const ef::Array r = examples::normal(engine, dtype, {shape.rows, shape.outputs}, 1, 4);
  const ef::Array w = examples::normal(engine, dtype, {shape.outputs}, 1, 5);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out, {{"x", y}, {"residual", r}, {"weight", w}, {"inverse_scale", kInverseScale}});
  };

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .results = {dtype, ef::DType::f8e4m3, ef::DType::f32},
               .tail = tail.inputs({"x", "residual", "weight"}),
               .operands = {r, w},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return linear.expected(at); },
               .reference = examples::Reference{{1, shape.outputs}, reference}});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("7_residual_rms_norm_fp8", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f16, ef::DType::bf16}) run(session, dtype);
  });
}
