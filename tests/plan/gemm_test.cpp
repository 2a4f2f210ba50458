// Products that host a chain: which tile, what operands are to it, which boxes are copied, and what is refused in which
// words.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "plan/gemm/inside.hpp"
#include "support/as_written.hpp"

namespace epifuse::plan {
namespace {

constexpr auto kBf16 = DType::bf16;

TensorView dense(DType type, const Dims& shape) { return {nullptr, type, shape}; }

struct Product {
  std::string chain = "x";
  Dims left = {256, 64}, right = {512, 64};
  std::vector<TensorView> operands = {};  ///< behind x
  DType factor = kBf16, result = kBf16;
  Dims shape = {256, 512};
  int architecture = 90;
  std::vector<std::string> scalars = {};
  int multiprocessors = 0;

  GemmPlan plan() const { return plan(dense(factor, left), dense(factor, right)); }
  GemmPlan plan(const TensorView& a, const TensorView& b) const {
    const Epilogue tail = Epilogue::parse(chain, scalars);
    std::vector<TensorView> inputs = {TensorView{}};
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    return plan_gemm(tail.program(), "x", a, b, OutputView(nullptr, result, shape), inputs,
                     Machine(architecture, multiprocessors));
  }
  /// The sentence of a refusal, or nothing.
  std::string refusal() const {
    try {
      plan();
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  }
};

Product product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  return {.left = {rows, depth}, .right = {columns, depth}, .shape = {rows, columns}};
}

TEST(GemmTiles, FollowTheShape) {
  const GemmPlan large = product(8192, 4096, 4096).plan();
  EXPECT_NE(large.gemm_class.warp_group_tile(), nullptr);
  EXPECT_EQ(large.gemm_class.tile_columns(), 256);
  EXPECT_EQ(large.gemm_class.tile_rows(), 128);
  EXPECT_EQ(large.tiles, 32 * 16) << "clusters of two tiles below each other";
  EXPECT_EQ(large.blocks, 132);
  // The chain of tiles that warp groups take turns with runs beside products. Where their last round is half empty,
  // that costs more than a chain that nothing runs beside.
  const auto tile_of = [](std::int64_t rows, std::int64_t columns, const char* chain) {
    Product work = product(rows, columns, 4096);
    work.chain = chain;
    return work.plan().gemm_class.warp_group_tile()->columns;
  };
  EXPECT_EQ(tile_of(8192, 4096, "gelu(x)"), 192);
  EXPECT_EQ(tile_of(8192, 8192, "x"), 192);
  EXPECT_EQ(tile_of(1024, 8192, "gelu(x)"), 256);
  Product on_one = product(256, 256, 128);
  on_one.multiprocessors = 1;
  EXPECT_EQ(on_one.plan().gemm_class.cluster(), 1) << "a cluster has two multiprocessors";
  // A box of a right factor whose columns are contiguous has 64 of them, and half of 192 is no multiple of that.
  const Product square = product(8192, 8192, 4096);
  EXPECT_EQ(square.plan(dense(kBf16, square.left), TensorView(nullptr, kBf16, square.right, Dims{1, 8192}))
                .gemm_class.tile_columns(),
            256);
  // Half of a tile of 256 columns would be empty.
  EXPECT_EQ(product(16'896, 128, 64).plan().gemm_class.tile_columns(), 128);
  // Below 129 rows the second block of a cluster would have no work.
  EXPECT_EQ(product(128, 16'896, 64).plan().gemm_class.cluster(), 1);
}

TEST(GemmTiles, AreSharedWhereTheyAreFew) {
  const auto plan = [](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    return product(rows, columns, depth).plan();
  };
  const GemmPlan two = plan(256, 4096, 4096);
  EXPECT_EQ(two.gemm_class.split(), 2);
  EXPECT_EQ(two.tiles, 64);
  EXPECT_EQ(two.blocks, 128);
  EXPECT_EQ(two.gemm_class.chain_columns(), 64) << "each block has half of a tile's chain";
  EXPECT_EQ(plan(128, 2048, 4096).gemm_class.split(), 4);
  EXPECT_EQ(plan(128, 4096, 4096).gemm_class.split(), 2) << "32 clusters of four blocks do not run at once";
  EXPECT_EQ(plan(512, 4096, 4096).gemm_class.split(), 1) << "128 tiles fill 132 multiprocessors";
  EXPECT_EQ(plan(128, 2048, 64 * 5).gemm_class.split(), 1) << "each block fills its first stages";
}

TEST(GemmTiles, CoverEveryElement) {
  for (const std::int64_t rows : {1, 127, 129, 1000, 40'000}) {
    for (const std::int64_t columns : {8, 136, 1032, 20'000}) {
      const GemmPlan plan = product(rows, columns, 72).plan();
      const GemmClass& made = plan.gemm_class;
      EXPECT_GE(plan.cluster_rows * made.cluster() * made.tile_rows(), rows);
      EXPECT_LT((plan.cluster_rows - 1) * made.cluster() * made.tile_rows(), rows);
      EXPECT_GE(plan.tile_columns * made.tile_columns(), columns);
      EXPECT_EQ(plan.tiles, plan.cluster_rows * plan.tile_columns);
      EXPECT_LE(plan.blocks, 132);
      EXPECT_EQ(plan.blocks % made.cluster(), 0);
      EXPECT_GE(plan.band, 1);
    }
  }
}

TEST(GemmTiles, FitSharedMemoryWithEveryOperand) {
  const TensorView full = dense(kBf16, {256, 512});
  const TensorView bias = dense(kBf16, {512});
  Product work;
  for (const char* chain : {"x", "x + b", "x * b + r", "(x + b) * r + s"}) {
    work.chain = chain;
    const GemmPlan plan = work.plan();
    EXPECT_LE(plan.gemm_class.shared_bytes(), 227 * 1024) << chain;
    EXPECT_GE(plan.gemm_class.slots, 3) << chain;
    EXPECT_GE(plan.gemm_class.stages(), 3) << chain;
    work.operands.push_back(work.operands.empty() ? bias : full);
  }
}

// Where warps multiply: two blocks of a multiprocessor, with as many stages as its shared memory has.
TEST(WarpTiles, AreTwoOfAMultiprocessor) {
  for (const int architecture : {80, 86, 87, 89, 120}) {
    Product work = product(8192, 4096, 4096);
    work.architecture = architecture;
    const GemmPlan plan = work.plan();
    const WarpTile* const tile = plan.gemm_class.warp_tile();
    ASSERT_NE(tile, nullptr) << architecture;
    EXPECT_EQ(tile->per_multiprocessor, 2) << architecture;
    const bool has_much = architecture == 80 || architecture == 87;
    EXPECT_EQ(tile->stages, has_much ? 4 : 3) << architecture;
    const Machine machine(architecture);
    EXPECT_LE(2 * (plan.gemm_class.shared_bytes() + kReservedShared), machine.shared_bytes) << architecture;
    EXPECT_EQ(plan.blocks, plan.tiles) << "a block has one tile";
  }
}

TEST(WarpTiles, FollowTheShape) {
  const auto made = [](std::int64_t rows, std::int64_t columns) {
    Product work = product(rows, columns, 64);
    work.architecture = 80;
    work.multiprocessors = 100;
    const GemmClass found = work.plan().gemm_class;
    return std::pair{found.tile_rows(), found.tile_columns()};
  };
  EXPECT_EQ(made(8192, 8192), std::pair(128, 128));
  EXPECT_EQ(made(64, 12'800), std::pair(64, 128)) << "half of a taller tile would be empty";
  EXPECT_EQ(made(64, 6400), std::pair(64, 64)) << "one for each multiprocessor";
}

TEST(WarpTiles, CoverEveryElementOfEveryOperand) {
  const TensorView full = dense(DType::f32, {1000, 1032});
  for (const char* chain : {"x", "x + r", "x * r + s", "x * b + c"}) {
    Product work{.chain = chain, .left = {1000, 72}, .right = {1032, 72}, .shape = {1000, 1032}, .architecture = 86};
    if (std::string_view(chain).find('r') != std::string_view::npos) work.operands.push_back(full);
    if (std::string_view(chain).find('s') != std::string_view::npos) work.operands.push_back(full);
    if (std::string_view(chain).find('b') != std::string_view::npos)
      work.operands = {dense(DType::f32, {1032}), dense(DType::f32, {1000, 1})};
    const GemmPlan plan = work.plan();
    const GemmClass& made = plan.gemm_class;
    EXPECT_GE(plan.cluster_rows * made.tile_rows(), 1000);
    EXPECT_GE(plan.tile_columns * made.result_columns(), 1032);
    EXPECT_EQ(made.subtile_columns(), made.result_columns() / 2) << "two warps stand side by side";
    EXPECT_GE(made.slots, 1);
    EXPECT_LE(made.slots * made.slot_bytes(), made.stages() * (made.tile_rows() + made.tile_columns()) * 64)
        << "slots stand where the stages were";
    EXPECT_LE(made.shared_bytes(), 99 * 1024) << chain;
  }
}

// Of products [256, 256] of 64: x and w, and v, another right factor.
std::variant<Inside, std::string> reducing(const std::string& chain, const std::vector<DType>& results,
                                           int architecture) {
  const Epilogue tail = test::as_written(chain);
  const std::vector<TensorView> inputs(tail.inputs().size(), dense(kBf16, {256, 64}));
  const std::vector<Dims> shapes = tail.result_shapes(inputs);
  std::vector<OutputView> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) outputs.emplace_back(nullptr, results[i], shapes[i]);
  return plan_one_kernel(split_products(tail.program(), inputs, Views::abstract), outputs, inputs,
                         Machine(architecture));
}

TEST(WarpReductions, LeaveWhatEachQuarterHas) {
  const auto planned =
      reducing("y = linear(x, w); return y, sum(y, axis=-1), sum(y, axis=0)", {kBf16, DType::f32, DType::f32}, 86);
  const GemmPlan& plan = std::get<Inside>(planned).plan;
  const WarpTile* const tile = plan.gemm_class.warp_tile();
  ASSERT_NE(tile, nullptr);
  ASSERT_EQ(plan.partials.size(), 2U);
  EXPECT_EQ(plan.partials[0].count, 256 / (tile->columns / 2));
  EXPECT_EQ(plan.partials[0].extent, 256);
  EXPECT_EQ(plan.partials[1].count, 256 / (tile->tile_rows / 2));
  EXPECT_EQ(plan.partials[1].extent, 256);
}

TEST(WarpReductions, OfGroupsNeedATileThatHasThem) {
  const auto made = [](const char* chain, int architecture) {
    return reducing(chain, {DType::f8e4m3, DType::f32}, architecture);
  };
  const auto joins_warps = [&](const char* chain) {
    return std::get<Inside>(made(chain, 80)).plan.gemm_class.joins_warps();
  };
  EXPECT_FALSE(joins_warps("q, s = quantize(linear(x, w), f8e4m3, 32); return q, s"));
  EXPECT_TRUE(joins_warps("q, s = quantize(linear(x, w), f8e4m3, 128); return q, s"));
  EXPECT_TRUE(joins_warps("q, s = quantize(linear(x, w) * linear(x, v), f8e4m3, 64); return q, s"));
  const char* const of_256 = "q, s = quantize(linear(x, w), f8e4m3, 256); return q, s";
  EXPECT_EQ(std::get<std::string>(made(of_256, 80)),
            "the chain reduces groups of 256 columns of a product; sm_80 has no tile with whole ones that fits its "
            "shared memory. Run the product and the chain apart");
  EXPECT_NE(std::get<std::string>(made("q, s = quantize(linear(x, w) * linear(x, v), f8e4m3, 128); return q, s", 120))
                .find("groups of 128 columns of two products; sm_120 has no tile"),
            std::string::npos);
  EXPECT_TRUE(std::holds_alternative<Inside>(made(of_256, 90)));
}

// A GPU whose warp groups multiply runs the other family as well, where it is told that its warps do.
TEST(WarpTiles, AreOfTheMachineThatAsks) {
  Machine machine(90);
  machine.tensor_cores = TensorCores::warps;
  const Epilogue tail = Epilogue::parse("relu(x)");
  const GemmPlan plan = plan_gemm(tail.program(), "x", dense(kBf16, {256, 64}), dense(kBf16, {512, 64}),
                                  OutputView(nullptr, kBf16, {256, 512}), std::vector<TensorView>(1), machine);
  EXPECT_NE(plan.gemm_class.warp_tile(), nullptr);
  EXPECT_NE(code_of(plan.gemm_class), code_of(product(256, 512, 64).plan().gemm_class));
}

TEST(GemmOperands, HaveARoleByWhatTheyVaryAlong) {
  Product work{.chain = "x * a + b * c + d"};
  work.operands = {dense(DType::f32, {1}), dense(DType::f16, {512}), dense(DType::f32, {256, 1}),
                   dense(kBf16, {256, 512})};
  const GemmPlan plan = work.plan();
  std::vector<GemmRole> roles;
  for (const GemmOperand& operand : plan.gemm_class.operands) roles.push_back(operand.role);
  const std::vector<GemmRole> expected = {GemmRole::product, GemmRole::row, GemmRole::row, GemmRole::column,
                                          GemmRole::tile};
  EXPECT_EQ(roles, expected);
  ASSERT_EQ(plan.row_vectors.size(), 2U);
  EXPECT_EQ(plan.row_vectors[0].stride, 0) << "one value for all";
  EXPECT_EQ(plan.row_vectors[1].stride, 1);
  ASSERT_EQ(plan.column_vectors.size(), 1U);
  EXPECT_EQ(plan.column_vectors[0].stride, 1);
  EXPECT_EQ(plan.maps.size(), 4U) << "both factors, the result, and d";
}

TEST(GemmMaps, SayWhatTmaCopies) {
  const Product work;
  const TensorView left(nullptr, kBf16, {256, 64}, {1, 264});  // its rows are contiguous
  const TensorView right(nullptr, kBf16, {512, 64}, {72, 1});
  const GemmPlan plan = work.plan(left, right);
  EXPECT_TRUE(plan.gemm_class.left_transposed);
  EXPECT_FALSE(plan.gemm_class.right_transposed);
  EXPECT_EQ(plan.maps[0].extents, (std::array<std::int64_t, 4>{256, 64, 1, 1}));
  EXPECT_EQ(plan.maps[0].strides[0], 264 * 2);
  EXPECT_EQ(plan.maps[0].box, (std::array<int, 4>{64, 64, 1, 1}));
  EXPECT_EQ(plan.maps[1].extents, (std::array<std::int64_t, 4>{64, 512, 1, 1}));
  EXPECT_EQ(plan.maps[1].strides[0], 72 * 2);
  EXPECT_EQ(plan.maps[1].box[1], plan.gemm_class.tile_columns() / plan.gemm_class.cluster());
  EXPECT_EQ(plan.maps[2].box, (std::array<int, 4>{32, 64, 1, 1}));
  EXPECT_EQ(plan.maps[2].swizzle, 64);
}

TEST(GemmMaps, HaveABatch) {
  Product work{.left = {3, 256, 64}, .right = {3, 512, 64}, .shape = {3, 256, 512}};
  const GemmPlan plan = work.plan();
  EXPECT_EQ(plan.batches, 3);
  EXPECT_EQ(plan.maps[0].extents[2], 3);
  EXPECT_EQ(plan.maps[0].strides[1], 256 * 64 * 2);
}

TEST(GemmRefusals, NameWhatWasFound) {
  const auto expect = [](const Product& work, const char* expected) {
    EXPECT_NE(work.refusal().find(expected), std::string::npos) << expected << "\nfound: " << work.refusal();
  };
  expect({.right = {512, 72}}, "differ in their last dimension, along which products are summed: 64 and 72");
  expect({.factor = DType::f64}, "the left factor is f64");
  expect({.result = DType::i32}, "the result is i32");
  expect({.architecture = 75}, "this is sm_75");
  expect({.architecture = 100}, "needs the tensor cores of sm_80 to sm_90, or of sm_120");
  expect({.factor = DType::f8e4m3, .architecture = 86},
         "the factors are f8e4m3, which tensor cores multiply from sm_89");
  expect({.chain = "softmax(x, axis=-1)"}, "this one has reductions");
  expect({.shape = {256, 256}}, "the result has shape [256, 256]");
  expect({.left = {2, 256, 64}}, "a batch of 2 and the right one of 1");
  expect({.left = {256, 0}, .right = {512, 0}}, "has no elements");
  expect({.left = {256, 65}, .right = {512, 65}}, "'left factor' has strides [65, 1]");
  expect({.chain = "x + y", .operands = {dense(DType::i32, {256, 512})}}, "operand 'y' is i32");
  expect({.chain = "x + y", .operands = {dense(DType::f64, {512})}}, "computes in f64");
  expect({.chain = "x + y * z + w", .operands = std::vector<TensorView>(3, dense(kBf16, {256, 512}))},
         "reads 3 tensors of the result's size");
  const Product bytes{.left = {256, 128}, .right = {512, 128}, .factor = DType::i8};
  try {
    bytes.plan(TensorView(nullptr, DType::i8, {256, 128}, {1, 256}), dense(DType::i8, {512, 128}));
    ADD_FAILURE() << "tensor cores do not read i8 along the rows";
  } catch (const Error& error) {
    EXPECT_NE(std::string_view(error.what()).find("the left factor has its rows contiguous"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(bytes.refusal(), "");
  EXPECT_EQ(Product{}.refusal(), "");
}

// A slot has the result in the place of an operand whose numbers are as large, else behind all operands.
TEST(GemmSlots, HoldOperandsAndTheResult) {
  const auto slot = [](DType result, const std::vector<DType>& operands) {
    Product work{.chain = operands.empty() ? "x" : operands.size() == 1 ? "x + y" : "x + y + z", .result = result};
    for (const DType type : operands) work.operands.push_back(dense(type, {256, 512}));
    const GemmClass made = work.plan().gemm_class;
    return std::array{made.input_bytes(), made.result_at(), made.slot_bytes()};
  };
  EXPECT_EQ(slot(kBf16, {}), (std::array{0, 0, 4096}));
  EXPECT_EQ(slot(kBf16, {DType::f16}), (std::array{4096, 0, 4096}));
  EXPECT_EQ(slot(DType::f32, {DType::f16}), (std::array{4096, 4096, 12'288}));
  EXPECT_EQ(slot(DType::f8e4m3, {DType::f32, kBf16}), (std::array{12'288, 12'288, 14'336}));
  EXPECT_EQ(slot(DType::f32, {DType::f32, DType::i8}), (std::array{10'240, 0, 10'240}));
}

// Sums of float8 numbers are taken out, by warp groups that share their tile.
TEST(GemmSums, OfFloat8ArePromoted) {
  const auto made = [](DType factor) {
    return Product{.left = {135'168, 1024}, .right = {128, 1024}, .factor = factor, .shape = {135'168, 128}}
        .plan()
        .gemm_class;
  };
  EXPECT_TRUE(made(DType::i8).warp_group_tile()->takes_turns);
  EXPECT_FALSE(made(DType::i8).promotes());
  EXPECT_FALSE(made(DType::f8e4m3).warp_group_tile()->takes_turns);
  EXPECT_TRUE(made(DType::f8e5m2).promotes());
  EXPECT_EQ(made(DType::f8e5m2).depth(), 128);
  EXPECT_EQ(made(kBf16).depth(), 64);
}

TEST(GemmRefusals, SeeOverlap) {
  alignas(256) static std::uint16_t memory[512 * 512];
  const auto view = [](std::size_t first, const Dims& shape) { return TensorView(memory + first, kBf16, shape); };
  const Epilogue tail = Epilogue::parse("x + r");
  const OutputView out(memory, kBf16, {256, 512});
  const TensorView far = dense(kBf16, {256, 64});
  const TensorView weight = dense(kBf16, {512, 64});
  const auto refusal = [&](const TensorView& left, const TensorView& operand) -> std::string {
    try {
      plan_gemm(tail.program(), "x", left, weight, out, std::vector<TensorView>{TensorView{}, operand}, Machine(90));
      return {};
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(refusal(far, view(0, {256, 512})), "") << "in place";
  EXPECT_NE(refusal(far, view(8, {256, 512})).find("overlaps operand 'r'"), std::string::npos);
  EXPECT_NE(refusal(view(64, {256, 64}), far.shape == Dims{} ? far : dense(kBf16, {512})).find("overlaps a factor"),
            std::string::npos);
}

// Large products host their chain. Few rows leave most multiprocessors without a tile, and cuBLASLt cuts the depth
// then.
TEST(GemmTime, DecidesWhetherTheyAreOneKernel) {
  const auto times = [](std::int64_t rows, std::int64_t columns, std::int64_t depth, const char* chain,
                        DType factor = kBf16) {
    const Product work{
        .chain = chain, .left = {rows, depth}, .right = {columns, depth}, .factor = factor, .shape = {rows, columns}};
    return estimate(work.plan(), Epilogue::parse(chain).program(), 0, 0, Machine(90));
  };
  const auto is_one = [&](std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    const ProductTimes found = times(rows, columns, depth, "relu(x)");
    return found.inside <= found.apart;
  };
  EXPECT_TRUE(is_one(8192, 4096, 4096));
  EXPECT_TRUE(is_one(1024, 8192, 8192));
  EXPECT_TRUE(is_one(64, 128, 64)) << "a second kernel's start takes longer";
  EXPECT_FALSE(is_one(16, 4096, 4096));
  EXPECT_FALSE(is_one(128, 4096, 16'384));
  // Where warp groups take turns, a costly chain runs beside products. Those of float8 factors share their tiles, and
  // their kernel shows all of it.
  const auto costly = [&](DType factor) {
    return times(8192, 4096, 4096, "mish(mish(x))", factor).inside / times(8192, 4096, 4096, "relu(x)", factor).inside;
  };
  EXPECT_LT(costly(kBf16), 1.03);
  EXPECT_GT(costly(DType::f8e4m3), 1.05);
}

// The same where warps multiply: what a chain costs there is hidden by the other block, and memory is slower for what
// tensor cores do.
TEST(WarpTime, DecidesWhetherTheyAreOneKernel) {
  const auto times = [](int architecture, std::int64_t rows, std::int64_t columns, std::int64_t depth) {
    Product work{.chain = "relu(x)",
                 .left = {rows, depth},
                 .right = {columns, depth},
                 .shape = {rows, columns},
                 .architecture = architecture};
    return estimate(work.plan(), Epilogue::parse("relu(x)").program(), 0, 0, Machine(architecture));
  };
  for (const int architecture : {80, 86, 89, 120}) {
    const ProductTimes large = times(architecture, 8192, 4096, 4096);
    EXPECT_LT(large.inside, large.apart) << architecture;
    const ProductTimes few_rows = times(architecture, 16, 512, 16'384);
    EXPECT_GT(few_rows.inside, few_rows.apart) << architecture;
  }
  // Twice the multiplications take twice as long.
  EXPECT_NEAR(times(80, 8192, 4096, 8192).inside / times(80, 8192, 4096, 4096).inside, 2, 0.1);
}

TEST(GemmText, SaysWhatRunsWhere) {
  constexpr ProductTimes kTimes = {
      .inside = 12e-6, .apart = 34e-6, .products = 8e-6, .chain = 3e-6, .memory = 1e-6, .bytes = 5e6, .copied = 7e6};
  Product work{.chain = "gelu(x + b) + r"};
  work.operands = {dense(kBf16, {512}), dense(kBf16, {256, 512})};
  const Epilogue tail = Epilogue::parse(work.chain);
  const std::string text = to_text(work.plan(), kTimes, tail.program(), Machine(90));
  for (const char* expected : {"bf16[256, 64] @ bf16[512, 64]^T", "stages", "waves of 132 multiprocessors",
                               "about 12 us; the product and then the chain about 34 us",
                               "8 us of products, 2.1 Tflop/s; 3 us of the chain that no product hides; beside them 1 "
                               "us for 5 MB of memory, and 7 MB from the L2 cache to tiles",
                               "b (bf16): a value for each column", "r (bf16): a value for each element: by TMA"})
    EXPECT_NE(text.find(expected), std::string::npos) << expected << "\n" << text;
  work.architecture = 86;
  const std::string of_warps = to_text(work.plan(), kTimes, tail.program(), Machine(86));
  for (const char* expected : {"a quarter for each of four warps", "waves of 82 multiprocessors, with 2 of them each",
                               "r (bf16): a value for each element: by cp.async"})
    EXPECT_NE(of_warps.find(expected), std::string::npos) << expected << "\n" << of_warps;
}

// Images and filters channels-last, and the result likewise.
struct Convolved {
  Dims images = {8, 64, 56, 56}, filters = {128, 64, 3, 3};
  std::string chain = "relu(conv2d(x, w, padding=1))";
  std::vector<TensorView> operands = {};
  int architecture = 90;
  DType type = kBf16;

  static TensorView nhwc(DType type, const Dims& shape) { return {nullptr, type, shape, channels_last(shape)}; }
  std::variant<Inside, std::string> plan() const { return plan({nhwc(type, images), nhwc(type, filters)}); }
  std::variant<Inside, std::string> plan(std::vector<TensorView> inputs) const {
    const Epilogue tail = Epilogue::parse(chain);
    inputs.insert(inputs.end(), operands.begin(), operands.end());
    const WithoutProducts split = split_products(tail.program(), inputs, Views::abstract);
    const Dims shape = split.products[0].shape;
    const OutputView out(nullptr, type, shape, channels_last(shape));
    return plan_inside(split, std::span(&out, 1), inputs, Machine(architecture));
  }
  std::string refusal() const { return std::get<std::string>(plan()); }
};

TEST(GemmConvolutions, HavePatchesThatFitTheResult) {
  const auto patch = [](const Dims& images, const std::string& chain) {
    const auto planned = Convolved{.images = images, .filters = {128, 64, 3, 3}, .chain = chain}.plan();
    const Convolution& of = *std::get<Inside>(planned).plan.convolution;
    return Dims{of.patch->images, of.patch->height, of.patch->width, of.patches()};
  };
  EXPECT_EQ(patch({8, 64, 64, 64}, "conv2d(x, w, padding=1)"), (Dims{1, 8, 16, 8 * 32})) << "as square as can be";
  EXPECT_EQ(patch({8, 64, 1, 512}, "conv2d(x, w, padding=1)"), (Dims{1, 1, 128, 8 * 4}));
  EXPECT_EQ(patch({64, 64, 7, 7}, "conv2d(x, w, padding=1)"), (Dims{16, 1, 8, 28})) << "of several images";
  EXPECT_EQ(patch({128, 64, 3, 3}, "conv2d(x, w)"), (Dims{128, 1, 1, 1})) << "one pixel of each";
  EXPECT_EQ(patch({1, 64, 1, 1024}, "conv2d(x, w, stride=(1, 8), padding=1)")[2], 32)
      << "a box reaches over 256 pixels";
}

TEST(GemmConvolutions, SayWhatTmaCopies) {
  const auto planned = Convolved{.chain = "conv2d(x, w, stride=(2, 1), padding=1) + r",
                                 .operands = {Convolved::nhwc(DType::f32, {8, 128, 28, 56})}}
                           .plan();
  const GemmPlan& plan = std::get<Inside>(planned).plan;
  const Patch& patch = *plan.convolution->patch;
  EXPECT_EQ(plan.depth, 9 * 64);
  ASSERT_EQ(plan.maps.size(), 4U) << "images, filters, the result, and r";
  EXPECT_EQ(plan.maps[0].extents, (std::array<std::int64_t, 4>{64, 56, 56, 8}));
  EXPECT_EQ(plan.maps[0].strides, (std::array<std::int64_t, 3>{128, 56 * 128, 56 * 56 * 128}));
  EXPECT_EQ(plan.maps[0].box, (std::array<int, 4>{64, patch.width, patch.height, patch.images}));
  EXPECT_EQ(plan.maps[0].steps, (std::array<int, 4>{1, 1, 2, 1}));
  EXPECT_EQ(plan.maps[1].extents, (std::array<std::int64_t, 4>{64, 9, 128, 1})) << "a plane for each pixel of filters";
  EXPECT_EQ(plan.maps[1].strides[0], 128);
  EXPECT_EQ(plan.maps[1].box, (std::array<int, 4>{64, 1, 64, 1})) << "the cluster's other block copies as many";
  const Patch half = patch.halved();
  EXPECT_EQ(half.pixels(), 64);
  EXPECT_EQ(plan.maps[2].box, (std::array<int, 4>{32, half.width, half.height, half.images}));
  EXPECT_EQ(plan.maps[3].swizzle, 128) << "of f32";
}

// Rows are pixels in their order, and each pixel of the filters is a matrix [filters, channels].
TEST(GemmConvolutions, OfWarpsAreMatricesButForTheImages) {
  const auto planned = Convolved{.images = {8, 40, 57, 90},
                                 .filters = {128, 40, 3, 5},
                                 .chain = "conv2d(x, w, stride=(2, 9), padding=1) + r",
                                 .operands = {Convolved::nhwc(DType::f32, {8, 128, 29, 10})},
                                 .architecture = 80}
                           .plan();
  ASSERT_TRUE(std::holds_alternative<Inside>(planned)) << std::get<std::string>(planned);
  const GemmPlan& plan = std::get<Inside>(planned).plan;
  ASSERT_NE(plan.gemm_class.warp_tile(), nullptr);
  EXPECT_FALSE(plan.convolution->patch);
  EXPECT_EQ(plan.rows, 8 * 29 * 10);
  EXPECT_EQ(plan.depth, 15 * 64) << "two stages of 32 channels for each pixel of the filters";
  ASSERT_EQ(plan.maps.size(), 4U) << "images, filters, the result, and r";
  EXPECT_EQ(plan.maps[0].rank, 4);
  EXPECT_EQ(plan.maps[0].strides, (std::array<std::int64_t, 3>{80, 90 * 80, 57 * 90 * 80}));
  EXPECT_EQ(plan.maps[1].extents, (std::array<std::int64_t, 4>{40, 128, 15, 1}));
  EXPECT_EQ(plan.maps[1].strides[0], 15 * 80) << "from filter to filter";
  EXPECT_EQ(plan.maps[1].strides[1], 80) << "from pixel to pixel";
  EXPECT_EQ(plan.maps[2].extents, (std::array<std::int64_t, 4>{128, 8 * 29 * 10, 1, 1}));
  EXPECT_EQ(plan.maps[3].strides[0], 128 * 4) << "of f32";
  const std::string text =
      to_text(plan, {.inside = 12e-6, .apart = 34e-6, .products = 0, .chain = 0, .memory = 0, .bytes = 0, .copied = 0},
              std::get<Inside>(planned).chain(), Machine(80));
  EXPECT_NE(text.find("stride 2 x 9, padding 1 x 1"), text.npos) << text;
  EXPECT_NE(text.find("pixels of the result in their order"), text.npos) << text;
}

TEST(GemmConvolutions, OfWarpsLeaveRegistersToWindows) {
  const auto rows = [](const std::string& chain, DType type, const std::vector<TensorView>& operands = {}) {
    const auto planned = Convolved{.images = {32, 256, 56, 56},
                                   .filters = {256, 256, 3, 3},
                                   .chain = chain,
                                   .operands = operands,
                                   .architecture = 89,
                                   .type = type}
                             .plan();
    return std::get<Inside>(planned).plan.gemm_class.tile_rows();
  };
  EXPECT_EQ(rows("relu(conv2d(x, w, padding=1))", kBf16), 128);
  EXPECT_EQ(rows("relu(conv2d(x, w, padding=1)) * conv2d(x, v, padding=1)", kBf16,
                 {Convolved::nhwc(kBf16, {256, 256, 3, 3})}),
            64)
      << "two of them";
  EXPECT_EQ(rows("relu(conv2d(x, w, padding=1))", DType::f8e4m3), 64) << "sums are taken out";
}

TEST(GemmConvolutions, HostNormsOfChannels) {
  const auto planned = Convolved{.chain =
                                     "c = conv2d(x, w, padding=1); relu((c - along(m, c, 1)) * "
                                     "along(rsqrt(v + 0.001), c, 1))",
                                 .operands = {dense(DType::f32, {128}), dense(DType::f32, {128})}}
                           .plan();
  ASSERT_TRUE(std::holds_alternative<Inside>(planned)) << std::get<std::string>(planned);
  const GemmPlan& plan = std::get<Inside>(planned).plan;
  EXPECT_EQ(plan.maps.size(), 3U) << "images, filters, and the result: threads read the vectors";
}

TEST(GemmConvolutions, RefusalsNameWhatDoesNotFit) {
  const auto says = [](const Convolved& of, const std::string& words) {
    EXPECT_NE(of.refusal().find(words), std::string::npos) << of.refusal();
  };
  says({.architecture = 75}, "needs the tensor cores of sm_80 to sm_90, or of sm_120; this is sm_75");
  says({.architecture = 80, .type = DType::f8e4m3}, "which tensor cores multiply from sm_89 on; this is sm_80");
  says({.architecture = 80, .type = DType::f32}, "the convolution has factors of f32 and f32");
  says({.images = {8, 3, 56, 56}, .filters = {64, 3, 3, 3}, .architecture = 80}, "'images' has 3 channels");
  says({.images = {3000, 64, 400, 400}, .filters = {64, 64, 1, 1}, .chain = "conv2d(x, w)", .architecture = 80},
       "the images reach over 61.5 GB; a convolution that hosts a chain reads 34 GB at most on sm_80");
  says({.type = DType::f32}, "the convolution has factors of f32 and f32");
  says({.images = {8, 3, 56, 56}, .filters = {64, 3, 3, 3}}, "'images' has 3 channels");
  says({.images = {8, 64, 90, 90}, .chain = "conv2d(x, w, stride=9)"}, "every 8th pixel at most");
  says({.chain = "conv2d(x, w, padding=1) * c", .operands = {dense(kBf16, {8, 1, 56, 56})}},
       "operand 'c' has one value for all channels of the convolution's result");
  says({.chain = "conv2d(x, w, padding=1) * c", .operands = {dense(kBf16, {8, 128, 1, 1})}},
       "operand 'c' has one value for all rows of the convolution's result");
  says({.chain = "softmax(conv2d(x, w, padding=1), 1)"}, "reductions");
  says({.chain = "permute(conv2d(x, w, padding=1), (0, 2, 3, 1))"}, "");
  says({.chain = "softmax(conv2d(x, w, padding=1), 1)", .architecture = 80}, "reductions");
  TensorView gaps = Convolved::nhwc(kBf16, {8, 128, 56, 56});
  gaps.strides[0] *= 2;
  says({.chain = "conv2d(x, w, padding=1) + r", .operands = {gaps}, .architecture = 80},
       "'r' has, channels last, the strides [802816, 7168, 128, 1]: its pixels do not lie in one line");
  const Convolved row_major;
  const auto planned = row_major.plan({dense(kBf16, row_major.images), dense(kBf16, row_major.filters)});
  EXPECT_NE(std::get<std::string>(planned).find("'images' has 64 channels and, channels last, strides"),
            std::string::npos)
      << std::get<std::string>(planned);
}

}  // namespace
}  // namespace epifuse::plan
