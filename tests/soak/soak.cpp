// Random programs without end: CPU device, emitted text on the CPU and a GPU, each against the oracle. ./dev soak runs
// it; every program follows from the seed. Half of the families are drawn from the tables of functions, views among
// them (tests/generator); the others are what tails look like, their backward passes, and matrix products with a chain
// (tests/support). What fails is shrunk, printed, and appended to tests/regressions/cases.inc, which the fixed tests
// read. A product that fails is printed alone.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <set>
#include <thread>

#include <spdlog/fmt/fmt.h>

#include <epifuse/inspect.hpp>

#include "bench/record.hpp"
#include "emitted/workshop.hpp"
#include "generator/check.hpp"
#include "generator/worker.hpp"
#include "plan/plan.hpp"
#include "support/engine_runner.hpp"
#include "support/gradient_cases.hpp"
#include "support/products.hpp"
#include "support/random_case.hpp"
#include "support/reduction_case.hpp"
#include "support/regressions.hpp"
#include "support/segment_cases.hpp"

namespace epifuse::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kCasesPerFamily = 4;  // they share kernels
constexpr int kMostDraws = 96;      // of a family, to find cases that share them
constexpr int kElements = 800;
// Rows that blocks keep in shared memory, or share, are longer than that: one family in so many has such shapes.
constexpr int kLongElements = 30'000;
constexpr std::uint64_t kFamiliesPerLong = 32;
constexpr int kReductionsPercent = 40;         // of families
constexpr int kSegmentMeansPercent = 4;        // of families: means of segments of rows, for few multiprocessors
constexpr int kSegmentsPercent = 12;           // of those that have no such reductions: of segments of rows
constexpr int kTastelessPercent = 50;          // of families: programs drawn from the tables of functions
constexpr int kGradientsPercent = 15;          // of the others: backward passes
constexpr int kProductsPercent = 10;           // and matrix products with a chain
constexpr std::size_t kFamiliesPerRound = 16;  // between two looks at the clock
constexpr std::size_t kTextBytes = 6000;
constexpr double kSecondsBetweenNews = 30;

struct Options {
  double minutes = 1;
  std::uint64_t seed = 1;
  std::string device = "cpu";
  int processes = 0;
  double emitted_share = 0.3;
  int programs_per_kernel = 8;
  std::string regressions = "tests/regressions/cases.inc";
  std::string json;
  std::string command;  // that began it
};

// What one way of running has done. Plain data in memory that the processes share.
struct Tally {
  std::uint64_t programs = 0;
  std::uint64_t gradients = 0;  // among them
  std::uint64_t products = 0;
  std::uint64_t elements = 0;
  std::uint64_t exact = 0;
  std::uint64_t failures = 0;
  std::uint64_t kernels = 0;  // of a GPU
  double seconds = 0;

  void add(const Tally& other) {
    programs += other.programs;
    gradients += other.gradients;
    products += other.products;
    elements += other.elements;
    exact += other.exact;
    failures += other.failures;
    kernels += other.kernels;
    seconds += other.seconds;
  }
  void add(std::size_t cases, const Coverage& coverage, std::size_t failed, double time) {
    programs += cases;
    elements += coverage.elements;
    exact += coverage.exact;
    failures += failed;
    seconds += time;
  }
};

enum Way { on_cpu, emitted, on_gpu };
constexpr int kWays = 3;
constexpr const char* kWayNames[] = {"CPU device", "emitted text on the CPU", "GPU"};

// One process's account. The text is the program that it runs now: a crash leaves it there.
struct Account {
  Tally tally[kWays];
  char running[kTextBytes];
};

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Which kernel a case would run on that GPU: what decides its text.
std::string kernel_of(const Case& test, const plan::Machine& machine) {
  const Epilogue tail = to_epilogue(test.chain);
  Memory memory(test);
  const Views views = views_apart(test, tail, memory);
  return plan::to_text(
      plan::make_plan(tail.program(), views.outputs, views.inputs, plan::Views::real, machine).kernel_class);
}

// Compiling a kernel takes a GPU's process hundreds of milliseconds, a program that finds its kernel there takes a few.
// So a family's first kernel is followed by programs of that same kernel, in other shapes and with other values, before
// the next one is allowed.
class KernelBudget {
 public:
  KernelBudget(int programs_per_kernel, const plan::Machine& machine) : each_(programs_per_kernel), machine_(machine) {}

  bool allows(const Case& test) {
    const std::string kernel = kernel_of(test, machine_);
    if (!kernels_.contains(kernel) && static_cast<int>(kernels_.size()) * each_ > programs_) return false;
    kernels_.insert(kernel);
    ++programs_;
    return true;
  }
  bool is_spent() const { return programs_ >= 2 * each_; }

