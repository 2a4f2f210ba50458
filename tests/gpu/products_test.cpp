// Chains with matrix products on a GPU: random ones that the product's kernel hosts, of either family, and random ones
// that cuBLASLt computes first, against sums in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <random>
#include <set>

#include <epifuse/epifuse.hpp>

#include "gpu/device.hpp"
#include "jit/compiler.hpp"
#include "plan/gemm/inside.hpp"
#include "runtime/device.hpp"
#include "runtime/module.hpp"
#include "support/as_written.hpp"
#include "support/convolutions.hpp"
#include "support/gemm_problem.hpp"
#include "support/products.hpp"
#include "support/random.hpp"
#include "support/scaled_product.hpp"
#include "support/storage.hpp"

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
    const Epilogue tail = as_written(text);
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

// Chains whose reductions the product's kernel takes: partial results, which other kernels finish, and groups of
// columns.
// What they must be is what the CPU device makes of chains of one result each.
TEST_F(Products, HostReductions) {
  struct Reducing {
    const char* values;
    std::vector<const char*> results;
    std::vector<DType> types;
  };
  using enum DType;
  const std::vector<Reducing> chains = {
      {"y = relu(linear(x, w, b)) + r; ", {"y", "rsqrt(mean(square(y), axis=-1, keepdim=true) + 0.001)"}, {bf16, f32}},
      {"y = linear(x, w) * c; ", {"y", "amax(abs(y))", "sum(y, axis=0)"}, {f16, f32, f32}},
      {"y = linear(x, w) * linear(x, v); ", {"y", "mean(y)"}, {bf16, f32}},
      {"q, s = quantize(relu(linear(x, w, b)) + r, f8e4m3, 128); ", {"q", "s"}, {f8e4m3, f32}},
      {"q, s = quantize(linear(x, w) * linear(x, v), f8e5m2, 32); ", {"q", "s"}, {f8e5m2, f32}},
  };
  Engine cpu(Device::cpu());
  std::mt19937 random(33);
  std::uniform_int_distribution<int> number(-16, 16);
  int hosted = 0;
  for (const Dims& extents : {Dims{4100, 1152, 2048}, Dims{16'384, 256, 2048}}) {
    for (const Reducing& chain : chains) {
      const auto text = [&](const std::vector<const char*>& results) {
        std::string made = std::string(chain.values) + "return ";
        for (const char* const result : results) made += (result == results[0] ? "" : ", ") + std::string(result);
        return made;
      };
      const Epilogue whole = as_written(text(chain.results));
      std::vector<Array> on_gpu, on_cpu;
      for (const std::string& name : whole.inputs()) {
        const Dims shape = name == "x"                  ? Dims{extents[0], extents[2]}
                           : name == "w" || name == "v" ? Dims{extents[1], extents[2]}
                           : name == "b"                ? Dims{extents[1]}
                           : name == "c"                ? Dims{extents[0], 1}
                                                        : Dims{extents[0], extents[1]};
        std::vector<std::uint16_t> bits(static_cast<std::size_t>(shape[0] * (shape.size() > 1 ? shape[1] : 1)));
        for (std::uint16_t& each : bits) encode(bf16, number(random) / 8.0, reinterpret_cast<std::byte*>(&each));
        on_gpu.push_back(engine().array(bf16, shape, bits.data()));
        on_cpu.push_back(cpu.array(bf16, shape, bits.data()));
      }
      const auto views_of = [&](const std::vector<Array>& arrays, const Epilogue& tail) {
        std::vector<TensorView> views;
        for (const std::string& name : tail.inputs()) {
          for (std::size_t i = 0; i < arrays.size(); ++i) {
            if (whole.inputs()[i] == name) views.push_back(arrays[i].view());
          }
        }
        return views;
      };
      const auto operands = views_of(on_gpu, whole);
      const std::vector<Dims> shapes = whole.result_shapes(operands);
      std::vector<Array> found;
      std::vector<OutputView> outputs;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        found.push_back(engine().empty(chain.types[i], shapes[i]));
        outputs.push_back(found.back().view());
      }
      const std::uint64_t before = hosted_launches(engine());
      engine().launch(whole, nullptr, outputs, operands);
      engine().synchronize();
      // Apart, products are rounded to bf16 first.
      if (hosted_launches(engine()) == before) continue;
      ++hosted;
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        const Epilogue one = as_written(text({chain.results[i]}));
        const Array want = cpu.empty(chain.types[i], shapes[i]);
        cpu.launch(one, nullptr, want.view(), views_of(on_cpu, one));
        const auto got_bytes = contents<std::byte>(found[i]);
        const auto want_bytes = contents<std::byte>(want);
        const std::size_t size = size_of(chain.types[i]);
        for (std::size_t k = 0; k < want_bytes.size() / size; ++k) {
          const auto got = static_cast<double>(decode(chain.types[i], got_bytes.data() + k * size));
          const auto expected = static_cast<double>(decode(chain.types[i], want_bytes.data() + k * size));
          ASSERT_LE(std::abs(got - expected),
                    static_cast<double>(spacing(chain.types[i], expected)) + std::abs(expected) * 1e-5 + 1e-5)
              << text(chain.results) << " " << to_string(extents) << ": result " << i << " at " << k << " is " << got
              << ", expected " << expected;
        }
      }
    }
  }
  EXPECT_GE(hosted, 5);
}

