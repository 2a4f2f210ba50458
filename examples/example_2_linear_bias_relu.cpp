// Example 2: a linear layer without bias, then relu(x + bias): what cuBLASLt could fuse, to compare with. And both as
// one launch, where the product hosts the chain: in f16 on sm_90 one kernel.
#include "common/linear.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 1024, .inputs = 8192, .outputs = 8192};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);

  // The layer: a product without bias, computed by cuBLASLt.
  examples::Linear linear(engine, shape, dtype, Bias::none);
  const auto produce = [&](const ef::OutputView& y) { linear.forward(y, stream); };

  // The tail: the bias broadcasts along the rows.
  const auto x = ef::input("x"), bias = ef::input("bias");
  const ef::Epilogue tail{ef::relu(x + bias)};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 4);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"bias", b}});
  };

  // Both: the product is an operation of the chain.
  const auto w = ef::input("w");
  const ef::Epilogue layer{ef::relu(ef::linear(x, w) + bias)};
  const auto together = [&](const ef::OutputView& out) {
    engine.launch(layer, stream, out, {{"x", linear.x()}, {"w", linear.w()}, {"bias", b}});
  };

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .results = {dtype},
               .tail = tail.inputs({"x", "bias"}),
               .operands = {b},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return linear.expected(at); },
               .together = together});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("2_linear_bias_relu", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) run(session, dtype);
  });
}
