// Plans: which shapes share a kernel, what each layout becomes, and that vector accesses survive odd extents.
#include <gtest/gtest.h>

#include <random>
#include <set>

#include <epifuse/epifuse.hpp>

#include "codegen/emit.hpp"
#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {
namespace {

// Shapes only: pointers stand for memory aligned to 256 bytes.
Plan plan_of(const std::string& chain, const OutputView& output, std::vector<TensorView> inputs) {
  return make_plan(Epilogue::parse(chain).program(), std::span(&output, 1), inputs, Views::abstract);
}
TensorView in(DType type, const Dims& shape) { return {nullptr, type, shape}; }
TensorView in(DType type, const Dims& shape, const Dims& strides) { return {nullptr, type, shape, strides}; }
OutputView out(DType type, const Dims& shape) { return {nullptr, type, shape}; }
OutputView out(DType type, const Dims& shape, const Dims& strides) { return {nullptr, type, shape, strides}; }

TEST(Access, OddInnerExtentsStillMove16Bytes) {
  for (const DType type : {DType::f32, DType::f16, DType::i8, DType::f64}) {
    const Dims shape = {8, 3, 125, 125};
    const Plan plan = plan_of("relu(x) + bias", out(type, shape), {in(type, shape), in(type, {3, 1, 1})});
    EXPECT_EQ(plan.kernel_class.inputs[0].access, Access::linear);
    EXPECT_EQ(plan.kernel_class.inputs[1].access, Access::row);
    EXPECT_EQ(static_cast<std::size_t>(plan.kernel_class.inputs[0].width) * size_of(type), 16U);
    EXPECT_EQ(static_cast<std::size_t>(plan.kernel_class.outputs[0].width) * size_of(type), 16U);
  }
}

TEST(Access, LayoutsBecomeFewDimensions) {
  // Everything alike: one line.
  EXPECT_EQ(
      plan_of("x + y", out(DType::f32, {2, 3, 4, 5}), {in(DType::f32, {2, 3, 4, 5}), in(DType::f32, {2, 3, 4, 5})})
          .kernel_class.coordinates,
      0);
  // NHWC as strides of an NCHW view: the channel is innermost, so a bias is contiguous.
  const Dims shape = {4, 6, 5, 7};
  const Dims nhwc = {6 * 5 * 7, 1, 6 * 7, 6};
  const Plan channels_last =
      plan_of("x + b", out(DType::f16, shape, nhwc), {in(DType::f16, shape, nhwc), in(DType::f16, {6, 1, 1})});
  EXPECT_EQ(channels_last.kernel_class.schedule(), "flat");
  EXPECT_EQ(channels_last.kernel_class.inputs[0].access, Access::linear);
  EXPECT_EQ(channels_last.kernel_class.inputs[1].access, Access::contiguous);
  EXPECT_EQ(channels_last.space.extents, (Dims{1, 4 * 5 * 7, 6}));
  // Column-major with a leading dimension: rows of the stored matrix, each on its own.
  const Plan column =
      plan_of("x * s", out(DType::f32, {100, 30}, {1, 128}), {in(DType::f32, {100, 30}, {1, 128}), in(DType::f32, {})});
  EXPECT_EQ(column.kernel_class.schedule(), "by_row");
  EXPECT_EQ(column.kernel_class.inputs[0].access, Access::contiguous);
  EXPECT_EQ(column.kernel_class.inputs[1].access, Access::uniform);
  EXPECT_EQ(column.space.extents, (Dims{1, 30, 100}));
  // Transposed input: strided along the output's innermost dimension, where another operand runs as the output does.
  EXPECT_EQ(plan_of("x + r", out(DType::f32, {64, 32}), {in(DType::f32, {64, 32}, {1, 64}), in(DType::f32, {64, 32})})
                .kernel_class.inputs[0]
                .access,
            Access::strided);
}

// What overlapping windows share is computed once for a tile where that halves the instructions, and nowhere else.
TEST(WindowTiles, AreForWhatIsExpensive) {
  const auto summary = [](const std::string& chain, const std::vector<TensorView>& inputs) {
    const Epilogue tail = Epilogue::parse(chain);
    std::vector<OutputView> outputs;
    for (const Dims& shape : tail.result_shapes(inputs)) outputs.emplace_back(nullptr, DType::f16, shape);
    return Inspection(tail, outputs, inputs).plan();
  };
  const TensorView images = in(DType::f16, {8, 64, 56, 56});
  const auto schedule = [&](const std::string& chain) { return summary(chain, {images}).schedule; };
  const PlanSummary pool = summary("avg_pool2d(exp(x * 2) + sin(x), 5, 1, 2)", {images});
  EXPECT_EQ(pool.schedule, "window_tile");
  EXPECT_LT(pool.instructions, 150);
  EXPECT_EQ(pool.bytes_read, 8U * 64 * 56 * 56 * 2);
  EXPECT_EQ(pool.bytes_from_caches, 8U * 64 * 4 * 56 * 2);  // of two tiles one below the other
  EXPECT_EQ(pool.repeated, std::vector<std::string>{"'mul', 'exp', 'sin', 'add' once per tile of 32 x 64 results, 1.56 "
                                                    "times per result with the overlap"});
  EXPECT_EQ(schedule("max_pool2d(mish(gelu(x)), 7, 1, 3)"), "window_tile");
  for (const char* const cheap : {"avg_pool2d(x, 3, 1, 1)", "avg_pool2d(relu(x), 7, 1, 3)", "max_pool2d(gelu(x), 2)",
                                  "max_pool2d(exp(x), 3, 2, 1)", "x + avg_pool2d(x, 5, 1, 2)"})
    EXPECT_EQ(schedule(cheap), "flat") << cheap;
  // Channels-last: the channels stand between neighbours.
  const Dims last = {64 * 56 * 56, 1, 64 * 56, 64};
  EXPECT_NE(summary("max_pool2d(mish(gelu(x)), 7, 1, 3)", {in(DType::f16, images.shape, last)}).schedule,
            "window_tile");
  // Another view of what is shared, read as it is.
  EXPECT_NE(schedule("x + max_pool2d(mish(gelu(x)), 7, 1, 3)"), "window_tile");
}

// Vectors are as long as each row's address allows. Lanes one behind the other write whole sectors; as many lanes as
// are left stand side by side, until they read whole sectors.
TEST(Tiled, WarpsReadAndWriteWholeSectors) {
  for (const DType type : {DType::f64, DType::f32, DType::f16, DType::i8}) {
    for (const std::int64_t pixels : {15'876, 115'320, 263'169, 65'536}) {
      const std::int64_t channels = 128;
      const Dims shape = {4, channels, pixels};
      const Plan plan =
          plan_of("relu(x + b) + r", out(type, shape),
                  {in(type, shape, {channels * pixels, 1, channels}), in(type, {channels, 1}), in(type, shape)});
      const KernelClass& kernel = plan.kernel_class;
      const Tiled2D* map = kernel.map<Tiled2D>();
      ASSERT_NE(map, nullptr);
      const auto size = static_cast<int>(size_of(type));
      EXPECT_EQ(pixels % kernel.elements, 0);
      EXPECT_TRUE(kernel.elements * size == 16 || pixels % (2 * kernel.elements) != 0) << kernel.elements;
      const int read = map->input_lanes * size;
      const int written = 32 / map->input_lanes * kernel.elements * size;
      EXPECT_TRUE(written >= 32 || map->input_lanes == 4) << "four lanes at least are left to the other side";
      EXPECT_TRUE(read >= 32 || written < 64) << read << " bytes read, " << written << " written side by side";
      EXPECT_EQ(kernel.outputs[0].access, Access::contiguous);
      const std::int64_t along = kernel.threads / map->input_threads * kernel.elements * kernel.steps;
      EXPECT_GE(plan.tiles * map->input_threads * along, plan.space.elements);
      EXPECT_EQ(plan.tiles, plan.input_tiles * plan.output_tiles * 4);
    }
  }
}

TEST(Tiled, OnlyWhereCachesWouldNotDo) {
  const auto schedule = [](const Dims& shape, const Dims& strides) {
    return plan_of("x + 1", out(DType::f32, shape), {in(DType::f32, shape, strides)}).kernel_class.schedule();
  };
  EXPECT_EQ(schedule({64, 64}, {1, 64}), "transpose");
  EXPECT_EQ(schedule({64, 3}, {1, 64}), "flat");             // three long rows
  EXPECT_EQ(schedule({4, 1000}, {1, 4}), "flat");            // neighbours along the result share sectors
  EXPECT_EQ(schedule({64, 64}, {64, 1}), "flat");            // lies as the result does
  EXPECT_EQ(schedule({64, 64}, {128, 2}), "flat");           // every other element
  EXPECT_EQ(schedule({1 << 20, 8, 4}, {32, 1, 8}), "flat");  // small planes: most of a tile would be empty
  // A result that runs across is not written so.
  const OutputView transposed = out(DType::f32, {64, 64}, {1, 64});
  EXPECT_EQ(plan_of("x + 1", transposed, {in(DType::f32, {64, 64}, {1, 64})}).kernel_class.schedule(), "flat");
}

TEST(Transposed, VectorsAreFullAndLinesAsWideAsTheirAddresses) {
  struct Expected {
    DType type, result;
    std::int64_t channels, pixels;
    int elements;
    Access access;
    int width;
  };
  for (const Expected& expected : {Expected{DType::f32, DType::f32, 128, 15'876, 4, Access::transposed, 4},
                                   Expected{DType::f16, DType::f16, 128, 15'876, 8, Access::transposed_unaligned, 8},
                                   Expected{DType::f16, DType::f16, 128, 15'872, 8, Access::transposed, 8},
                                   Expected{DType::f16, DType::f16, 64, 263'169, 8, Access::transposed_unaligned, 8},
                                   Expected{DType::f32, DType::f32, 64, 263'169, 4, Access::transposed_unaligned, 4},
                                   Expected{DType::i8, DType::i8, 64, 65'536, 16, Access::transposed, 16},
                                   Expected{DType::i8, DType::f32, 128, 65'536, 16, Access::transposed, 4},
                                   Expected{DType::f32, DType::f16, 24, 208, 4, Access::transposed, 8},
                                   Expected{DType::f16, DType::f16, 126, 49, 2, Access::transposed_unaligned, 8},
                                   Expected{DType::i8, DType::i8, 33, 8, 1, Access::transposed_unaligned, 16},
                                   Expected{DType::f64, DType::f64, 33, 15'876, 1, Access::transposed, 2}}) {
    const Dims shape = {4, expected.channels, expected.pixels};
    const Plan plan = plan_of("relu(x + b)", out(expected.result, shape),
                              {in(expected.type, shape, {expected.channels * expected.pixels, 1, expected.channels}),
                               in(DType::f32, {expected.channels, 1})});
    const KernelClass& kernel = plan.kernel_class;
    const Transpose* map = kernel.map<Transpose>();
    ASSERT_NE(map, nullptr);
    EXPECT_EQ(kernel.elements, expected.elements);
    EXPECT_EQ(kernel.inputs[0].access, Access::contiguous);
    EXPECT_EQ(kernel.inputs[0].width, expected.elements);
    EXPECT_EQ(kernel.inputs[1].access, Access::hoisted);
    EXPECT_EQ(kernel.outputs[0].access, expected.access);
    EXPECT_EQ(kernel.outputs[0].width, expected.width);
    EXPECT_EQ(plan.space.extents, (Dims{4, expected.pixels, expected.channels}));
    EXPECT_EQ(expected.channels % kernel.elements, 0);
    const std::int64_t across = std::int64_t{map->input_threads} * kernel.elements;
    const std::int64_t along = 256 / map->input_threads * kernel.steps - map->tile_overlap;
    EXPECT_GE(plan.input_tiles * across, expected.channels);
    EXPECT_GE(plan.output_tiles * along, expected.pixels);
    EXPECT_EQ(plan.tiles, plan.input_tiles * plan.output_tiles * 4);
    EXPECT_LE(across * (along + map->tile_overlap) * static_cast<int>(size_of(expected.result)), 17'000);
  }
}

// Sectors are written as a whole but at the ends of lines: tiles compute a sector's elements more than they own, where
// lines begin inside sectors.
TEST(Transposed, LinesAreCutAtSectors) {
  const auto plan_for = [](DType type, std::int64_t channels, std::int64_t pixels) {
    const Dims shape = {8, channels, pixels};
    return plan_of("x + 1", out(type, shape), {in(type, shape, {channels * pixels, 1, channels})});
  };
  const auto tile_overlap = [&](DType type, std::int64_t pixels) {
    return plan_for(type, 128, pixels).kernel_class.map<Transpose>()->tile_overlap;
  };
  EXPECT_EQ(tile_overlap(DType::f32, 16'384), 0);  // at sectors
  EXPECT_EQ(tile_overlap(DType::f32, 15'880), 0);  // at these only
  EXPECT_EQ(tile_overlap(DType::f32, 15'876), 8);  // at 16 bytes
  EXPECT_EQ(tile_overlap(DType::f32, 15'877), 8);  // anywhere
  EXPECT_EQ(tile_overlap(DType::f64, 15'877), 4);
  EXPECT_EQ(tile_overlap(DType::f16, 15'888), 0);
  EXPECT_EQ(tile_overlap(DType::f16, 15'876), 16);
  EXPECT_EQ(tile_overlap(DType::i8, 15'876), 32);
  EXPECT_EQ(plan_for(DType::i8, 33, 15'877).kernel_class.map<Transpose>()->tile_overlap, 32);  // a quarter of a tile
  EXPECT_EQ(plan_for(DType::i8, 33, 8).kernel_class.map<Transpose>()->tile_overlap, 0);        // twice a tile
  for (const std::int64_t pixels : {1, 119, 120, 121, 15'877}) {
    const Plan plan = plan_for(DType::f32, 128, pixels);
    const KernelClass& kernel = plan.kernel_class;
    const Transpose* map = kernel.map<Transpose>();
    if (map == nullptr) continue;
    const std::int64_t own = 256 / map->input_threads * kernel.steps - map->tile_overlap;
    EXPECT_EQ(plan.output_tiles, (pixels + own - 1) / own) << pixels;
    EXPECT_EQ(own % 8, 0);
  }
}

TEST(Plan, LargeTensorsAreTakenFromTheEnd) {
  const auto reverse_order = [](const std::string& chain, const Dims& shape, const std::vector<TensorView>& inputs) {
    return plan_of(chain, out(inputs[0].dtype, shape), inputs).reverse_order;
  };
  const Dims shape = {2, 4'000'000};
  EXPECT_FALSE(reverse_order("relu(x)", {2, 3'999'999}, {in(DType::f32, {2, 3'999'999})}));
  EXPECT_TRUE(reverse_order("relu(x)", shape, {in(DType::f32, shape)}));  // 64 MB read and written
  EXPECT_FALSE(reverse_order("x + b", shape, {in(DType::f16, shape), in(DType::f16, {4'000'000})}));
  EXPECT_TRUE(reverse_order("x + b", shape, {in(DType::f16, shape), in(DType::f32, shape)}));
  const Dims images = {128, 64, 130, 130};
  EXPECT_TRUE(reverse_order("relu(x)", images, {in(DType::f16, images, {64 * 130 * 130, 1, 64 * 130, 64})}));
  EXPECT_FALSE(reverse_order("x - mean(x, -1, true)", {8192, 4096},
                             {in(DType::f32, {8192, 4096})}));  // rows have an order of their own
}

TEST(Transposed, OnlyWhereAllLargeInputsAreAlongOneDimension) {
  const Dims shape = {8, 64, 256};
  const Dims last = {64 * 256, 1, 64};
  const auto schedule = [&](const TensorView& second) {
    return plan_of("x + y", out(DType::f32, shape), {in(DType::f32, shape, last), second}).kernel_class.schedule();
  };
  EXPECT_EQ(schedule(in(DType::f32, shape, last)), "transpose");
  EXPECT_EQ(schedule(in(DType::f16, {64, 256}, {1, 64})), "transpose");  // the same plane for all images
  EXPECT_EQ(schedule(in(DType::f32, {256})), "transpose");               // per pixel: from the cache
  EXPECT_EQ(schedule(in(DType::f32, shape)), "tiled_2d");                // a residual as the result runs
  EXPECT_EQ(schedule(in(DType::f32, {64, 256}, {256, 1})), "tiled_2d");  // a plane that does
}

TEST(Transposed, NeverInPlace) {
  // Who writes an element has not read it: an operand at the result's address runs as the result does, and is not
  // transposed.
  alignas(16) static float memory[64 * 64];
  alignas(16) static float other[64 * 64];
  const ir::Program program = Epilogue::parse("x + y").program();
  const OutputView output(memory, DType::f32, {64, 64});
  const std::vector<TensorView> inputs = {TensorView(other, DType::f32, {64, 64}, {1, 64}),
                                          TensorView(memory, DType::f32, {64, 64})};
  EXPECT_EQ(make_plan(program, std::span(&output, 1), inputs).kernel_class.schedule(), "tiled_2d");
  const std::vector<TensorView> transposed = {TensorView(memory, DType::f32, {64, 64}, {1, 64}), inputs[0]};
  EXPECT_THROW(make_plan(program, std::span(&output, 1), transposed), Error);
}

TEST(Access, MisalignedPointersNarrowTheAccessOnly) {
  alignas(64) static float memory[256];
  const ir::Program program = Epilogue::parse("x + 1").program();
  for (const std::size_t offset : {0UL, 1UL, 2UL, 3UL, 4UL}) {
    const OutputView output(memory + 128, DType::f32, {64});
    const std::vector<TensorView> inputs = {TensorView(memory + offset, DType::f32, {64})};
    const Plan plan = make_plan(program, std::span(&output, 1), inputs);
    EXPECT_EQ(plan.kernel_class.inputs[0].width, offset % 4 == 0 ? 4 : offset % 2 == 0 ? 2 : 1);
    EXPECT_EQ(plan.kernel_class.outputs[0].width, 4);
  }
}

// A broadcast operand is read wide without a question where rows are divisible and each of its rows begins where an
// access may.
TEST(Access, BroadcastOperandsAreAlignedWhereAllTheirRowsAre) {
  alignas(64) static float memory[4096];
  const ir::Program program = Epilogue::parse("x + b").program();
  const auto bias = [&](const Dims& shape, const Dims& b_shape, const Dims& b_strides, std::size_t offset) {
    const OutputView output(memory, DType::f16, shape);
    const std::vector<TensorView> inputs = {TensorView(memory + 1024, DType::f16, shape),
                                            TensorView(memory + 2048 + offset, DType::f32, b_shape, b_strides)};
    return make_plan(program, std::span(&output, 1), inputs).kernel_class;
  };
  const KernelClass aligned = bias({4, 3, 16}, {16}, {1}, 0);
  EXPECT_EQ(aligned.inputs[1].access, Access::contiguous);
  EXPECT_EQ(aligned.inputs[1].width, 4);
  EXPECT_TRUE(aligned.inputs[1].aligned);
  EXPECT_TRUE(bias({4, 3, 16}, {16}, {1}, 4).inputs[1].aligned);
  EXPECT_TRUE(bias({4, 3, 16}, {4, 1, 16}, {20, 16, 1}, 0).inputs[1].aligned);
  EXPECT_FALSE(bias({4, 3, 16}, {16}, {1}, 1).inputs[1].aligned) << "begins at an odd address";
  EXPECT_FALSE(bias({4, 3, 16}, {4, 1, 16}, {18, 16, 1}, 0).inputs[1].aligned) << "its second row does";
  EXPECT_FALSE(bias({4, 3, 15}, {15}, {1}, 0).inputs[1].aligned) << "vectors begin anywhere in a row";
  EXPECT_EQ(bias({4, 3, 16}, {16}, {1}, 1).inputs[1].width, 4) << "the kernel asks, vector by vector";
}

TEST(Index, Is32BitsWhereThatIsEnough) {
  EXPECT_FALSE(plan_of("x", out(DType::i8, {1 << 30}), {in(DType::i8, {1 << 30})}).kernel_class.wide_index);
  EXPECT_TRUE(plan_of("x", out(DType::i8, {1LL << 31}), {in(DType::i8, {1LL << 31})}).kernel_class.wide_index);
  // Few elements, far apart.
  EXPECT_TRUE(plan_of("x", out(DType::i8, {8}), {in(DType::i8, {8}, {1LL << 30})}).kernel_class.wide_index);
  const Plan largest = plan_of("x", out(DType::i8, {1LL << 40}), {in(DType::i8, {1LL << 40})});
  EXPECT_GE(std::int64_t{largest.tiles} * largest.threads * largest.kernel_class.steps * largest.kernel_class.elements,
            1LL << 40);
}

TEST(Compute, TypeFollowsTheDesign) {
  const auto is_f64 = [](const char* chain, DType to, std::vector<DType> from) {
    std::vector<TensorView> inputs;
    for (const DType type : from) inputs.push_back(in(type, {4}));
    return plan_of(chain, out(to, {4}), inputs).kernel_class.f64;
  };
  EXPECT_FALSE(is_f64("x + y", DType::f32, {DType::f16, DType::f32}));
  EXPECT_TRUE(is_f64("x + y", DType::f32, {DType::f16, DType::f64}));
  EXPECT_TRUE(is_f64("cast(x, f64) + y", DType::f32, {DType::f16, DType::f32}));
  EXPECT_FALSE(is_f64("x * y", DType::i8, {DType::i32, DType::f32}));           // requantisation
  EXPECT_TRUE(is_f64("x + y", DType::i32, {DType::i32, DType::i32}));           // integers stay exact
  EXPECT_TRUE(is_f64("where(x, y, y)", DType::f32, {DType::f64, DType::f32}));  // simplification decides nothing
}

TEST(Grid, SmallProblemsUseMoreAndSmallerBlocks) {
  const Plan small = plan_of("x + 1", out(DType::f32, {1 << 16}), {in(DType::f32, {1 << 16})});
  const Plan large = plan_of("x + 1", out(DType::f32, {1 << 26}), {in(DType::f32, {1 << 26})});
  EXPECT_LT(small.threads, large.threads);
  EXPECT_EQ(to_text(small.kernel_class), to_text(large.kernel_class));
}

TEST(Empty, NothingIsLaunched) {
  EXPECT_EQ(plan_of("x + b", out(DType::f32, {0, 3}), {in(DType::f32, {0, 3}), in(DType::f32, {3})}).blocks, 0U);
}

}  // namespace
}  // namespace epifuse::plan
