// Factors that a device does not read where they lie: they are copied to the workspace, and the product is that of the
// copies. A device that copies all, over the CPU's.
#include <gtest/gtest.h>

#include <vector>

#include "api/engine_impl.hpp"
#include "api/products.hpp"
#include "runtime/cublaslt.hpp"

namespace epifuse {
namespace {

class CopiesAll : public DeviceEngine {
 public:
  explicit CopiesAll(int& products) : products_(products) {}
  Device device() const noexcept override { return engine_->device(); }
  void launch(const LaunchRequest& request) override { engine_->launch(request); }
  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    return engine_->workspace_bytes(program, outputs, inputs);
  }
  void prepare(const LaunchRequest& request) override { engine_->prepare(request); }
  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  void synchronize(Stream stream) override { engine_->synchronize(stream); }
  EngineStats stats() const noexcept override { return engine_->stats(); }
  std::optional<Dims> copied(const plan::Factor& factor, bool is_right) const override {
    return is_right ? Dims{1, factor.shape[0]} : row_major(factor.shape);
  }
  void multiply(const ProductLaunch& launch) override {
    EXPECT_EQ(launch.left.strides, (Dims{3, 1}));
    EXPECT_EQ(launch.right.strides, (Dims{1, 3}));
    ++products_;
    engine_->multiply(launch);
  }
  std::unique_ptr<Scratch> scratch(std::size_t bytes, Stream stream) override {
    return engine_->scratch(bytes, stream);
  }

 private:
  std::unique_ptr<DeviceEngine> engine_ = make_cpu_engine();
  int& products_;
};

TEST(ProductCopies, AreMultipliedInsteadOfTheFactors) {
  int products = 0;
  const auto engine = with_products(std::make_unique<CopiesAll>(products));
  const std::vector<float> x = {1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6, 9};  // [2, 3], every second column
  const std::vector<float> w = {6, 5, 4, 3, 2, 1};                    // [3, 2] in reverse order
  const std::vector<TensorView> inputs = {{x.data(), DType::f32, {2, 3}, {6, 2}},
                                          {w.data() + 5, DType::f32, {3, 2}, {-2, -1}}};
  std::vector<float> out(4);
  const OutputView result(out.data(), DType::f32, {2, 2});
  const Epilogue tail = Epilogue::parse("x @ w + 1");
  engine->launch({tail.program(), nullptr, std::span(&result, 1), inputs, {}, nullptr});
  EXPECT_EQ(out, (std::vector<float>{23, 29, 50, 65}));
  EXPECT_EQ(products, 1);
  // The result and both copies, 256 bytes each.
  EXPECT_EQ(engine->workspace_bytes(tail.program(), std::span(&result, 1), inputs), 3U * 256);
  struct alignas(256) Memory {
    std::byte bytes[3 * 256];
  } memory;
  const Workspace workspace{&memory, sizeof memory};
  std::fill(out.begin(), out.end(), 0.0F);
  engine->launch({tail.program(), nullptr, std::span(&result, 1), inputs, {}, &workspace});
  EXPECT_EQ(out, (std::vector<float>{23, 29, 50, 65}));
  engine->prepare({tail.program(), nullptr, std::span(&result, 1), inputs, {}, nullptr});
}

TEST(ProductCopies, AreMadeOfWhatCublasLtDoesNotRead) {
  const auto is_read = [](const Dims& shape, const Dims& strides, DType dtype = DType::f16, bool is_right = false) {
    return runtime::is_matrix_layout({nullptr, dtype, shape, strides}, is_right);
  };
  EXPECT_TRUE(is_read({4, 8}, {8, 1}));
  EXPECT_TRUE(is_read({4, 8}, {24, 1}));
  EXPECT_TRUE(is_read({4, 8}, {1, 4}));
  EXPECT_TRUE(is_read({1, 8}, {0, 1})) << "one row";
  EXPECT_TRUE(is_read({3, 4, 8}, {0, 8, 1})) << "one matrix for a batch";
  EXPECT_FALSE(is_read({4, 8}, {16, 2}));
  EXPECT_FALSE(is_read({4, 8}, {0, 1})) << "one row for all";
  EXPECT_FALSE(is_read({4, 8}, {-8, 1})) << "in reverse order";
  EXPECT_FALSE(is_read({4, 8}, {4, 1})) << "rows that overlap";
  EXPECT_FALSE(is_read({3, 4, 8}, {-32, 8, 1}));
  EXPECT_TRUE(is_read({4, 8}, {8, 1}, DType::i8));
  EXPECT_FALSE(is_read({4, 8}, {8, 1}, DType::i8, true)) << "the depth of a right factor of 8 bits is contiguous";
  EXPECT_TRUE(is_read({4, 8}, {1, 4}, DType::i8, true));
}

}  // namespace
}  // namespace epifuse
