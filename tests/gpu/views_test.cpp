// Chains with views on a GPU: the drawn cases of tests/emitted/views_test.cpp, beside the same definitions.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "gpu/device.hpp"
#include "plan/bind/space.hpp"
#include "support/index_functions.hpp"
#include "support/large_windows.hpp"
#include "support/neighbour_views.hpp"
#include "support/nested_functions.hpp"
#include "support/row_view_functions.hpp"
#include "support/view_functions.hpp"
#include "support/views.hpp"
#include "support/written_functions.hpp"

namespace epifuse::test {
namespace {

// Of each test: EPIFUSE_TEST_CASES, or this many. NVRTC compiles nearly each of them.
int cases() {
  const char* const text = std::getenv("EPIFUSE_TEST_CASES");
  return text != nullptr && *text != '\0' ? std::atoi(text) : 150;
}

class Views : public OnGpu {
 protected:
  // A view's memory on the GPU, at an address that is as far from a multiple of 16 as on the host.
  TensorView copied(const TensorView& view, std::vector<Array>& arrays) {
    const plan::Reach reach = plan::reach_of(view);
    const auto bytes = static_cast<std::int64_t>(reach.end - reach.first);
    const std::byte* const from = static_cast<const std::byte*>(view.data) + reach.first;
    const auto gap = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from) % 16);
    std::vector<std::byte> memory(static_cast<std::size_t>(gap + bytes + 16));
    if (bytes > 0) std::memcpy(memory.data() + gap, from, static_cast<std::size_t>(bytes));
    arrays.push_back(engine().array(DType::u8, {static_cast<std::int64_t>(memory.size())}, memory.data()));
    TensorView copy = view;
    copy.data = static_cast<const std::byte*>(arrays.back().view().data) + gap - reach.first;
    return copy;
  }

  // Leaves the result, and the number behind it, where the case has its own.
  void launch(const PlacedViewCase& placed) {
    std::vector<Array> arrays;
    std::vector<TensorView> inputs;
    for (const TensorView& view : placed.inputs()) inputs.push_back(copied(view, arrays));
    const OutputView& own = placed.outputs()[0];
    std::int64_t numbers = 1;
    for (const std::int64_t extent : own.shape) numbers *= extent;
    const Array result = engine().array(DType::f32, {numbers + 1}, own.data);
    const OutputView out(const_cast<void*>(result.view().data), DType::f32, own.shape);
    engine().launch(placed.tail(), nullptr, std::span(&out, 1), inputs);
    engine().synchronize();
    peek(const_cast<void*>(own.data), result.view().data, static_cast<std::size_t>(numbers + 1) * sizeof(float));
  }

  void expect_definitions(std::uint64_t seed, ViewCase (*draw)(std::uint64_t)) {
    Random seeds(seed);
    int launched = 0;
    for (int i = 0; i < cases(); ++i) {
      const std::uint64_t own = seeds.bits();
      const ViewCase test = draw(own);
      if (test.expected.values.empty()) continue;
      const PlacedViewCase placed(test);
      ASSERT_EQ(placed.outputs()[0].shape, test.expected.shape) << test.text;
      try {
        launch(placed);
        ++launched;
      } catch (const Error& error) {  // some chains are no kernel
        ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what() << "\n" << test.text;
        continue;
      }
      ASSERT_EQ(placed.judge(), "") << test.text << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
    }
    EXPECT_GT(launched, cases() / 2);
    std::printf("%d kernels with views\n", launched);
  }
};

TEST_F(Views, SideBySideAgreeWithTheirDefinitions) { expect_definitions(test_seed(2712), draw_neighbour_views); }
TEST_F(Views, AgreeWithArrays) { expect_definitions(test_seed(2713), draw_view_case); }
TEST_F(Views, OfFunctionsAgreeWithTheirDefinitions) { expect_definitions(test_seed(2714), draw_view_function); }
TEST_F(Views, AtIndicesAgreeWithTheirDefinitions) { expect_definitions(test_seed(2715), draw_index_function); }
TEST_F(Views, OfRowsAgreeWithTheirDefinitions) { expect_definitions(test_seed(2716), draw_row_view_function); }
TEST_F(Views, OfLargeWindowsAgreeWithTheirDefinitions) { expect_definitions(test_seed(2722), draw_large_windows); }
TEST_F(Views, BehindNormsAgreeWithTheirDefinitions) { expect_definitions(test_seed(2729), draw_written_function); }
TEST_F(Views, OfLongRowsBehindNormsAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2730), draw_written_of_long_rows);
}
TEST_F(Views, OfNestedReductionsAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2728), draw_nested_function);
}

}  // namespace
}  // namespace epifuse::test
