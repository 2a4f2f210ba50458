// The emitted text of mx_quantize against OCP's definition, bit for bit, in every mode of Math: scales are exact in all of them.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "emitted/workshop.hpp"
#include "support/block_formats.hpp"

namespace epifuse::test {
namespace {

struct Launch {
  Epilogue tail;
  DType dtype;
  MxBlocks expected, found;
  std::vector<OutputView> outputs;
  std::vector<TensorView> inputs;
};

TEST(EmittedQuantize, MxBlocksAreTheDefinitionBitForBit) {
  const std::vector<float> x = mx_data(2160);
  std::vector<float> halves = x;
  for (float& value : halves) value *= 0.5F;  // exact but for the least numbers, and so is their sum
  const std::vector<float> others = halves;
  std::vector<float> sum(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) sum[i] = halves[i] + others[i];
  std::vector<Launch> launches;
  for (const std::int64_t columns : {32, 256, 4320}) {
    const Dims shape = {static_cast<std::int64_t>(x.size()) / columns, columns};
    for (const DType dtype : {DType::f8e4m3, DType::f8e5m2}) {
      for (const std::string rounding : {"up", "floor"}) {
        const std::string text = std::string("q, s = mx_quantize(a + b, ") + std::string(to_string(dtype)) + ", '" +
                                 rounding + "'); return q, s";
        for (const Math math : {Math::precise, Math::standard, Math::fast}) {
          Launch launch{Epilogue::parse(text).with(math), dtype, mx_blocks(sum, dtype, rounding == "up"), {}, {}, {}};
          launch.found = {std::vector<std::uint8_t>(x.size()), std::vector<std::uint8_t>(x.size() / kMxSize)};
          launches.push_back(std::move(launch));
          Launch& made = launches.back();
          made.outputs = {{made.found.values.data(), dtype, shape},
                          {made.found.scales.data(), DType::f8e8m0, {shape[0], columns / 32}}};
          made.inputs = {{halves.data(), DType::f32, shape}, {others.data(), DType::f32, shape}};
        }
      }
    }
  }
  std::vector<Emitted> emitted;
  for (const Launch& launch : launches) emitted.push_back({launch.tail, launch.outputs, launch.inputs});
  const auto problems = run_emitted(emitted);
  for (std::size_t i = 0; i < launches.size(); ++i) {
    EXPECT_FALSE(problems[i]) << problems[i].value_or("");
    EXPECT_EQ(launches[i].found.scales, launches[i].expected.scales) << launches[i].tail.str();
    EXPECT_TRUE(are_same_values(launches[i].found.values, launches[i].expected.values, launches[i].dtype))
        << launches[i].tail.str();
  }
}

}  // namespace
}  // namespace epifuse::test
