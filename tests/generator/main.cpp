// epifuse_generate: programs drawn from the tables of functions alone, each parsed, printed, planned, compiled by NVRTC
// and run on the CPU device against the tests' oracle; no GPU and no CUDA toolkit but libnvrtc is needed. A program
// follows from the seed and its number.
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <epifuse/inspect.hpp>
#include <nlohmann/json.hpp>

#include "generator/worker.hpp"

namespace epifuse::test {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

constexpr double kSecondsBetweenNews = 20;
constexpr std::uint64_t kShrunkCrashes = 3;  // of one stage
constexpr int kMostJobs = 256;
constexpr int kSkipped = 77;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
double ratio(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
}

// Processes and not threads: NVRTC compiles one thread at a time, and a crash ends one of them, which is a finding.
class Crew {
 public:
  explicit Crew(const GeneratorOptions& options) : options_(options), ledger_(Ledger::make()) {
    ledger_.next = options.first;
    children_.assign(static_cast<std::size_t>(options.jobs), 0);
  }

  void run() {
    for (std::size_t i = 0; i < children_.size(); ++i) start(i);
    while (std::ranges::any_of(children_, [](pid_t child) { return child > 0; })) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (options_.seconds > 0 && seconds_since(begin_) > options_.seconds) ledger_.stop = 1;
      for (std::size_t i = 0; i < children_.size(); ++i) look_at(i);
      tell();
    }
  }

  const Ledger& ledger() const { return ledger_; }
  double seconds() const { return seconds_since(begin_); }

 private:
  void start(std::size_t i) {
    std::fflush(stdout);
    children_[i] = fork();
    if (children_[i] != 0) return;
    try {
      work(options_, ledger_, ledger_.running[i]);
    } catch (const std::exception& error) {
      ledger_.findings.add(std::string("the generator itself: ") + error.what());
      std::printf("FAILED: the generator itself, at program %llu: %s\n",
                  static_cast<unsigned long long>(ledger_.running[i].program), error.what());
    }
    std::fflush(stdout);
    _exit(0);
  }

  void look_at(std::size_t i) {
    int status = 0;
    if (children_[i] <= 0 || waitpid(children_[i], &status, WNOHANG) != children_[i]) return;
    children_[i] = 0;
    if (!WIFSIGNALED(status)) return;
    const Running& running = ledger_.running[i];
    const int signal = WTERMSIG(status);
    const auto stage = static_cast<Stage>(running.stage.load());
    const Finding finding{stage, signal == SIGPROF ? "it took more than a minute of processor time"
                                                   : "the process died of signal " + std::to_string(signal)};
    ++ledger_.counts.drawn;
    const std::uint64_t before = ledger_.findings.add(signature_of(finding) + " " + std::to_string(signal));
    if (before < kShrunkCrashes) {
      const Program program = draw_program(options_.seed, running.program);
      const bool shrinks = options_.shrink && signal != SIGPROF && stage != Stage::emitted;
      record(options_, running.program, shrinks ? smaller_crash(program) : program, finding);
    }
    if (ledger_.stop == 0) start(i);
  }

  void tell() {
    if (seconds_since(told_) < kSecondsBetweenNews) return;
    told_ = Clock::now();
    const Counts& counts = ledger_.counts;
    std::printf("%.0f s: %llu programs drawn, %llu compiled (%llu kernels), %llu run, %zu kinds of findings\n",
                seconds(), static_cast<unsigned long long>(counts.drawn),
                static_cast<unsigned long long>(counts.compiled), static_cast<unsigned long long>(counts.kernels),
                static_cast<unsigned long long>(counts.ran), ledger_.findings.all().size());
    std::fflush(stdout);
  }

  const GeneratorOptions& options_;
  Ledger& ledger_;
  std::vector<pid_t> children_;
  Clock::time_point begin_ = Clock::now(), told_ = begin_;
};

json sentences(const Tally& tally) {
  json list = json::array();
  for (const auto& [text, count] : tally.all()) list.push_back({{"sentence", text}, {"programs", count}});
  return list;
}

