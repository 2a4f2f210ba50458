// Example 3: a convolution, then group_norm(sigmoid((x + bias) * scale)): all of the model behind the layer, in one
// kernel.
#include <cmath>

#include "common/convolution.hpp"
#include "common/reference.hpp"
#include "common/session.hpp"

namespace {

namespace ef = epifuse;

constexpr examples::ConvolutionShape kFull{
    .batch = 128, .channels = 8, .height = 256, .width = 256, .filters = 32, .kernel = 3};
constexpr examples::ConvolutionShape kSmall{
    .batch = 2, .channels = 8, .height = 19, .width = 21, .filters = 16, .kernel = 3};
constexpr int kGroups = 8;
constexpr double kEps = 1e-5;

/// The tail in plain double precision, from one group's y, bias, scale, gamma and beta.
examples::Values reference(const examples::Values& in) {
  std::vector<double> t = in[0];
  for (std::size_t i = 0; i < t.size(); ++i) t[i] = 1 / (1 + std::exp(-(t[i] + in[1][i]) * in[2][i]));
  return {examples::normalized(t, in[3], in[4], kEps)};
}

void run(examples::Session& session, ef::DType dtype, examples::Layout layout) {
  ef::Engine& engine = session.engine();
  const ef::Stream stream = session.stream();
  const examples::ConvolutionShape shape = session.pick(kFull, kSmall);

  // The layer: a convolution with its own bias, computed by cuDNN.
  examples::Convolution conv(engine, shape, dtype, layout);
  const auto produce = [&](const ef::OutputView& y) { conv.forward(y, stream); };

  // The tail: two operands that broadcast along the images, then GroupNorm with its vectors of the channels.
  const auto x = ef::input("x"), bias = ef::input("bias"), scale = ef::input("scale");
  const auto gamma = ef::input("gamma"), beta = ef::input("beta");
  const ef::Epilogue tail{ef::group_norm(ef::sigmoid((x + bias) * scale), kGroups, gamma, beta, kEps)};
  const ef::Dims per_channel{shape.filters, 1, 1};
  const ef::Array b = examples::normal(engine, ef::DType::f32, per_channel, 1, 4);
  const ef::Array s = examples::normal(engine, ef::DType::f32, per_channel, 1, 5);
  const ef::Array g = examples::normal(engine, ef::DType::f32, {shape.filters}, 1, 6);
  const ef::Array h = examples::normal(engine, ef::DType::f32, {shape.filters}, 1, 7);
  const auto finish = [&](const ef::OutputView& y, std::span<const ef::OutputView> out) {
    engine.launch(tail, stream, out[0], {{"x", y}, {"bias", b}, {"scale", s}, {"gamma", g}, {"beta", h}});
  };

  const std::int64_t in_group = shape.filters / kGroups;
  const ef::OutputView y = conv.result();
  session.run({.producer = conv.describe(),
               .library = examples::Convolution::library(),
               .layout = conv.layout_name(),
               .y = y,
               .results = {dtype},
               .tail = tail.inputs({"x", "bias", "scale", "gamma", "beta"}),
               .operands = {b, s, g, h},
               .produce = produce,
               .finish = finish,
               .expected = [&](const ef::Dims& at) { return conv.expected(at); },
               .reference = examples::Reference{{1, in_group, y.shape[2], y.shape[3]}, reference, 1}});
}

}  // namespace

int main(int argc, char** argv) {
  return examples::run_example("3_conv_bias_scale_sigmoid", argc, argv, [](examples::Session& session) {
    for (const ef::DType dtype : {ef::DType::f32, ef::DType::f16}) {
      run(session, dtype, examples::Layout::nchw);
    }
  });
}