// Factors with scales of blocks: the chain runs in the product's kernel, or behind one of the product alone.
TEST_F(Products, MultiplyByScalesOfBlocks) {
  if (runtime::device_info(0).architecture < 89) GTEST_SKIP() << "no tensor cores for float8 numbers";
  using enum ScaledLines;
  unsigned seed = 1;
  for (const ScaledLines left : {each, blocks, all}) {
    for (const ScaledLines right : {each, blocks, all}) {
      const ScaledProduct product(
          {.rows = 300 + seed, .columns = 400, .depth = 1040, .left = left, .right = right, .padding = 16}, seed);
      SCOPED_TRACE(seed++);
      const auto& [rows, columns, depth, of_rows, of_columns, factor, padding, neighbours] = product.extents;
      std::vector<Array> memory;
      const auto placed = [&](const TensorView& view, std::size_t bytes) {
        memory.push_back(engine().array(DType::u8, {static_cast<std::int64_t>(bytes)}, view.data));
        return TensorView(memory.back().view().data, view.dtype, view.shape, view.strides);
      };
      const auto of_factor = [&](const GemmMatrix& one) {
        return placed(ScaledProduct::matrix(one), one.memory.size());
      };
      const std::vector<TensorView> inputs = {
          of_factor(product.left), of_factor(product.rights[0]),
          placed(product.left_scales.view(false), product.left_scales.memory.size() * sizeof(float)),
          placed(product.right_scales[0].view(true), product.right_scales[0].memory.size() * sizeof(float))};
      const std::vector<double> expected = product.values(0);
      for (const bool is_apart : {false, true}) {
        const Epilogue tail = as_written(is_apart ? "flip(scaled_mm(x, transpose(w, 0, 1), sx, sw), 1)"
                                                  : "scaled_mm(x, transpose(w, 0, 1), sx, sw)");
        const Array out = engine().empty(DType::f32, {rows, columns});
        engine().launch(tail, nullptr, out.view(), inputs);
        engine().synchronize();
        const auto found = contents<float>(out);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const std::size_t row = i / static_cast<std::size_t>(columns),
                            last = row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(columns) - 1;
          const std::size_t at = is_apart ? last - i % static_cast<std::size_t>(columns) : i;
          ASSERT_NEAR(static_cast<double>(found[i]), expected[at],
                      static_cast<double>(depth) * ScaledProduct::kLargest * 0x1p-22)
              << "element " << i << (is_apart ? ", apart" : "");
        }
      }
    }
  }
}

// The kernel of GPUs whose warps multiply, on whichever GPU is here: one whose warp groups multiply runs it as well.
class WarpProducts : public OnGpu {
 protected:
  plan::Machine machine(int number) const {
    plan::Machine made(runtime::device_info(0).architecture, 1 + number % 7);
    made.tensor_cores = plan::TensorCores::warps;
    // Every other one has the shared memory of sm_86, sm_89 and sm_120.
    if (number % 2 == 1) made.shared_bytes = 102'400;
    return made;
  }

  std::set<std::string_view> run_cases(const std::vector<GemmChain>& chains, int cases);

