// One kernel for the epilogue of a layer: on the GPU where there is one, on the CPU where there is none.
#include <cstdio>
#include <vector>

#include <epifuse/epifuse.hpp>

namespace ef = epifuse;

int main() try {
  // The epilogue, written once, without shapes or types.
  auto x = ef::input("x"), bias = ef::input("bias"), scale = ef::input("scale");
  ef::Epilogue tail{ef::sigmoid((x + bias) * scale)};

  // The tensors: eight images of 16 channels, and one bias and one scale per channel.
  std::vector<float> conv(8 * 16 * 32 * 32, 0.5F), biases(16, 1.5F), scales(16, 0.25F), y(conv.size());
  ef::Engine engine(ef::Device::automatic());
  auto c = engine.array({8, 16, 32, 32}, conv);
  auto b = engine.array({16, 1, 1}, biases);
  auto s = engine.array({16, 1, 1}, scales);

  // The launch: compiles on the first call, broadcasts as NumPy does, and here works in place.
  engine.launch(tail, nullptr, c, {{"x", c}, {"bias", b}, {"scale", s}});

  c.download(y);
  std::printf("%s on %s: y[0] = %.6f, expected 0.622459\n", tail.str().c_str(), ef::to_string(engine.device()).c_str(),
              static_cast<double>(y[0]));
} catch (const ef::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
