// Example 9: training. A linear layer without bias, then dropout(gelu(x + bias)); and backward, where the product of
// the layer behind it gives the gradient of that, and one kernel makes of it the gradients of x and of the bias. The
// mask is drawn twice and stored nowhere.
#include "common/linear.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 1024, .inputs = 8192, .outputs = 8192};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};
// A training loop counts steps in the seed and dropouts of the model in the offset: another step compiles nothing.
constexpr double kSeed = 20261123;
constexpr double kOffset = 3;

void run(examples::Session& session, ef::DType dtype) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);

  // The layer, and the product that gives the gradient of what follows: dout = dnext · wnext.
  examples::Linear linear(engine, shape, dtype, Bias::none);
  examples::Linear next(engine, {.rows = shape.rows, .inputs = shape.outputs, .outputs = shape.outputs}, dtype,
                        Bias::none);
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.outputs}, 1, 4);

  // Both passes of the tail.
  const auto x = ef::input("x"), bias = ef::input("bias");
  const auto seed = ef::scalar("seed"), offset = ef::scalar("offset");
  const ef::Epilogue tail = ef::Epilogue{ef::dropout(ef::gelu(x + bias), 0.1, seed, offset)}.inputs({"x", "bias"});
  const ef::Gradient gradient = ef::gradient(tail, {"x", "bias"});

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .results = {dtype},
               .tail = gradient.forward,
               .operands = {b},
               .scalars = {{"seed", kSeed}, {"offset", kOffset}},
               .produce = [&](const ef::OutputView& y) { linear.forward(y, stream); },
               .finish =
                   [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
                     engine.launch(gradient.forward, stream, out,
                                   {{"x", y}, {"bias", b}, {"seed", kSeed}, {"offset", kOffset}});
                   },
               .expected = [&](const ef::Dims& at) { return linear.expected(at); }});

  // Backward reads dout and the forward product, which is in memory anyway.
  const ef::Array y = engine.empty(dtype, {shape.rows, shape.outputs});
  linear.forward(y.view(), stream);
  session.run({.producer = next.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = next.result(),
               .results = {dtype, ef::DType::f32},
               .tail = gradient.backward,
               .operands = {y, b},
               .scalars = {{"seed", kSeed}, {"offset", kOffset}},
               .produce = [&](const ef::OutputView& dout) { next.forward(dout, stream); },
               .finish =
                   [&](const ef::OutputView& dout, std::span<const ef::OutputView> out) {
                     engine.launch(gradient.backward, stream, out,
                                   {{"dout", dout}, {"x", y}, {"bias", b}, {"seed", kSeed}, {"offset", kOffset}});
                   },
               .expected = [&](const ef::Dims& at) { return next.expected(at); }});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("9_dropout_training", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) run(session, dtype);
  });
}
