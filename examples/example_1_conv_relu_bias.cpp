// Example 1: a convolution, then relu(x) + bias, in both memory orders: the same chain, other strides.
#include "common/convolution.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;

constexpr examples::ConvolutionShape kFull{
    .batch = 128, .channels = 64, .height = 128, .width = 128, .filters = 128, .kernel = 3};
constexpr examples::ConvolutionShape kSmall{
    .batch = 2, .channels = 8, .height = 19, .width = 21, .filters = 16, .kernel = 3};

void run(examples::Session& session, ef::DType dtype, examples::Layout layout) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::ConvolutionShape shape = session.pick(kFull, kSmall);

  // The layer: a convolution with its own bias, computed by cuDNN.
  examples::Convolution conv(engine, shape, dtype, layout);
  const auto produce = [&](const ef::OutputView& y) { conv.forward(y, stream); };

  // The tail: one kernel for whatever strides y has.
  const auto x = ef::input("x"), bias = ef::input("bias");
  const ef::Epilogue tail{ef::relu(x) + bias};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.filters, 1, 1}, 1, 4);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"bias", b}});
  };

  session.run({.producer = conv.describe(),
               .library = examples::Convolution::library(),
               .layout = conv.layout_name(),
               .y = conv.result(),
               .results = {dtype},
               .tail = tail.inputs({"x", "bias"}),
               .operands = {b},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return conv.expected(at); }});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("1_conv_relu_bias", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) {
      for (const auto layout : {examples::Layout::nchw, examples::Layout::nhwc}) run(session, dtype, layout);
    }
  });
}