json summary_of(const GeneratorOptions& options, const Crew& crew) {
  const Ledger& ledger = crew.ledger();
  const Counts& c = ledger.counts;
  std::uint64_t refused = 0;
  for (const auto& [text, count] : ledger.refusals.all()) refused += count;
  const char* const commit = std::getenv("EPIFUSE_COMMIT");
  const std::uint64_t fast = c.kernels - c.full_kernels;
  return {{"commit", commit == nullptr ? "" : commit},
          {"version", EPIFUSE_VERSION},
          {"nvrtc", system_report().nvrtc.value_or("none")},
          {"seed", options.seed},
          {"first", options.first},
          {"end", std::min<std::uint64_t>(ledger.next, options.first + options.programs)},
          {"jobs", options.jobs},
          {"seconds", crew.seconds()},
          {"drawn", c.drawn.load()},
          {"refused", refused},
          {"printed", c.printed.load()},
          {"planned", c.planned.load()},
          {"compiled", c.compiled.load()},
          {"kernels", c.kernels.load()},
          {"kernels_with_the_librarys_options", c.full_kernels.load()},
          {"ms_per_kernel", ratio(c.kernel_microseconds, fast) / 1000},
          {"ms_per_kernel_with_the_librarys_options", ratio(c.full_microseconds, c.full_kernels) / 1000},
          {"run_on_the_cpu_device", c.ran.load()},
          {"results", c.results.load()},
          {"percent_judged_to_the_bit", 100 * ratio(c.exact, c.results)},
          {"run_as_emitted_text", c.emitted.load()},
          {"kinds_of_kernels_run_as_emitted_text", ledger.emitted_kinds.count()},
          {"refusals", sentences(ledger.refusals)},
          {"findings", sentences(ledger.findings)}};
}

void print_findings(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const json finding = json::parse(line, nullptr, false);
    if (!finding.is_discarded()) std::printf("%s\n", finding["text"].get<std::string>().c_str());
  }
}

int generate(GeneratorOptions options) {
  if (options.jobs <= 0) options.jobs = static_cast<int>(std::thread::hardware_concurrency());
  options.jobs = std::clamp(options.jobs, 1, kMostJobs);
  if (options.compile && !system_report().nvrtc) {
    std::printf("no NVRTC: kernels cannot be compiled (--no-compile goes on without)\n");
    return kSkipped;
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "epifuse-findings-XXXXXX").string();
  if (options.findings.empty()) {
    const int file = mkstemp(pattern.data());
    if (file >= 0) close(file);
    options.findings = pattern;
  }
  Crew crew(options);
  crew.run();
  json summary = summary_of(options, crew);
  print_findings(options.findings);
  if (options.findings == pattern) std::filesystem::remove(pattern);
  std::printf("%s\n", summary.dump(1).c_str());
  if (!options.json.empty()) std::ofstream(options.json) << summary.dump(1) << "\n";
  const bool enough = options.compiled == 0 || crew.ledger().counts.compiled >= options.compiled;
  if (!enough)
    std::printf("FAILED: %llu programs compiled, %llu were wanted\n",
                static_cast<unsigned long long>(crew.ledger().counts.compiled),
                static_cast<unsigned long long>(options.compiled));
  return enough && summary["findings"].empty() ? 0 : 1;
}

}  // namespace
}  // namespace epifuse::test

int main(int argc, char** argv) {
  epifuse::test::GeneratorOptions options;
  CLI::App app("Programs without taste: drawn from signatures, planned, printed, compiled, run and judged.");
  std::uint64_t program = 0;
  app.add_option("--seed", options.seed, "which programs");
  app.add_option("--first", options.first, "number of the first: further runs go on where one ended");
  app.add_option("--programs", options.programs, "how many are drawn at most");
  app.add_option("--compiled", options.compiled, "ends when so many have compiled; fewer is a failure");
  CLI::Option* one = app.add_option("--program", program, "that one alone");
  app.add_option("--seconds", options.seconds, "how long at most");
  app.add_option("--jobs", options.jobs, "processes; default: one per core");
  app.add_option("--full-every", options.full_every,
                 "one kernel in so many is compiled with the library's own options");
  app.add_option("--emitted-every", options.emitted_every,
                 "one program in so many runs as emitted text, which needs a C++ compiler");
  app.add_option("--emitted-per-kind", options.emitted_per_kind, "and so many of each kind of kernel");
  app.add_option("--only", options.only,
                 "programs of one size: small, medium, large (planned and compiled) or chain (hundreds of calls)")
      ->check(CLI::IsMember({"small", "medium", "large", "chain"}));
  app.add_flag("!--no-compile", options.compile, "without NVRTC");
  app.add_flag("!--no-shrink", options.shrink, "findings as they were drawn");
  app.add_option("--findings", options.findings, "file that gets a line of JSON for each finding");
  app.add_option("--json", options.json, "file for the figures");
  CLI11_PARSE(app, argc, argv);
  if (*one) {
    options.first = program;
    options.programs = 1;
    options.jobs = 1;
    options.full_every = 1;
  }
  return epifuse::test::generate(options);
}
