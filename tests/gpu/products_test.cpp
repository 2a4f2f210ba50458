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
      // cuBLASLt takes neighbours along rows or columns, and of 8-bit types few layouts.
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

TEST_F(Products, OfTilesAreSumsOfProducts) { run(ProductCase::Drawn::for_tiles, 400, 100); }
TEST_F(Products, OfAnyLayoutAreSumsOfProducts) { run(ProductCase::Drawn::any_layout, 400, 0); }

}  // namespace
}  // namespace epifuse::test
