// The loop over programs, and shrinking.
#include "generator/worker.hpp"

#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "emitted/workshop.hpp"
#include "support/regressions.hpp"

namespace epifuse::test {
namespace {

constexpr std::size_t kEmittedBatch = 24;
constexpr std::uint64_t kShrunkPerSignature = 2;
constexpr std::uint64_t kShrunkMismatches = 8;  // that differ more than their message shows
constexpr int kShrinkAttempts = 200;
constexpr int kNamings = 12;
constexpr int kMostSeconds = 60;  // of a program, in processor time

// A program that takes longer ends its process, which is a finding.
void start_clock() {
  itimerval limit{};
  limit.it_value.tv_sec = kMostSeconds;
  setitimer(ITIMER_PROF, &limit, nullptr);
}

Program with_case(const Program& program, const Case& test) {
  Program out = program;
  out.test = test;
  out.calls.clear();
  return out;
}

// Names matter to text alone.
int namings_of(Stage stage) { return stage == Stage::parse || stage == Stage::print ? kNamings : 1; }

Checker quick_checker(Stage stage) {
  const Effort effort = stage == Stage::compile ? Effort::fast : Effort::none;
  return Checker({.compile = [effort](const std::string&, int) { return effort; }});
}

// As a child that crashes, or does not.
bool crashes(const Program& program) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    if (std::freopen("/dev/null", "w", stderr) == nullptr) _exit(0);
    start_clock();
    try {
      quick_checker(Stage::run).check(program);
    } catch (...) {
    }
    _exit(0);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status);
}

class Worker {
 public:
  Worker(const GeneratorOptions& options, Ledger& ledger, Running& running)
      : options_(options),
        ledger_(ledger),
        running_(running),
        checker_({.compile = [this](const std::string& source, int arch) { return effort_of(source, arch); },
                  .before = [this](Stage stage) { running_.stage = static_cast<int>(stage); }}),
        workshop_(std::make_unique<Workshop>()) {}

  void run() {
    while (ledger_.stop == 0) {
      const std::uint64_t number = ledger_.next++;
      if (number >= options_.first + options_.programs) break;
      if (options_.compiled > 0 && ledger_.counts.compiled >= options_.compiled) break;
      one(number);
    }
    run_emitted();
  }

 private:
  Effort effort_of(const std::string& source, int architecture) {
    if (!options_.compile) return Effort::none;
    if (!ledger_.kernels.is_new(hash_of(source + std::to_string(architecture)))) return Effort::none;
    effort_ =
        options_.full_every > 0 && ledger_.counts.kernels % options_.full_every == 0 ? Effort::full : Effort::fast;
    ++ledger_.counts.kernels;
    return effort_;
  }

  void one(std::uint64_t number) {
    running_.program = number;
    running_.stage = static_cast<int>(Stage::parse);
    start_clock();
    const Program program = draw_program(options_.seed, number);
    if (!options_.only.empty() && options_.only != to_string(program.size)) return;
    const std::optional<Finding> finding = checker_.check(program);
    count();
    if (finding) {
      report(number, program, *finding);
    } else if (checker_.refusal()) {
      ledger_.refusals.add(std::string(to_string(checker_.refusal()->stage)) + ": " + checker_.refusal()->sentence);
    } else if (program.runs() && runs_as_text(number)) {
      queue(number, program);
    }
  }

  bool runs_as_text(std::uint64_t number) {
    bool chosen = options_.emitted_every > 0 && number % options_.emitted_every == 0;
    for (int i = 0; i < options_.emitted_per_kind && !chosen; ++i)
      chosen = ledger_.emitted_kinds.is_new(hash_of(checker_.kind_of_kernel() + std::to_string(i)));
    return chosen;
  }

  void count() {
    Counts& counts = ledger_.counts;
    ++counts.drawn;
    const std::pair<Stage, std::atomic<std::uint64_t>*> stages[] = {{Stage::parse, &counts.parsed},
                                                                    {Stage::print, &counts.printed},
                                                                    {Stage::plan, &counts.planned},
                                                                    {Stage::compile, &counts.compiled},
                                                                    {Stage::run, &counts.ran}};
    for (const auto& [stage, counter] : stages) {
      const bool skipped = stage == Stage::compile && !options_.compile;
      *counter += checker_.reached(stage) && !skipped ? 1 : 0;
    }
    counts.results += checker_.coverage().elements;
    counts.exact += checker_.coverage().exact;
    if (!checker_.compiled_now()) return;
    const auto spent = static_cast<std::uint64_t>(checker_.compile_ms() * 1000);
    (effort_ == Effort::full ? counts.full_microseconds : counts.kernel_microseconds) += spent;
    counts.full_kernels += effort_ == Effort::full ? 1 : 0;
  }

