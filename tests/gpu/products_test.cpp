// Chains with matrix products on a GPU: random ones that the product's kernel hosts, and random ones that cuBLASLt computes first, against sums in f64.
#include <gtest/gtest.h>

#include <cstdio>

#include <epifuse/epifuse.hpp>

#include "gpu/device.hpp"
#include "support/products.hpp"
#include "support/random.hpp"

namespace epifuse::test {
namespace {

std::uint64_t hosted_launches(const Engine& engine) {
  std::uint64_t launches = 0;
  for (const KernelStats& kernel : engine.kernel_stats()) {
    if (kernel.kernel_class.starts_with("gemm ")) launches += kernel.launches;
  }
  return launches;
}

void run(ProductCase::Drawn drawn, int cases, int least_hosted) {
  const std::uint64_t seed = test_seed(30);
  Random seeds(seed);
  Engine engine(Device::cuda(0));
  int refused = 0;
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t own = seeds.bits();
    const ProductCase test(own, drawn);
    try {
      ASSERT_EQ(test.judge(engine), "") << test.text() << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
    } catch (const Error& error) {
      // Of 8-bit types cuBLASLt takes extents that are multiples of 16 alone.
      ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what() << "\n" << test.text();
      ++refused;
    }
  }
  const std::uint64_t hosted = hosted_launches(engine);
  std::printf("%d cases: %llu inside a product, %d refused\n", cases, static_cast<unsigned long long>(hosted), refused);
  EXPECT_GE(hosted, static_cast<std::uint64_t>(least_hosted));
  EXPECT_LT(refused, cases / 2);
}

class Products : public OnGpu {};

// In the kernel of the product, and behind a product that lies in memory of the pool.
TEST_F(Products, AreCapturedInAGraph) {
  for (const char* const text : {"relu(linear(x, w))", "softmax(linear(x, w), axis=-1)"}) {
    const Epilogue tail = Epilogue::parse(text);
    std::vector<std::uint16_t> ones(128 * 64, 0x3f80);  // of bf16
    const Array x = engine().array(DType::bf16, {128, 64}, ones.data());
    const Array w = engine().array(DType::bf16, {128, 64}, ones.data());
    const Array y = engine().empty(DType::bf16, {128, 128});
    const Array z = engine().empty(DType::bf16, {128, 128});
    engine().launch(tail, nullptr, y, {x.view(), w.view()});
    const runtime::Stream stream(context());
    const runtime::Graph graph(stream, [&](runtime::StreamHandle handle) {
      engine().launch(tail, handle, z, {x.view(), w.view()});
    });
    for (int i = 0; i < 3; ++i) graph.launch(stream.handle());
    stream.synchronize();
    EXPECT_EQ(contents<std::uint16_t>(z), contents<std::uint16_t>(y)) << text;
  }
}

TEST_F(Products, OfTilesAreSumsOfProducts) { run(ProductCase::Drawn::for_tiles, 150, 50); }
TEST_F(Products, OfAnyLayoutAreSumsOfProducts) { run(ProductCase::Drawn::any_layout, 400, 0); }

}  // namespace
}  // namespace epifuse::test