  /// Launches a copy of the problem; what is wrong with its results, or nothing.
  std::optional<std::string> judge(GemmProblem& problem) {
    std::vector<runtime::DeviceBuffer> buffers;
    std::vector<const void*> addresses;
    for (const std::vector<std::byte>* const memory : problem.memory()) {
      buffers.emplace_back(context(), memory->size());
      buffers.back().copy_from_host(memory->data(), memory->size(), nullptr);
      addresses.push_back(buffers.back().data());
    }
    plan::GemmPlan plan = problem.plan_at(addresses);
    problem.reset();
    const std::size_t partial_bytes = problem.partials().size() * sizeof(float);
    runtime::DeviceBuffer workspace(context(), std::max<std::size_t>(partial_bytes, 1));
    workspace.copy_from_host(problem.partials().data(), partial_bytes, nullptr);
    plan.workspace = static_cast<std::byte*>(workspace.data());
    launch(problem.program(), plan);
    buffers.back().copy_to_host(problem.result().data(), problem.result().size(), nullptr);
    workspace.copy_to_host(problem.partials().data(), partial_bytes, nullptr);
    runtime::check(runtime::driver().stream_synchronize(nullptr), "wait for the product");
    return problem.judge();
  }

  /// Of memory of the device, and waits for it.
  void launch(const ir::Program& chain, const plan::GemmPlan& plan) {
    const std::string name = codegen::gemm_name(chain, plan);
    const auto image = compiler_.get_for_device(codegen::emit_gemm(chain, plan, codegen::Compilers::cuda), name,
                                                runtime::device_info(0).architecture);
    const runtime::Module module(context(), image->bytes);
    const runtime::Kernel kernel = module.kernel(name.c_str());
    kernel.allow_dynamic_shared(static_cast<std::size_t>(plan.gemm_class.shared_bytes()));
    const std::vector<std::byte> parameters = codegen::pack_gemm(chain, plan, {}, {});
    runtime::launch_with_maps(kernel, static_cast<unsigned>(plan.blocks),
                              static_cast<unsigned>(plan.gemm_class.threads()),
                              static_cast<unsigned>(plan.gemm_class.shared_bytes()), nullptr, parameters.data());
    runtime::check(runtime::driver().stream_synchronize(nullptr), "wait for the product");
  }

 private:
  jit::Compiler compiler_{{.directory = std::nullopt, .limit_bytes = std::nullopt, .disk = false}};
};

// Draws problems of these chains. The tiles that were drawn.
std::set<std::string_view> WarpProducts::run_cases(const std::vector<GemmChain>& chains, int cases) {
  const std::uint64_t seed = test_seed(31);
  std::mt19937 random(static_cast<unsigned>(seed));
  const bool has_float8 = runtime::device_info(0).architecture >= 89;
  std::set<std::string_view> tiles;
  for (int number = 0; number < cases; ++number) {
    const GemmChain& chain = chains[static_cast<std::size_t>(number) % chains.size()];
    const GemmTypes types = kGemmTypes[static_cast<std::size_t>(number / 2) % std::size(kGemmTypes)];
    if (!has_float8 && (types.factor == DType::f8e4m3 || types.factor == DType::f8e5m2)) continue;
    const GemmExtents shape = drawn_extents(random, number, types.factor, 400);
    GemmProblem problem(chain, shape, types, static_cast<unsigned>(number), machine(number));
    tiles.insert(problem.plan().gemm_class.tile_name());
    const auto wrong = judge(problem);
    EXPECT_FALSE(wrong) << *wrong << "\n"
                        << chain.text << ", " << to_string(types.factor) << ", " << to_string(types.operand) << ", "
                        << to_string(types.result) << ", " << shape.rows << " x " << shape.columns << " x "
                        << shape.depth << ", " << plan::name_of(problem.plan().gemm_class) << ", case " << number
                        << ", EPIFUSE_TEST_SEED=" << seed;
    if (wrong) break;
  }
  return tiles;
}

TEST_F(WarpProducts, AreTheChainsOfSumsOfProducts) {
  EXPECT_EQ(run_cases(gemm_chains(), 126).size(), 3U) << "every tile was drawn";
}

TEST_F(WarpProducts, LeavePartialResults) {
  EXPECT_EQ(run_cases(reducing_gemm_chains(), 126).size(), 3U) << "every tile was drawn";
}

