// Example 4: a convolution, then (minimum(x, 0.5) + bias) * 2.0, with the numbers in the chain. And both as one launch,
// as in example 1.
#include <functional>

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

  // The tail: constants are part of the kernel.
  const auto x = ef::input("x"), bias = ef::input("bias");
  const ef::Epilogue tail{(ef::minimum(x, 0.5) + bias) * 2.0};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.filters, 1, 1}, 1, 4);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"bias", b}});
  };

  // Both: the convolution is an operation of the chain, and hosts the rest of it in 16 bits and NHWC.
  const auto w = ef::input("w"), conv_bias = ef::input("conv_bias");
  const ef::Epilogue layer{(ef::minimum(ef::conv2d(x, w, conv_bias), 0.5) + bias) * 2.0};
  std::function<void(const ef::OutputView& out)> together;
  if (dtype == ef::DType::f16 && layout == examples::Layout::nhwc) {
    together = session.one_kernel(layer, conv.result(),
                                  {{"x", conv.x()}, {"w", conv.w()}, {"conv_bias", conv.bias()}, {"bias", b}});
  }

  session.run({.producer = conv.describe(),
               .library = examples::Convolution::library(),
               .layout = conv.layout_name(),
               .y = conv.result(),
               .results = {dtype},
               .tail = tail.inputs({"x", "bias"}),
               .operands = {b},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return conv.expected(at); },
               .together = together});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("4_conv_min_bias_scale", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) {
      run(session, dtype, examples::Layout::nchw);
    }
    run(session, ef::DType::f16, examples::Layout::nhwc);
  });
}
