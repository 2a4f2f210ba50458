// Overlap of strided views, against enumeration of every byte.
#include <gtest/gtest.h>

#include <random>
#include <unordered_set>

#include "plan/bind/space.hpp"

namespace epifuse::plan {
namespace {

// First bytes of all elements.
std::vector<std::int64_t> addresses(const TensorView& view) {
  std::vector<std::int64_t> found = {static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data))};
  for (int d = 0; d < view.shape.size(); ++d) {
    std::vector<std::int64_t> next;
    for (const std::int64_t address : found) {
      for (std::int64_t i = 0; i < view.shape[d]; ++i)
        next.push_back(address + i * view.strides[d] * static_cast<std::int64_t>(size_of(view.dtype)));
    }
    found = std::move(next);
  }
  return found;
}

std::unordered_set<std::int64_t> bytes(const TensorView& view) {
  std::unordered_set<std::int64_t> all;
  for (const std::int64_t address : addresses(view)) {
    for (std::size_t k = 0; k < size_of(view.dtype); ++k) all.insert(address + static_cast<std::int64_t>(k));
  }
  return all;
}

TensorView random_view(std::mt19937& random) {
  const DType types[] = {DType::i8, DType::f16, DType::f32, DType::f64};
  TensorView view;
  view.dtype = types[random() % 4];
  view.data = reinterpret_cast<const void*>((1 << 20) + (random() % 64) * size_of(view.dtype));
  const int rank = static_cast<int>(random() % 4);
  for (int d = 0; d < rank; ++d) {
    view.shape.push_back(static_cast<std::int64_t>(random() % 6));
    view.strides.push_back(static_cast<std::int64_t>(random() % 23) - 8);
  }
  return view;
}

TEST(Overlap, AgreesWithEnumeration) {
  int overlapping = 0;
  for (unsigned seed = 0; seed < 20'000; ++seed) {
    std::mt19937 random(seed);
    const TensorView a = random_view(random);
    const TensorView b = random_view(random);
    const auto bytes_a = bytes(a);
    const auto bytes_b = bytes(b);
    const bool expected =
        std::any_of(bytes_b.begin(), bytes_b.end(), [&](std::int64_t byte) { return bytes_a.contains(byte); });
    overlapping += expected;
    ASSERT_EQ(overlap(a, b), expected) << "seed " << seed;
    ASSERT_EQ(overlap(b, a), expected) << "seed " << seed;
    const bool self = bytes_a.size() < addresses(a).size() * size_of(a.dtype);
    ASSERT_EQ(overlaps_itself(a), self) << "seed " << seed;
  }
  EXPECT_GT(overlapping, 1000);  // both answers occur
  EXPECT_LT(overlapping, 19'000);
}

TEST(Overlap, InterleavedSlicesOfOneBufferDoNotOverlap) {
  static float memory[64];
  const TensorView left(memory, DType::f32, {8, 4}, {8, 1});
  const TensorView right(memory + 4, DType::f32, {8, 4}, {8, 1});
  EXPECT_FALSE(overlap(left, right));
  EXPECT_TRUE(overlap(left, TensorView(memory + 3, DType::f32, {8, 4}, {8, 1})));
}

// As rope writes them: both halves of each row of a tensor in many dimensions.
TEST(Overlap, HalvesOfRowsInManyDimensionsAreApart) {
  for (const std::int64_t batch : {1, 8, 64}) {
    const Dims shape = {batch, 2048, 32, 64};
    const Dims strides = {2048 * 32 * 128, 32 * 128, 128, 1};
    const auto at = [&](std::uintptr_t element) {
      return TensorView(reinterpret_cast<const void*>((1 << 20) + 2 * element), DType::f16, shape, strides);
    };
    EXPECT_FALSE(overlap(at(0), at(64)));
    EXPECT_TRUE(overlap(at(0), at(63)));
    EXPECT_TRUE(overlap(at(0), at(128)));
    EXPECT_FALSE(overlap(at(0), at(128 + 64)));
  }
}

TEST(Overlap, LargeViewsAreDecidedAtOnce) {
  const auto* base = reinterpret_cast<const std::byte*>(1LL << 40);
  const TensorView a(base, DType::f16, {128, 1024, 1024, 64});
  EXPECT_FALSE(overlap(a, TensorView(base + (128LL << 27), DType::f16, {128, 1024, 1024, 64})));
  EXPECT_TRUE(overlap(a, TensorView(base + (128LL << 27) - 2, DType::f16, {128, 1024, 1024, 64})));
}

}  // namespace
}  // namespace epifuse::plan
