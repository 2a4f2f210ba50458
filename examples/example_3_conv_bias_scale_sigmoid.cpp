// Example 3: a convolution, then sigmoid((x + bias) * scale), with a bias and a scale per channel.
#include "common/convolution.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;

constexpr examples::ConvolutionShape kFull{
    .batch = 128, .channels = 8, .height = 256, .width = 256, .filters = 32, .kernel = 3};
constexpr examples::ConvolutionShape kSmall{
    .batch = 2, .channels = 8, .height = 19, .width = 21, .filters = 16, .kernel = 3};

void run(examples::Session& session, ef::DType dtype, examples::Layout layout) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::ConvolutionShape shape = session.pick(kFull, kSmall);

  // The layer: a convolution with its own bias, computed by cuDNN.
  examples::Convolution conv(engine, shape, dtype, layout);
  const auto produce = [&](const ef::OutputView& y) { conv.forward(y, stream); };

  // The tail: two operands that broadcast along the images.
  const auto x = ef::input("x"), bias = ef::input("bias"), scale = ef::input("scale");
  const ef::Epilogue tail{ef::sigmoid((x + bias) * scale)};
  const ef::Array b = examples::normal(engine, ef::DType::f32, {shape.filters, 1, 1}, 1, 4);
  const ef::Array s = examples::normal(engine, ef::DType::f32, {shape.filters, 1, 1}, 1, 5);
  const auto finish = [&](const ef::OutputView& y, const ef::OutputView& out) {
    engine.launch(tail, stream, out, {y, b, s});
  };

  session.run({.producer = conv.describe(),
               .library = examples::Convolution::library(),
               .layout = conv.layout_name(),
               .y = conv.result(),
               .result = dtype,
               .tail = tail,
               .operands = {b, s},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return conv.expected(at); }});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("3_conv_bias_scale_sigmoid", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) {
      run(session, dtype, examples::Layout::nchw);
    }
    session.note("In the model a GroupNorm over 8 groups follows; this example ends before it.");
  });
}