 private:
  int each_;
  plan::Machine machine_;
  int programs_ = 0;
  std::set<std::string> kernels_;
};

plan::Machine machine_of(Device device) {
  for (const DeviceSummary& found : system_report().devices) {
    if (found.index == device.index) return {found.architecture, found.multiprocessors};
  }
  return {};
}

class Worker {
 public:
  Worker(const Options& options, int index, Account& account)
      : options_(options),
        account_(account),
        // Far apart for any two seeds and processes.
        seeds_(Random(options.seed * 1'000'003 + static_cast<std::uint64_t>(index)).bits()),
        cpu_(Device::cpu()),
        checker_({.compile = [](const std::string&, int) { return Effort::none; }}) {
    if (options.device == "cpu") return;
    const Device device = Device::parse(options.device);
    gpu_ = std::make_unique<Engine>(device, EngineOptions{.disk_cache = false, .cache_directory = std::nullopt});
    machine_ = machine_of(device);
  }

  // Until the time is up or there are too many failures to be of use.
  bool run() {
    const auto start = Clock::now();
    while (seconds_since(start) < options_.minutes * 60 && reported_.size() < 20) {
      for (std::size_t i = 0; i < kFamiliesPerRound; ++i) family();
      if (account_.tally[emitted].seconds < options_.emitted_share * seconds_since(start)) run_emitted();
    }
    return reported_.empty();
  }

 private:
  void family() {
    const std::uint64_t seed = seeds_.bits();
    if (seeds_.percent(kTastelessPercent)) return tasteless(seed);
    if (seeds_.percent(kGradientsPercent)) return gradients(seed);
    if (seeds_.percent(kProductsPercent)) return products(seed);
    std::vector<Case> cases;
    plan::Machine emitted_for;
    try {
      if (seeds_.percent(kSegmentMeansPercent)) {
        draw<SegmentMeanFamily>(seed, cases);
        emitted_for.multiprocessors = 1;
      } else if (seeds_.percent(kReductionsPercent)) {
        draw<ReductionFamily>(seed, cases);
      } else if (seeds_.percent(kSegmentsPercent)) {
        draw<SegmentFamily>(seed, cases);
      } else {
        draw<Family>(seed, cases);
      }
    } catch (const Error& error) {  // rows that no kernel of the device holds, which the family's plan finds out
      if (error.code() != ErrorCode::unsupported) throw;
      return;
    }
    run_everywhere(cases);
    for (const Case& test : cases) emit_later({test, emitted_for});
  }

  void run_everywhere(const std::vector<Case>& cases) {
    for (const Case& test : cases) {
      note(test);
      run_on(cpu_, on_cpu, test);
      if (gpu_) run_on(*gpu_, on_gpu, test);
    }
    if (gpu_) account_.tally[on_gpu].kernels = gpu_->stats().kernels;
  }

  // A kernel each. On a GPU one is enough of a family, as of programs that are drawn from the tables of functions.
  void gradients(std::uint64_t seed) {
    const std::vector<Case> cases = random_gradients(seed, gpu_ ? 1 : kCasesPerFamily, kElements);
    run_everywhere(cases);
    account_.tally[on_cpu].gradients += cases.size();
    if (gpu_) account_.tally[on_gpu].gradients += cases.size();
    for (const Case& test : cases) emit_later({test, {}});
  }

  // Of any layout on both devices, and of what a product's kernel hosts on the GPU. The CPU device takes seconds for
  // the extents of the latter.
  void products(std::uint64_t seed) {
    const ProductCase small(seed, ProductCase::Drawn::any_layout);
    run_product(cpu_, on_cpu, small, seed);
    if (!gpu_) return;
    run_product(*gpu_, on_gpu, small, seed);
    run_product(*gpu_, on_gpu, ProductCase(seed, ProductCase::Drawn::for_tiles), seed);
  }

