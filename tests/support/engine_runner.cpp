// Memory of cases on a device, and threads over cases.
#include "support/engine_runner.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "support/guarded.hpp"
#include "support/random_case.hpp"

namespace epifuse::test {
namespace {

constexpr std::size_t kMostFailures = 8;
constexpr std::size_t kMostShrunk = 60;  // shrinking takes time
constexpr int kShrinkAttempts = 300;

// Images on the engine's device. Addresses are as aligned as the image asks, on the CPU to the byte.
class Placed {
 public:
  Placed(Engine& engine, Memory& memory) : on_cpu_(engine.device().kind == Device::Kind::cpu) {
    for (auto* images : {&memory.inputs, &memory.outputs}) {
      for (Image& image : *images) place(engine, image);
    }
  }

  unsigned char* address(const Image& image) const {
    const auto it = std::ranges::find(images_, &image);
    const auto i = static_cast<std::size_t>(it - images_.begin());
    return on_cpu_ ? guarded_[i]->data() : static_cast<unsigned char*>(arrays_[i].view().writable());
  }

  void fetch() {
    for (std::size_t i = 0; i < images_.size(); ++i) {
      if (on_cpu_) {
        guarded_[i]->copy_to(*images_[i]);
      } else if (!images_[i]->bytes.empty()) {
        arrays_[i].download(images_[i]->bytes.data());
      }
    }
  }

 private:
  void place(Engine& engine, Image& image) {
    images_.push_back(&image);
    if (on_cpu_) {
      guarded_.push_back(std::make_unique<Guarded>(image));
    } else {
      arrays_.push_back(engine.array(DType::u8, {static_cast<std::int64_t>(image.bytes.size())}, image.bytes.data()));
    }
  }

  bool on_cpu_;
  std::vector<Image*> images_;
  std::vector<std::unique_ptr<Guarded>> guarded_;
  std::vector<Array> arrays_;
};

// Collects failures, shrunk; of those that shrink to the same chain only the first.
class Failures {
 public:
  explicit Failures(Engine& engine) : engine_(engine) {}
  bool full() const { return texts_.size() >= kMostFailures || shrunk_ >= kMostShrunk; }

  void add(const Case& test, const std::string& problem) {
    const std::lock_guard lock(mutex_);
    if (full()) return;
    ++shrunk_;
    const Case small = shrink(
        test, [&](const Case& smaller) { return run_on(engine_, smaller).has_value(); }, kShrinkAttempts);
    if (!seen_.insert(to_text(small.chain)).second) return;
    texts_.push_back(text(small, problem));
    cases_.push_back(small);
  }

  void add_refusal(const Case& test, const std::string& why) {
    const std::lock_guard lock(mutex_);
    if (!full()) texts_.push_back(test.str() + "  refused: " + why + "\n");
  }

  void take(RunReport& report) {
    report.failures = std::move(texts_);
    report.smallest = std::move(cases_);
  }

 private:
  std::string text(const Case& small, const std::string& problem) {
    return small.str() + "  " + run_on(engine_, small).value_or("(passes when it runs again)") +
           "\n  before shrinking: " + problem + "\n";
  }

  Engine& engine_;
  std::mutex mutex_;
  std::set<std::string> seen_;
  std::vector<std::string> texts_;
  std::vector<Case> cases_;
  std::size_t shrunk_ = 0;
};

}  // namespace

std::optional<std::string> run_on(Engine& engine, const Case& test, Coverage* coverage, Stream stream) {
  const Epilogue tail = to_epilogue(test.chain);
  const Memory before(test);
  Memory after = before;
  Placed placed(engine, after);
  const Views views = make_views(test, tail, after, [&](const Image& image) { return placed.address(image); });
  engine.launch(tail, stream, views.outputs, views.inputs, views.scalars);
  engine.synchronize(stream);
  placed.fetch();
  return judge(test, before, after, coverage);
}

RunReport run_all(Engine& engine, const std::vector<Case>& cases, unsigned threads) {
  RunReport report;
  report.cases = cases.size();
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  Failures failures(engine);
  const auto work = [&] {
    Coverage coverage;
    for (std::size_t i = next++; i < cases.size(); i = next++) {
      try {
        if (const auto problem = run_on(engine, cases[i], &coverage)) failures.add(cases[i], *problem);
      } catch (const std::exception& refusal) {
        failures.add_refusal(cases[i], refusal.what());
      }
    }
    const std::lock_guard lock(mutex);
    report.coverage.elements += coverage.elements;
    report.coverage.exact += coverage.exact;
    report.coverage.anything += coverage.anything;
  };
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  failures.take(report);
  return report;
}

std::vector<Case> random_cases(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  return draw_cases<Family>(seed, count, per_family, elements);
}

std::string summary(const RunReport& report) {
  const auto percent = [&](std::uint64_t part) {
    return 100.0 * static_cast<double>(part) /
           static_cast<double>(std::max<std::uint64_t>(report.coverage.elements, 1));
  };
  char text[200];
  std::snprintf(text, sizeof text, "%zu cases, %llu results: %.0f%% judged to the bit, %.1f%% not at all", report.cases,
                static_cast<unsigned long long>(report.coverage.elements), percent(report.coverage.exact),
                percent(report.coverage.anything));
  return text;
}

}  // namespace epifuse::test
