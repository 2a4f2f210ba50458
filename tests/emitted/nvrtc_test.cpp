// NVRTC needs no GPU: the kernels of the test cases compile for every architecture that NVRTC knows.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <thread>

#include <epifuse/inspect.hpp>

#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"

namespace epifuse::test {
namespace {

// Views at the alignment that the case asks for; nothing is read.
Inspection inspect(const Case& test) {
  const Epilogue tail = to_epilogue(test.chain);
  Memory memory(test);
  std::uintptr_t next = 0x1000;
  std::map<const Image*, std::uintptr_t> bases;
  const Views views = make_views(test, tail, memory, [&](const Image& image) {
    const auto [it, is_new] = bases.try_emplace(&image, next);
    if (is_new) next += (image.bytes.size() / 256 + 1) * 256;
    return reinterpret_cast<unsigned char*>(it->second);
  });
  return Inspection(tail, views.outputs, views.inputs);
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

void compile_all(const std::vector<Job>& jobs) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::vector<std::string> failures;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      try {
        if (!jobs[i].kernel->cubin(jobs[i].architecture).empty()) continue;
        throw std::runtime_error("an empty cubin");
      } catch (const std::exception& problem) {
        const std::lock_guard lock(mutex);
        failures.push_back("sm_" + std::to_string(jobs[i].architecture) + ": " + problem.what());
      }
    }
  };
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < std::max(2u, std::thread::hardware_concurrency()); ++i) threads.emplace_back(work);
  }
  for (std::size_t i = 0; i < failures.size() && i < 5; ++i) ADD_FAILURE() << failures[i];
  EXPECT_TRUE(failures.empty()) << failures.size() << " of " << jobs.size() << " failed";
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

// Every distinct kernel of the other deterministic cases, the slow ones first. One architecture each: NVRTC takes half a second for some.
TEST_F(Nvrtc, OtherFixedKernelsCompile) {
  std::vector<Case> cases = long_cases();
  for (const Case& test : special_value_cases(0)) {
    // Beyond f32, f64, integers and truth values, types differ in their conversions alone.
    const DType type = test.inputs[0].dtype;
    if (type == DType::f32 || type == DType::f64 || type == DType::i64 || type == DType::boolean) cases.push_back(test);
  }
  for (const auto& more : {alignment_cases(), odd_extent_cases(), truth_cases()})
    cases.insert(cases.end(), more.begin(), more.end());
  const std::vector<Inspection> kernels = kernels_of(cases);
  std::vector<Job> jobs;
  for (std::size_t i = 0; i < kernels.size(); ++i)
    jobs.push_back({&kernels[i], architectures_[i % architectures_.size()]});
  std::printf("%zu kernels\n", kernels.size());
  compile_all(jobs);
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
  const std::vector<std::pair<std::string, std::string>> names = {
      {"x", "x_strides"}, {"x_strides", "x"},    {"float", "int"},         {"threadIdx", "blockDim"},
      {"ops", "detail"},     {"Real", "Index"},        {"p", "e"},
      {"position", "t0"},    {"in_x", "out"},          {"__global__", "asm"},
      {"kElements", "f16"},  {"uniforms", "chain"},    {"space", "groups"},
      {"run_tiles", "Tail"}, {"__CUDACC__", "NULL"},   {longest, "_"},
      {"class", "template"}, {"epifuse_kernel", "x__"}};
  std::vector<Inspection> kernels;
  for (const auto& [a, b] : names) {
    if (parse_dtype(a) || parse_dtype(b)) continue;  // words of the language
    for (const std::string& text : {a + " + " + b + " * 2", "return " + a + ", " + b,
                                    "t = " + a + " * " + b + "; return t, " + a}) {
      const Epilogue tail = Epilogue::parse(text);
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
