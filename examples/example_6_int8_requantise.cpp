// Example 6: an INT8 matrix product into i32, requantised to i8 with a scale and a bias per channel, and relu. And both
// as one launch: on sm_90 one kernel, which writes one byte for each element, where the two write five and read four.
#include <cmath>

#include "common/linear.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;
using Bias = examples::Linear::Bias;

constexpr examples::LinearShape kFull{.rows = 8192, .inputs = 4096, .outputs = 4096};
constexpr examples::LinearShape kSmall{.rows = 33, .inputs = 64, .outputs = 48};

void run(examples::Session& session) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::LinearShape shape = session.pick(kFull, kSmall);

  // The layer: an INT8 product with i32 results, computed by cuBLASLt.
  examples::Linear linear(engine, shape, ef::DType::i8, Bias::none);
  const auto produce = [&](const ef::OutputView& y) { linear.forward(y, stream); };

  // The tail: relu(x * scale + bias), rounded half to even and saturated by writing to i8.
  const auto x = ef::input("x"), scale = ef::input("scale"), bias = ef::input("bias");
  const ef::Epilogue tail{ef::relu(x * scale + bias)};
  // Sums of `inputs` products of numbers of deviation 30; scaled so that the results fill the positive half of i8 and a
  // few saturate.
  const double deviation = 30 * 30 * std::sqrt(static_cast<double>(shape.inputs));
  const ef::Array s = examples::normal(engine, ef::DType::f32, {shape.outputs}, 40 / deviation, 4);
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.outputs}, 5, 5);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"scale", s}, {"bias", b}});
  };

  // Both: the product is an operation of the chain, and i32 sums stay in registers.
  const auto w = ef::input("w");
  const ef::Epilogue layer{ef::relu(ef::linear(x, w) * scale + bias)};
  const auto together = [&](const ef::OutputView& out) {
    engine.launch(layer, stream, out, {{"x", linear.x()}, {"w", linear.w()}, {"scale", s}, {"bias", b}});
  };

  session.run({.producer = linear.describe(),
               .library = examples::Linear::library(),
               .layout = "row-major",
               .y = linear.result(),
               .results = {ef::DType::i8},
               .tail = tail.inputs({"x", "scale", "bias"}),
               .operands = {s, b},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return linear.expected(at); },
               .together = together});
}

}  // namespace

int main(int argc, char** argv) { return examples::run_example("6_int8_requantise", argc, argv, run); }