  void run_product(Engine& engine, Way way, const ProductCase& test, std::uint64_t seed) {
    const auto start = Clock::now();
    const std::string text = test.text();
    std::snprintf(account_.running, kTextBytes, "%s", text.c_str());
    std::string wrong;
    try {
      wrong = test.judge(engine);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unsupported) return;  // 8-bit types in extents that cuBLASLt does not take
      wrong = error.what();
    }
    account_.tally[way].add(1, {}, wrong.empty() ? 0 : 1, seconds_since(start));
    ++account_.tally[way].products;
    if (!wrong.empty()) report_all(way, {fmt::format("{}\n  case {}: {}", text, seed, wrong)}, {});
  }

  // Text, plan and CPU device of some programs, and what remains of them as the others. On a GPU the first alone, since
  // each has a kernel of its own.
  void tasteless(std::uint64_t seed) {
    bool on_gpu_too = gpu_ != nullptr;
    for (std::uint64_t i = 0; i < kCasesPerFamily; ++i) {
      const Program program = draw_program(seed, i);
      note(program.test);
      const auto start = Clock::now();
      const std::optional<Finding> finding = checker_.check(program);
      const bool ran = checker_.reached(Stage::run);
      account_.tally[on_cpu].add(1, checker_.coverage(), finding ? 1 : 0, seconds_since(start));
      if (finding) report_all(on_cpu, {describe(seed, i, smaller(program, finding->stage), *finding)}, {});
      if (!ran || finding) continue;
      if (on_gpu_too) run_on(*gpu_, on_gpu, program.test);
      on_gpu_too = false;
      emit_later({program.test, program.machine});
    }
  }

  struct Emission {
    Case test;
    plan::Machine machine;
  };
  void emit_later(Emission emission) {
    if (for_emission_.size() < kFamiliesPerRound * kCasesPerFamily) for_emission_.push_back(std::move(emission));
  }

  template <class AnyFamily>
  void draw(std::uint64_t seed, std::vector<Case>& cases) {
    AnyFamily family(seed);
    const int elements = seed % kFamiliesPerLong == 0 ? kLongElements : kElements;
    if (!gpu_) {
      for (int i = 0; i < kCasesPerFamily; ++i) cases.push_back(family.next(elements));
      return;
    }
    KernelBudget budget(options_.programs_per_kernel, machine_);
    for (int i = 0; i < kMostDraws && !budget.is_spent(); ++i) {
      Case test = family.next(elements);
      if (budget.allows(test)) cases.push_back(std::move(test));
    }
  }

  void run_on(Engine& engine, Way way, const Case& test) {
    const auto start = Clock::now();
    const RunReport report = run_all(engine, {test}, 1);
    account_.tally[way].add(1, report.coverage, report.failures.size(), seconds_since(start));
    report_all(way, report.failures, report.smallest);
  }

  void run_emitted() {
    const auto start = Clock::now();
    Workshop workshop;
    for (const auto& [test, machine] : for_emission_) {
      note(test);
      workshop.add(test, machine);
    }
    const WorkshopReport report = workshop.run(1, [this](const Case& test) { note(test); });
    account_.tally[emitted].add(report.cases, report.coverage, report.failures.size(), seconds_since(start));
    report_all(emitted, report.failures, report.smallest);
    for_emission_.clear();
  }

  void note(const Case& test) { std::snprintf(account_.running, kTextBytes, "%s", test.str().c_str()); }

  void report_all(Way way, const std::vector<std::string>& failures, const std::vector<Case>& smallest) {
    for (const std::string& failure : failures) {
      std::printf("FAILED, %s, seed %llu:\n%s\n", kWayNames[way], static_cast<unsigned long long>(options_.seed),
                  failure.c_str());
    }
    for (const Case& test : smallest) {
      if (!reported_.insert(to_text(test.chain)).second) continue;
      // One write: processes append to the same file.
      const std::string line = "R\"case(" + to_line(test) + ")case\",\n";
      std::FILE* file = std::fopen(options_.regressions.c_str(), "a");
      const bool written = file != nullptr && std::fwrite(line.data(), 1, line.size(), file) == line.size();
      if (file == nullptr || std::fclose(file) != 0 || !written)
        std::printf("%s cannot be written; the line is\n%s", options_.regressions.c_str(), line.c_str());
    }
    if (!failures.empty()) reported_.insert(failures[0]);
    std::fflush(stdout);
  }

  const Options& options_;
  Account& account_;
  Random seeds_;
  Engine cpu_;
  std::unique_ptr<Engine> gpu_;
  plan::Machine machine_;
  Checker checker_;
  std::vector<Emission> for_emission_;
  std::set<std::string> reported_;
};

// Processes and not threads: NVRTC compiles one thread at a time, and a crash must not take the others along.
class Crew {
 public:
  Crew(const Options& options, int count) : options_(options), count_(count) {
    const std::size_t bytes = sizeof(Account) * static_cast<std::size_t>(count);
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    accounts_ = new (memory) Account[static_cast<std::size_t>(count)]();
  }