TEST_F(WarpProducts, OfWindowsAreTheDefinition) {
  const std::uint64_t seed = test_seed(35);
  Random seeds(seed);
  const bool has_float8 = runtime::device_info(0).architecture >= 89;
  std::set<std::string_view> tiles;
  for (int number = 0; number < 80; ++number) {
    Random random(seeds.bits());
    const bool is_float8 = has_float8 && number % 4 == 0;
    const ConvolutionTypes types = is_float8 ? ConvolutionTypes{DType::f8e4m3, DType::bf16, DType::bf16}
                                             : random.pick({ConvolutionTypes{DType::bf16, DType::bf16, DType::bf16},
                                                            ConvolutionTypes{DType::f16, DType::f32, DType::f16},
                                                            ConvolutionTypes{DType::i8, DType::bf16, DType::f32}});
    const ConvolutionChain& chain =
        kConvolutionChains[static_cast<std::size_t>(number) % std::size(kConvolutionChains)];
    ConvolutionProblem problem(chain, drawn_for_tiles(random, types), types, random);
    // Tensor cores keep few bits of float8 sums.
    const auto wrong = problem.judge_on(
        engine(), is_float8 ? 0x1p-8 : 0, [&](const OutputView& out, const std::vector<TensorView>& inputs) {
          const plan::WithoutProducts split = plan::split_products(problem.tail().program(), inputs);
          // Few multiprocessors: of more, convolutions of so few pixels have no large tile.
          const auto planned = plan::plan_one_kernel(split, std::span(&out, 1), inputs, machine(number % 3));
          const auto& inside = std::get<plan::Inside>(planned);
          tiles.insert(inside.plan.gemm_class.tile_name());
          engine().synchronize();
          launch(inside.chain(), inside.plan);
        });
    ASSERT_FALSE(wrong) << *wrong << "\n" << problem.text() << ", case " << number << ", EPIFUSE_TEST_SEED=" << seed;
  }
  EXPECT_EQ(tiles.size(), 3U) << "every tile was drawn";
}

// In one kernel with the chain where that does it, and else behind a copy of the windows.
TEST_F(Products, OfWindowsAreTheDefinition) {
  const std::uint64_t seed = test_seed(32);
  Random seeds(seed);
  Engine engine(Device::cuda(0));
  constexpr int kCases = 120;
  int refused = 0;
  for (int i = 0; i < kCases; ++i) {
    Random random(seeds.bits());
    const ConvolutionTypes types = random.pick({ConvolutionTypes{DType::bf16, DType::bf16, DType::bf16},
                                                ConvolutionTypes{DType::f16, DType::f32, DType::f16},
                                                ConvolutionTypes{DType::f8e4m3, DType::bf16, DType::bf16},
                                                ConvolutionTypes{DType::f32, DType::f32, DType::f32}});
    const ConvolutionChain& chain = kConvolutionChains[i % static_cast<int>(std::size(kConvolutionChains))];
    const bool is_tiled = random.percent(70);
    ConvolutionProblem problem(chain, is_tiled ? drawn_for_tiles(random, types) : drawn_in_any_layout(random), types,
                               random);
    std::optional<std::string> wrong;
    try {
      // Apart from the chain a convolution is rounded to its type, and tensor cores keep few bits of float8 sums.
      wrong = problem.judge_on(engine, types.factor == DType::f32 ? 0 : 0x1p-8);
    } catch (const Error& error) {
      // As above, of 8-bit types.
      ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what() << "\n" << problem.text();
      ++refused;
    }
    ASSERT_FALSE(wrong) << *wrong << "\n" << problem.text() << ", case " << i << ", EPIFUSE_TEST_SEED=" << seed;
  }
  const std::uint64_t hosted = hosted_launches(engine);
  std::printf("%d convolutions: %llu in one kernel, %d refused\n", kCases, static_cast<unsigned long long>(hosted),
              refused);
  EXPECT_LT(refused, kCases / 4);
  if (runtime::device_info(0).architecture == 90) {
    EXPECT_GE(hosted, 30U);
  }
}

TEST_F(Products, OfTilesAreSumsOfProducts) { run(ProductCase::Drawn::for_tiles, 150, 50); }
TEST_F(Products, OfAnyLayoutAreSumsOfProducts) { run(ProductCase::Drawn::any_layout, 400, 0); }

}  // namespace
}  // namespace epifuse::test