  void report(std::uint64_t number, const Program& program, const Finding& finding) {
    const std::uint64_t before = ledger_.findings.add(signature_of(finding));
    const bool differs = finding.stage == Stage::run || finding.stage == Stage::emitted;
    if (before >= (differs ? kShrunkMismatches : kShrunkPerSignature)) return;
    const bool shrinks = options_.shrink && finding.stage != Stage::emitted;
    start_clock();
    record(options_, number, shrinks ? smaller(program, finding.stage) : program, finding);
  }

  void queue(std::uint64_t number, const Program& program) {
    numbers_[program.test.data_seed] = number;
    workshop_->add(program.test, program.machine);
    if (numbers_.size() >= kEmittedBatch) run_emitted();
  }

  void run_emitted() {
    if (numbers_.empty()) return;
    running_.stage = static_cast<int>(Stage::emitted);
    const WorkshopReport found = workshop_->run(1, [this](const Case& test) {
      start_clock();
      if (const auto it = numbers_.find(test.data_seed); it != numbers_.end()) running_.program = it->second;
    });
    ledger_.counts.emitted += numbers_.size();
    for (std::size_t i = 0; i < found.failures.size(); ++i) {
      Program program;
      if (i < found.smallest.size()) program.test = found.smallest[i];
      const auto it = numbers_.find(program.test.data_seed);
      report(it == numbers_.end() ? running_.program.load() : it->second, program, {Stage::emitted, found.failures[i]});
    }
    numbers_.clear();
    workshop_ = std::make_unique<Workshop>();
  }

  const GeneratorOptions& options_;
  Ledger& ledger_;
  Running& running_;
  Checker checker_;
  std::unique_ptr<Workshop> workshop_;
  std::map<std::uint64_t, std::uint64_t> numbers_;  // of the programs in the workshop, by their data's seeds
  Effort effort_ = Effort::none;
};

}  // namespace

std::string signature_of(const Finding& finding) {
  std::string text = finding.message;
  if (finding.stage == Stage::compile) {
    if (const auto at = text.find("error: "); at != std::string::npos) text = text.substr(at);
    // What is undefined, rather than where.
    return "compile: " + text.substr(0, std::min<std::size_t>(text.find('\n'), 120));
  }
  return std::string(to_string(finding.stage)) + ": " + common_sentence(text);
}

Program smaller(const Program& program, Stage stage) {
  Checker checker = quick_checker(stage);
  const auto fails = [&](const Case& test) {
    Program candidate = with_case(program, test);
    for (int i = 0; i < namings_of(stage); ++i) {
      candidate.names = program.names + static_cast<std::uint64_t>(i);
      if (const auto finding = checker.check(candidate); finding && finding->stage == stage) return true;
    }
    return false;
  };
  if (program.size == Size::chain || !fails(program.test)) return program;
  return with_case(program, shrink(program.test, fails, kShrinkAttempts));
}

Program smaller_crash(const Program& program) {
  if (program.size == Size::chain || !crashes(with_case(program, program.test))) return program;
  return with_case(
      program, shrink(
                   program.test, [&](const Case& test) { return crashes(with_case(program, test)); }, kShrinkAttempts));
}

std::string describe(std::uint64_t seed, std::uint64_t number, const Program& program, const Finding& finding) {
  const std::string replay = "epifuse_generate --seed " + std::to_string(seed) + " --program " + std::to_string(number);
  if (program.test.chain.steps.empty())
    return "FAILED, " + std::string(to_string(finding.stage)) + ", " + replay + "\n" + finding.message + "\n";
  const std::string machine = "  planned for sm_" + std::to_string(program.machine.architecture) + " of " +
                              std::to_string(program.machine.multiprocessors) + " multiprocessors\n";
  const bool is_long = program.size == Size::chain;
  return "FAILED, " + std::string(to_string(finding.stage)) + ", " + replay + "\n" + finding.message.substr(0, 2500) +
         "\n" + (is_long ? program.test.str().substr(0, 300) + " …\n" : program.test.str()) + machine +
         (is_long ? "" : "R\"case(" + to_line(program.test) + ")case\",\n");
}

void record(const GeneratorOptions& options, std::uint64_t number, const Program& program, const Finding& finding) {
  const nlohmann::json line = {
      {"signature", signature_of(finding)},
      {"stage", to_string(finding.stage)},
      {"program", number},
      {"chain", program.size == Size::chain || program.test.chain.steps.empty() ? "" : to_text(program.test.chain)},
      {"case", program.size == Size::chain || program.test.chain.steps.empty() ? "" : to_line(program.test)},
      {"text", describe(options.seed, number, program, finding)}};
  // One write: processes append to the same file.
  const std::string text = line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  std::FILE* file = std::fopen(options.findings.c_str(), "a");
  if (file == nullptr) return;
  std::setvbuf(file, nullptr, _IOFBF, text.size() + 1);
  std::fwrite(text.data(), 1, text.size(), file);
  std::fclose(file);
}

void work(const GeneratorOptions& options, Ledger& ledger, Running& running) { Worker(options, ledger, running).run(); }

}  // namespace epifuse::test