  bool run() {
    std::fflush(stdout);
    std::vector<pid_t> children;
    for (int i = 0; i < count_; ++i) {
      const pid_t child = fork();
      if (child == 0) _exit(work(i));
      children.push_back(child);
    }
    bool good = true;
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      const bool ended = children[i] > 0 && wait_for(children[i], status);
      if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      good = false;
      if (ended && WIFSIGNALED(status))
        std::printf("FAILED: a process died of signal %d, running\n%s\n", WTERMSIG(status), accounts_[i].running);
    }
    return good;
  }

  Tally total(Way way) const {
    Tally sum;
    for (int i = 0; i < count_; ++i) {
      sum.add(accounts_[i].tally[way]);
    }
    return sum;
  }

 private:
  // Says now and then how far the crew is.
  bool wait_for(pid_t child, int& status) {
    pid_t ended = 0;
    while ((ended = waitpid(child, &status, WNOHANG)) == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (seconds_since(told_) < kSecondsBetweenNews) continue;
      told_ = Clock::now();
      std::printf("soak: ");
      for (int way = 0; way < kWays; ++way) {
        if (const Tally tally = total(static_cast<Way>(way)); tally.programs > 0)
          std::printf("%llu programs, %s; ", static_cast<unsigned long long>(tally.programs), kWayNames[way]);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
    return ended > 0;
  }

  int work(int index) const {
    try {
      const bool good = Worker(options_, index, accounts_[index]).run();
      std::fflush(stdout);
      return good ? 0 : 1;
    } catch (const std::exception& problem) {
      std::printf("FAILED: %s\nafter\n%s\n", problem.what(), accounts_[index].running);
      std::fflush(stdout);
      return 1;
    }
  }

  const Options& options_;
  int count_;
  Account* accounts_ = nullptr;
  Clock::time_point told_ = Clock::now();
};

bench::Json summary_of(const Options& options, const Crew& crew, int processes, double seconds) {
  bench::Json out = bench::document(
      "soak", options.device == "cpu" ? bench::Json("CPU") : bench::Json(nullptr), options.command,
      {{"device", options.device}, {"seed", options.seed}, {"processes", processes}, {"seconds", seconds}});
  for (int way = 0; way < kWays; ++way) {
    const Tally tally = crew.total(static_cast<Way>(way));
    if (tally.programs == 0) continue;
    const double rate = static_cast<double>(tally.programs) / seconds;
    const double exact =
        100.0 * static_cast<double>(tally.exact) / static_cast<double>(std::max<std::uint64_t>(tally.elements, 1));
    std::printf("%-24s %9llu programs, %7.0f per second; %llu results, %.0f%% judged to the bit; %llu failed\n",
                kWayNames[way], static_cast<unsigned long long>(tally.programs), rate,
                static_cast<unsigned long long>(tally.elements), exact,
                static_cast<unsigned long long>(tally.failures));
    out["records"].push_back({{"way", kWayNames[way]},
                              {"programs", tally.programs},
                              {"gradients", tally.gradients},
                              {"products", tally.products},
                              {"programs_per_second", rate},
                              {"results", tally.elements},
                              {"percent_judged_to_the_bit", exact},
                              {"failures", tally.failures}});
    if (tally.kernels > 0) out["records"].back()["kernels"] = tally.kernels;
  }
  return out;
}

int soak(const Options& options) {
  const int processes =
      options.processes > 0 ? options.processes : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::printf("soak: seed %llu, %g minutes, device %s, %d processes\n", static_cast<unsigned long long>(options.seed),
              options.minutes, options.device.c_str(), processes);
  Crew crew(options, processes);
  const auto start = Clock::now();
  const bool good = crew.run();
  bench::write(options.json, summary_of(options, crew, processes, seconds_since(start)));
  if (!good)
    std::printf("failures stand above; again with --seed %llu --processes %d\n",
                static_cast<unsigned long long>(options.seed), processes);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace epifuse::test

int main(int argc, char** argv) {
  epifuse::test::Options options;
  CLI::App app("Random programs against the oracle, until the time is up.");
  app.add_option("--minutes", options.minutes, "how long")->check(CLI::PositiveNumber);
  app.add_option("--seed", options.seed, "which programs");
  app.add_option("--device", options.device, "cpu: CPU device and emitted text; cuda or cuda:N: a GPU as well");
  app.add_option("--processes", options.processes, "at once; default: one per core");
  app.add_option("--emitted-share", options.emitted_share,
                 "of the time that emitted text may take; it needs a C++ compiler")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--programs-per-kernel", options.programs_per_kernel,
                 "on a GPU: programs that share a kernel, in other shapes and with other values")
      ->check(CLI::PositiveNumber);
  app.add_option("--regressions", options.regressions, "file that gets a line per failure");
  app.add_option("--json", options.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  options.command = bench::command_of(argc, argv);
  return epifuse::test::soak(options);
}
