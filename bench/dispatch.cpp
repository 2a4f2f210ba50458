// What a launch costs the CPU beyond the driver's cuLaunchKernel: repeated launches, new shapes, one thread and eight
// on eight streams.
//   epifuse_bench_dispatch [--device cuda|stub|busy] [--json FILE] [--check]
// With the stub driver it needs no GPU. Raw and own launches take turns, so that the machine's moods meet both alike;
// what is told are medians over bursts.
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstdio>
#include <stdexcept>
#include <thread>

#include "heap_count.hpp"
#include "launches.hpp"
#include "record.hpp"
#include "stub_driver.hpp"

namespace bench {
namespace {

using namespace epifuse;
constexpr int kBursts = 200;
constexpr int kThreads = 8;

struct Samples {
  std::vector<double> raw, repeated, fresh;
  std::uint64_t heap_repeated = 0;
  std::uint64_t heap_fresh = 0;
};

// What one thread measures on a stream of its own. New shapes are new for the engine: each thread has a share of them.
Samples measure(Subject& subject, const Raw& raw, runtime::SharedContext context, int thread, int threads,
                std::barrier<>& together) {
  const runtime::ContextGuard guard(*context);
  const runtime::Stream stream(context);
  const Subject::Views usual = subject.views(kBatch);
  std::vector<Subject::Views> fresh;
  for (int i = 0; i < kBurst; ++i) fresh.push_back(subject.views(kFirstNewBatch));
  std::int64_t next = kFirstNewBatch + kNewBatches / threads * thread;
  const std::int64_t last = next + kNewBatches / threads;
  subject.launch(usual, stream.handle());
  Samples samples;
  for (std::vector<double>* each : {&samples.raw, &samples.repeated, &samples.fresh}) each->reserve(kBursts);
  together.arrive_and_wait();
  for (int i = 0; i < kBursts; ++i) {
    samples.raw.push_back(burst([&](int) { launch_raw(raw, stream.handle()); }));
    stream.synchronize();
    subject.launch(usual, stream.handle());  // which new shapes may have replaced
    const std::uint64_t heap = heap_allocations();
    samples.repeated.push_back(burst([&](int) { subject.launch(usual, stream.handle()); }));
    samples.heap_repeated += heap_allocations() - heap;
    stream.synchronize();
    if (next + kBurst > last) continue;
    for (Subject::Views& views : fresh) views = subject.views(next++);
    const std::uint64_t heap_before = heap_allocations();
    samples.fresh.push_back(burst([&](int k) { subject.launch(fresh[static_cast<std::size_t>(k)], stream.handle()); }));
    samples.heap_fresh += heap_allocations() - heap_before;
    stream.synchronize();
  }
  return samples;
}

Json summary(const char* what, int threads, const std::vector<double>& samples, double raw, std::uint64_t heap) {
  const auto rounded = [](double ns) { return std::round(ns * 10) / 10; };
  return {{"launch", what},
          {"threads", threads},
          {"ns", rounded(median(samples))},
          {"ns_10%", rounded(quantile(samples, 0.1))},
          {"ns_90%", rounded(quantile(samples, 0.9))},
          {"ns_over_raw", rounded(median(samples) - raw)},
          {"heap_allocations", heap}};
}

void append(std::vector<double>& to, const std::vector<double>& from) { to.insert(to.end(), from.begin(), from.end()); }

Json run(const Case& c, Engine& engine, const runtime::SharedContext& context) {
  Subject subject(c, engine);
  const Subject::Views usual = subject.views(kBatch);
  Raw raw;
  {
    const runtime::ContextGuard guard(*context);
    subject.launch(usual, nullptr);
    raw = note([&] { subject.launch(usual, nullptr); });
    subject.launch(subject.views(kFirstNewBatch), nullptr);  // the class of the new shapes
    engine.synchronize();
  }
  Json rows = Json::array();
  for (const int count : {1, kThreads}) {
    std::vector<Samples> each(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    std::barrier together(count);
    for (int i = 0; i < count; ++i) {
      threads.emplace_back(
          [&, i] { each[static_cast<std::size_t>(i)] = measure(subject, raw, context, i, count, together); });
    }
    for (std::thread& thread : threads) thread.join();
    Samples all;
    for (const Samples& one : each) {
      append(all.raw, one.raw);
      append(all.repeated, one.repeated);
      append(all.fresh, one.fresh);
      all.heap_repeated += one.heap_repeated;
      all.heap_fresh += one.heap_fresh;
    }
    const double base = median(all.raw);
    rows.push_back(summary("raw", count, all.raw, base, 0));
    rows.push_back(summary("repeated", count, all.repeated, base, all.heap_repeated));
    rows.push_back(summary("new shape", count, all.fresh, base, all.heap_fresh));
  }
  // A thread without a current context: the engine's is pushed and popped.
  std::vector<double> pushed;
  std::vector<double> plain;
  for (int i = 0; i < kBursts; ++i) {
    {
      const runtime::ContextGuard guard(*context);
      plain.push_back(burst([&](int) { launch_raw(raw, nullptr); }));
      engine.synchronize();
    }
    pushed.push_back(burst([&](int) { subject.launch(usual, nullptr); }));
    engine.synchronize();
  }
  rows.push_back(summary("repeated, no current context", 1, pushed, median(plain), 0));
  return {{"case", c.name}, {"operands", c.inputs.size() + 1}, {"rows", rows}};
}

// In nanoseconds over a raw launch: what is aimed at, and how much more a busy machine is allowed.
constexpr double kRepeated = 150, kNewShape = 500, kSlack = 6;
// A raw launch against the stub on the host of dispatch-stub.json: a call that touches no memory, so it takes longer
// elsewhere by what that host is slower (of those that CI has met up to five times; repeated launches and new shapes
// there by as much).
constexpr double kRawOfRecord = 5.1;
// Judged by the fastest tenth of the bursts: others' work makes some slower, a mistake all.
constexpr const char* kJudged = "ns_10%";

double raw_of(const Json& rows, int threads) {
  for (const Json& row : rows) {
    if (row["launch"] == "raw" && row["threads"] == threads) return row[kJudged].get<double>();
  }
  throw std::logic_error("no raw launches were measured");
}

int check(const Json& record) {
  int failures = 0;
  for (const Json& c : record["records"]) {
    for (const Json& row : c["rows"]) {
      const bool fresh = row["launch"] == "new shape";
      if (!fresh && row["launch"] != "repeated") continue;
      const double raw = raw_of(c["rows"], row["threads"]);
      const double most = kSlack * std::max(raw / kRawOfRecord, 1.0) * (fresh ? kNewShape : kRepeated);
      const double over = row[kJudged].get<double>() - raw;
      if (row["heap_allocations"] == 0 && over <= most) continue;
      std::fprintf(stderr, "%s, %s, %d threads: %d heap allocations, %.0f ns over raw; at most 0 and %.0f\n",
                   c["case"].get<std::string>().c_str(), row["launch"].get<std::string>().c_str(),
                   row["threads"].get<int>(), row["heap_allocations"].get<int>(), over, most);
      ++failures;
    }
  }
  return failures == 0 ? 0 : 1;
}

int measure_all(const Program& program, bool checks) {
  const StubDriver stub(program.device);
  Json record = program.document("dispatch", {{"launches_per_burst", kBurst}, {"bursts", kBursts}});
  {
    const auto context = std::make_shared<const runtime::Context>(0);
    Engine engine(Device::cuda(0));
    for (const Case& c : cases()) {
      record["records"].push_back(run(c, engine, context));
      std::printf("%s\n", record["records"].back()["case"].get<std::string>().c_str());
      for (const Json& row : record["records"].back()["rows"]) {
        std::printf("  %-30s %d threads  %8.1f ns  %+8.1f over raw  %llu heap allocations\n",
                    row["launch"].get<std::string>().c_str(), row["threads"].get<int>(), row["ns"].get<double>(),
                    row["ns_over_raw"].get<double>(),
                    static_cast<unsigned long long>(row["heap_allocations"].get<std::uint64_t>()));
      }
    }
  }
  program.write(record);
  return checks ? check(record) : 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Program program("What a launch costs the CPU beyond cuLaunchKernel.");
  bool checks = false;
  program.app.add_flag("--check", checks,
                       "fail where a bound is passed: no heap, and six times the targets, by how fast the host is");
  return program.run(argc, argv, [&] { return bench::measure_all(program, checks); });
}
