// NVRTC needs no GPU: the kernels of the test cases compile for every architecture that NVRTC knows.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <stdexcept>
#include <thread>

#include <epifuse/gradient.hpp>
#include <epifuse/inspect.hpp>

#include "support/as_written.hpp"
#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"
#include "support/lane_segment_cases.hpp"
#include "support/scope_cases.hpp"

namespace epifuse::test {
namespace {

// Views at the alignment that the case asks for; nothing is read.
Inspection inspect(const Case& test) {
  const Epilogue tail = to_epilogue(test.chain);
  Memory memory(test);
  const Views views = views_apart(test, tail, memory);
  return {tail, views.outputs, views.inputs};
}

// Distinct sources, each with an inspection that compiles it.
std::vector<Inspection> kernels_of(const std::vector<Case>& cases) {
  std::map<std::string, bool> seen;
  std::vector<Inspection> kernels;
  for (const Case& test : cases) {
    if (test.elements() == 0) continue;
    Inspection kernel = inspect(test);
    if (seen.try_emplace(kernel.cuda(), true).second) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

struct Job {
  const Inspection* kernel;
  int architecture;
};

// NVRTC lets one thread at a time compile, so processes share the jobs. A child says what failed through a pipe, one
// text per failure.
class Worker {
 public:
  Worker(const std::vector<Job>& jobs, std::size_t first, std::size_t step) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("no pipe");
    process_ = fork();
    if (process_ == 0) {
      for (std::size_t i = first; i < jobs.size(); i += step) compile(jobs[i], ends[1]);
      _exit(0);
    }
    close(ends[1]);
    from_ = ends[0];
  }

  /// Everything that failed; waits for the child.
  std::string failures() {
    std::string text;
    char buffer[4096];
    for (ssize_t size = read(from_, buffer, sizeof buffer); size > 0; size = read(from_, buffer, sizeof buffer)) {
      text.append(buffer, static_cast<std::size_t>(size));
    }
    close(from_);
    int status = 0;
    waitpid(process_, &status, 0);
    if (status != 0) text += "a compiling process ended with status " + std::to_string(status) + "\n";
    return text;
  }

 private:
  static void compile(const Job& job, int to) {
    std::string problem;
    try {
      if (job.kernel->cubin(job.architecture).empty()) problem = "an empty cubin";
    } catch (const std::exception& error) {
      problem = error.what();
    }
    if (problem.empty()) return;
    problem = "sm_" + std::to_string(job.architecture) + ": " + problem + "\n";
    if (write(to, problem.data(), problem.size()) < 0) _exit(1);
  }

  pid_t process_ = -1;
  int from_ = -1;
};

void compile_all(const std::vector<Job>& jobs) {
  std::fflush(stdout);  // or every child would print it again
  const std::size_t count = std::max(2u, std::thread::hardware_concurrency());
  std::vector<Worker> workers;
  for (std::size_t i = 0; i < count; ++i) workers.emplace_back(jobs, i, count);
  for (Worker& worker : workers) EXPECT_EQ(worker.failures().substr(0, 5000), "");
}

class Nvrtc : public testing::Test {
 protected:
  void SetUp() override {
    const SystemReport report = system_report();
    if (!report.nvrtc)
      GTEST_SKIP() << "no NVRTC: " << (report.problems.empty() ? "not found" : report.problems.front());
    architectures_ = report.nvrtc_architectures;
    ASSERT_FALSE(architectures_.empty());
  }
  std::vector<int> architectures_;
};

// What differs between architectures is conversions and a few instructions: these kernels hold them all.
TEST_F(Nvrtc, TailsAndConversionsCompileForEveryArchitecture) {
  std::vector<Case> cases;
  for (const TailCase& tail : tail_cases()) cases.push_back(tail.test);
  for (const Case& test : conversion_cases()) {
    if (test.chain.operations() == 0) cases.push_back(test);
  }
  const std::vector<Inspection> kernels = kernels_of(cases);
  std::vector<Job> jobs;
  for (const Inspection& kernel : kernels) {
    for (const int architecture : architectures_) jobs.push_back({&kernel, architecture});
  }
  std::printf("%zu kernels for %zu architectures\n", kernels.size(), architectures_.size());
  compile_all(jobs);
}

// Segments whose results the elements need again: one in three of their kernels. They are planned for an H100, whose
// clusters older ones lack.
TEST_F(Nvrtc, LaneSegmentsCompileForEveryArchitecture) {
  const std::vector<Inspection> kernels = kernels_of(lane_segment_cases());
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < kernels.size(); i += 3) {
    const bool is_cluster = kernels[i].cuda().find("cluster_dims") != std::string::npos;
    for (const int architecture : architectures_) {
      if (!is_cluster || architecture >= 90) jobs.push_back({&kernels[i], architecture});
    }
  }
  std::printf("%zu kernels\n", jobs.size());
  compile_all(jobs);
}

// Every distinct kernel of the other deterministic cases, the slow ones first. One architecture each: NVRTC takes half
// a second for some.
TEST_F(Nvrtc, OtherFixedKernelsCompile) {
  std::vector<Case> cases = long_cases();
  for (const Case& test : special_value_cases(0)) {
    // Beyond f32, f64, integers and truth values, types differ in their conversions alone.
    const DType type = test.inputs[0].dtype;
    if (type == DType::f32 || type == DType::f64 || type == DType::i64 || type == DType::boolean) cases.push_back(test);
  }
  for (const auto& more : {alignment_cases(), odd_extent_cases(), truth_cases(), scope_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  // These have few forms, in many sizes.
  constexpr std::size_t kOneOf = 7;
  for (const auto& more : {tiled_2d_cases(), transpose_cases()}) {
    for (std::size_t i = 0; i < more.size(); i += kOneOf) cases.push_back(more[i]);
  }
  const std::vector<Inspection> kernels = kernels_of(cases);
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    jobs.push_back({&kernels[i], architectures_[i % architectures_.size()]});
  std::printf("%zu kernels\n", kernels.size());
  compile_all(jobs);
}

// A chain of one operand, or of several.
struct Chain {
  const char* text;
  DType dtype;
  Dims x;
  Dims strides = {};                    // dense
  std::vector<TensorView> others = {};  // behind x
};

void compile_as_planned(const std::vector<Chain>& chains, const std::vector<int>& architectures) {
  std::vector<Inspection> kernels;
  std::vector<int> targets;
  for (const Chain& chain : chains) {
    const Epilogue tail = as_written(chain.text);
    const bool is_dense = chain.strides.size() == 0;
    std::vector<TensorView> inputs = {is_dense ? TensorView(nullptr, chain.dtype, chain.x)
                                               : TensorView(nullptr, chain.dtype, chain.x, chain.strides)};
    inputs.insert(inputs.end(), chain.others.begin(), chain.others.end());
    std::vector<OutputView> outputs;
    for (const Dims& shape : tail.result_shapes(inputs)) outputs.emplace_back(nullptr, chain.dtype, shape);
    for (const int architecture : architectures) {
      kernels.emplace_back(tail, outputs, inputs, PlanTarget{architecture, 132});
      targets.push_back(architecture);
    }
  }
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < kernels.size(); ++i) jobs.push_back({&kernels[i], targets[i]});
  std::printf("%zu kernels\n", kernels.size());
  compile_all(jobs);
}

// Views that step outside their tensors, in every map and in drivers of reductions.
TEST_F(Nvrtc, PaddedViewsCompileForEveryArchitecture) {
  compile_as_planned({{"pad(x, (1, 2), value=3)", DType::f16, {512, 1021}},
                      {"relu(pad(x * 2, (1, 2, 3, 4), value=-1))", DType::f8e4m3, {64, 125, 61}},
                      {"pad(x, (1, 1))", DType::f64, {300, 300}, {1, 300}},
                      {"max_pool2d(x, 3, 2, 1)", DType::f16, {8, 64, 56, 56}},
                      {"avg_pool2d(x, 3, 1, 1, count_include_pad=false)", DType::bf16, {8, 64, 56, 56}},
                      {"max_pool3d(x, 2, 2, 1, ceil_mode=true)", DType::f32, {2, 8, 15, 15, 15}},
                      {"roll(x, (3, 5), (0, 1))", DType::i32, {1000, 1000}},
                      {"softmax(pad(x, (1, 1)), 1)", DType::f16, {4096, 4094}},
                      {"sum(max_pool1d(x, 3, 2, 1), 1)", DType::f32, {512, 40000}},
                      {"mean(pad(x, (0, 0, 1, 1)), 0)", DType::bf16, {8192, 1000}},
                      {"sum(cat((x[:, :100], x), 1), 1)", DType::f16, {64, 300000}}},
                     architectures_);
}

// What is read at indices, in every map and in drivers of reductions.
TEST_F(Nvrtc, IndicesCompileForEveryArchitecture) {
  const auto ids = [](const Dims& shape, DType type = DType::i64) { return TensorView(nullptr, type, shape); };
  const TensorView half(nullptr, DType::f16, {4096, 32});
  compile_as_planned(
      {{"take(x, i) * 2", DType::f16, {1000, 512}, {}, {ids({64, 128})}},
       {"take(x, i)", DType::f8e4m3, {1000, 61}, {}, {ids({64}, DType::i32)}},
       {"take(x, i)", DType::i8, {1000, 64}, {}, {ids({64})}},
       {"take(x > 0, i, 1)", DType::boolean, {100, 1000}, {}, {ids({64})}},
       {"gather(x, 1, i)", DType::f64, {64, 1000}, {}, {ids({64, 50})}},
       {"index_select(x, 1, i)", DType::f32, {300, 300}, {1, 300}, {ids({200}, DType::i32)}},
       {"take(x, i, 2)", DType::bf16, {8, 64, 50'000}, {}, {ids({100})}},
       {"rope(x, c, s, p)", DType::f16, {2, 8, 128, 64}, {}, {half, half, ids({128})}},
       {"rope(x, c, s, p, interleaved=true)", DType::f16, {2, 8, 128, 64}, {}, {half, half, ids({2, 1, 128})}},
       {"pad(take(x, i), (1, 1, 2, 0))", DType::f32, {100, 16}, {}, {ids({8, 32})}},
       {"layer_norm(take(x, i))", DType::f16, {50'000, 768}, {}, {ids({8, 128})}},
       {"softmax(take(x, i), -1)", DType::f32, {50'000, 100'001}, {}, {ids({8})}},
       {"softmax(take(x, i), -1)", DType::bf16, {1000, 131'072}, {}, {ids({4096})}},
       {"sum(take(x, i), 1)", DType::f16, {1000, 256}, {}, {ids({64, 40})}},
       {"logsumexp(x, 1) - gather(x, 1, i)[:, 0]", DType::f32, {4096, 32'000}, {}, {ids({4096, 1})}}},
      architectures_);
}

// Every schedule of reductions, planned for each architecture: what it may use differs (asynchronous copies, clusters,
// shared memory).
TEST_F(Nvrtc, ReductionsCompileForEveryArchitectureThatTheyArePlannedFor) {
  const std::vector<Chain> chains = {
      {"softmax(x, axis=-1)", DType::f32, {4096, 64}},
      {"layer_norm(x)", DType::f16, {4096, 3000}},
      {"softmax(x, axis=-1)", DType::bf16, {4096, 131072}},
      {"softmax(x, axis=1)", DType::f16, {16, 128, 129, 129}},
      {"group_norm(silu(x), 8)", DType::f16, {1, 512, 360, 640}},
      {"mean(x, axis=0)", DType::f32, {65536, 4096}},
      {"y = rms_norm(x); return y, amax(abs(y))", DType::f32, {4096, 40000}},
      {"y = softmax(x, axis=1); return y, mean(y, axis=0)", DType::bf16, {4096, 8192}},
      {"y = group_norm(x, 8); return y, sum(y * y, axis=(0, 2, 3))", DType::f16, {64, 64, 28, 28}},
      {"mean(relu(group_norm(x, 8)), (2, ...))", DType::f16, {1024, 64, 28, 28}},
      {"mean(group_norm(hardswish(x), 4), (2, ...))", DType::f32, {1024, 16, 13, 29, 29}},
      {"softmax(x, axis=1)", DType::f16, {16, 128, 129, 129}, {128 * 16641, 1, 128 * 129, 128}},
      {"group_norm(silu(x), 8)", DType::bf16, {16, 64, 258, 258}, {64 * 66564, 1, 64 * 258, 64}},
      {"instance_norm(x)", DType::f32, {16, 64, 126, 126}, {64 * 15876, 1, 64 * 126, 64}},
      {"amax(clamp(instance_norm(x), -1, 1), axis=1)", DType::f16, {128, 16, 14, 30, 30}},
      {"y = layer_norm(x); return y, amax(y, 0), prod(y, 0)", DType::f32, {8192, 1024}},
      {"y = group_norm(x, 8); return y, amin(y, axis=(0, 2, 3))", DType::f16, {64, 64, 28, 28}},
      {"tanh(softmax(mean(x, axis=2, keepdim=true), axis=1)) * 2", DType::f16, {16, 64, 32, 128, 128}},
      {"logsumexp(mean(x, axis=(2, 3)), axis=1)", DType::bf16, {1024, 512, 7, 7}}};
  compile_as_planned(chains, architectures_);
}

// Registers hold a row's operands and sums: nothing is spilled.
TEST_F(Nvrtc, ColumnSumsOfLayerNormSpillNothing) {
  constexpr std::int64_t kRows = 8192;
  constexpr std::int64_t kLength = 4096;
  const Gradient found = gradient(Epilogue::parse("layer_norm(x, w, b)"), {"x", "w", "b"});
  for (const DType type : {DType::bf16, DType::f32}) {
    const TensorView row(nullptr, DType::f32, {kRows, 1});
    const TensorView full(nullptr, type, {kRows, kLength});
    const TensorView weight(nullptr, type, {kLength});
    const std::vector<TensorView> inputs = {full, row, row, full, weight, weight};
    ASSERT_EQ(found.backward.inputs().size(), inputs.size());
    const std::vector<OutputView> outputs = {OutputView(nullptr, type, {kRows, kLength}),
                                             OutputView(nullptr, type, {kLength}),
                                             OutputView(nullptr, type, {kLength})};
    const Inspection kernel(found.backward, outputs, inputs, PlanTarget{90, 132});
    EXPECT_NE(kernel.plan().kernel_class.find("column_sums"), std::string::npos);
    EXPECT_EQ(kernel.resources(90).spilled_bytes, 0);
  }
}

TEST_F(Nvrtc, RandomKernelsCompile) {
  const std::uint64_t seed = test_seed(90);
  Random random(seed);
  const std::vector<Inspection> kernels = kernels_of(random_cases(seed, 60, 1, 600));
  std::vector<Job> jobs;
  for (const Inspection& kernel : kernels) jobs.push_back({&kernel, random.pick(std::span<const int>(architectures_))});
  std::printf("%zu kernels; seed %llu\n", kernels.size(), static_cast<unsigned long long>(seed));
  compile_all(jobs);
}

// Whatever an operand may be called: no keyword, builtin or name of the emitted text is in its way.
TEST_F(Nvrtc, AnyNameCompiles) {
  const std::string longest(64, 'n');
  const std::vector<std::pair<std::string, std::string>> names = {{"x", "x_strides"},
                                                                  {"x_strides", "x"},
                                                                  {"float", "int"},
                                                                  {"threadIdx", "blockDim"},
                                                                  {"ops", "detail"},
                                                                  {"Real", "Index"},
                                                                  {"p", "e"},
                                                                  {"position", "t0"},
                                                                  {"in_x", "out"},
                                                                  {"__global__", "asm"},
                                                                  {"kElements", "f16"},
                                                                  {"uniforms", "chain"},
                                                                  {"space", "groups"},
                                                                  {"run_tiles", "Epilogue"},
                                                                  {"__CUDACC__", "NULL"},
                                                                  {longest, "_"},
                                                                  {"class", "template"},
                                                                  {"epifuse_kernel", "x__"}};
  std::vector<Inspection> kernels;
  for (const auto& [a, b] : names) {
    if (parse_dtype(a) || parse_dtype(b)) continue;  // words of the language
    for (const std::string& text :
         {a + " + " + b + " * 2", "return " + a + ", " + b, "t = " + a + " * " + b + "; return t, " + a}) {
      const Epilogue tail = as_written(text);
      std::vector<TensorView> inputs(tail.inputs().size(), TensorView(nullptr, DType::f32, {4, 6}));
      // A step between elements makes stride fields for the first operand, a row of its own for the output.
      inputs[0].strides = Dims{100, 3};
      const OutputView out(nullptr, DType::f32, {4, 6}, {7, 1});
      kernels.emplace_back(tail, std::vector<OutputView>(tail.results().size(), out), inputs);
    }
  }
  std::vector<Job> jobs;
  for (const Inspection& kernel : kernels) jobs.push_back({&kernel, architectures_.front()});
  compile_all(jobs);
}

}  // namespace
}  // namespace epifuse::test
