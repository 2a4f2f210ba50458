// Example 5: a linear layer with bias, then x * sigmoid(x) + bias2: swish, which no library epilogue has with a bias
// after it.
#include "common/linear.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 32768, .inputs = 1024, .outputs = 4096};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);

  // The layer: a product with its bias in cuBLASLt's own epilogue.
  examples::Linear linear(engine, shape, dtype, Bias::in_epilogue);
  const auto produce = [&](const ef::OutputView& y) { linear.forward(y, stream); };

  // The tail: swish first, then the second bias.
  const auto x = ef::input("x"), bias2 = ef::input("bias2");
  const ef::Epilogue tail{x * ef::sigmoid(x) + bias2};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 4);
  const auto finish = [&](const ef::OutputView& y, const ef::OutputView& out) {
    engine.launch(tail, stream, out, {y, b});
  };

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .result = dtype,
               .tail = tail,
               .operands = {b},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return linear.expected(at); }});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("5_linear_swish_bias", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) run(session, dtype);
    session.note("In the model a GroupNorm over 64 groups follows; this example ends before it.");
  });
}
