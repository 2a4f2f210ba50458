// Where the time of a launch goes: what each driver call costs, alone and after a launch that has left the caches to
// the driver; and EpiFuse's own launch, part by part.
//   epifuse_bench_driver_calls [--device cuda|stub|busy] [--json FILE]
// Each row is a burst of launches, each with something before it; rows take turns, and what is told is the median
// difference to the plain launches of the same round. "busy" is a stub that runs over code and data as a driver does.
#include <cmath>
#include <cstdio>
#include <functional>

#include <dlfcn.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/dispatch.hpp"
#include "api/engine_impl.hpp"
#include "launches.hpp"
#include "plan/plan.hpp"
#include "record.hpp"
#include "runtime/memory.hpp"
#include "stub_driver.hpp"

namespace bench {
namespace {

using namespace epifuse;

constexpr int kRounds = 150;
bool on_gpu = false;

// Counts of the processor, in user mode, where the machine lets us see them.
class Counters {
 public:
  static constexpr std::array<const char*, 4> kNames = {"instructions", "L1I_misses", "L1D_misses", "branch_misses"};
  Counters() {
    constexpr auto kMisses = [](std::uint64_t cache) { return cache | PERF_COUNT_HW_CACHE_RESULT_MISS << 16; };
    open(0, PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS);
    open(1, PERF_TYPE_HW_CACHE, kMisses(PERF_COUNT_HW_CACHE_L1I));
    open(2, PERF_TYPE_HW_CACHE, kMisses(PERF_COUNT_HW_CACHE_L1D));
    open(3, PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES);
  }
  ~Counters() {
    for (const int file : files_) {
      if (file >= 0) ::close(file);
    }
  }
  Counters(const Counters&) = delete;
  Counters& operator=(const Counters&) = delete;

  std::array<double, 4> read() const {
    std::array<double, 4> values{};
    for (std::size_t i = 0; i < files_.size(); ++i) {
      std::uint64_t count = 0;
      const bool known = files_[i] >= 0 && ::read(files_[i], &count, sizeof count) == sizeof count;
      values[i] = known ? static_cast<double>(count) : std::nan("");
    }
    return values;
  }

 private:
  void open(std::size_t i, std::uint32_t type, std::uint64_t config) {
    perf_event_attr attributes{};
    attributes.size = sizeof attributes;
    attributes.type = type;
    attributes.config = config;
    attributes.exclude_kernel = 1;
    attributes.exclude_hv = 1;
    files_[i] = static_cast<int>(::syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
  }
  std::array<int, 4> files_{-1, -1, -1, -1};
};

struct Row {
  std::string what;
  std::function<void()> action;                // done before each launch of the burst; or the launch itself
  bool launches = false;                       // the action does
  const runtime::DriverApi* driver = nullptr;  // another one meanwhile
  std::vector<double> ns;
  std::array<double, 4> counted{};
};

// A function of the driver that the library itself does not use; null with a stub.
template <class Function>
Function* symbol(const char* name) {
  if (!on_gpu) return nullptr;
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(::dlsym(library, name));
}

class Breakdown {
 public:
  Breakdown(Subject& subject, const Raw& raw, Engine& engine, const runtime::SharedContext& context)
      : subject_(subject), raw_(raw), engine_(engine), stream_(context), usual_(subject.views(kBatch)) {
    api_ = &runtime::driver();
    fixed_context = context->handle();
    quick_ = *api_;
    quick_.ctx_get_current = [](runtime::ContextHandle* current) { return *current = fixed_context, abi::kSuccess; };
    idle_ = quick_;
    idle_.launch_kernel = [](runtime::FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                             unsigned, runtime::StreamHandle, void**, void**) { return abi::kSuccess; };
  }

  void add_driver_calls() {
    add("cuCtxGetCurrent", [this] { api_->ctx_get_current(&current_); });
    add("cuCtxPushCurrent, cuCtxPopCurrent", [this] {
      api_->ctx_push_current(fixed_context);
      api_->ctx_pop_current(&current_);
    });
    const auto stream = stream_.handle();
    add("cuStreamIsCapturing", symbol<int(runtime::StreamHandle, int*)>("cuStreamIsCapturing"),
        [this, stream](auto* call) { call(stream, &number_); });
    add("cuStreamGetCtx", symbol<int(runtime::StreamHandle, runtime::ContextHandle*)>("cuStreamGetCtx"),
        [this, stream](auto* call) { call(stream, &current_); });
    add("cuCtxGetId", symbol<int(runtime::ContextHandle, std::uint64_t*)>("cuCtxGetId"),
        [this](auto* call) { call(fixed_context, &word_); });
    const auto address = reinterpret_cast<runtime::DevicePointer>(usual_.inputs.front().data);
    add("query_pointer: three attributes", [this] { runtime::query_pointer(usual_.inputs.front().data); });
    add("query_pointer, 1 MB into the allocation",
        [this] { runtime::query_pointer(static_cast<const std::byte*>(usual_.inputs.front().data) + (1 << 20)); });
    for (const auto& [name, which] : {std::pair{"memory type", 2},
                                      {"buffer id", 7},
                                      {"is managed", 8},
                                      {"device ordinal", 9},
                                      {"range's start", 11},
                                      {"range's size", 12}}) {
      add(std::string("cuPointerGetAttribute: ") + name,
          symbol<int(void*, int, runtime::DevicePointer)>("cuPointerGetAttribute"),
          [this, which = which, address](auto* call) { call(&word_, which, address); });
    }
    add("cuPointerGetAttributes: memory type", [this, address] { attributes<1>({2}, address); });
    add("cuPointerGetAttributes: those three and the range", [this, address] {
      attributes<5>({2, 8, 9, 11, 12}, address);
    });
    add("cuMemGetAddressRange",
        symbol<int(runtime::DevicePointer*, std::size_t*, runtime::DevicePointer)>("cuMemGetAddressRange_v2"),
        [this, address](auto* call) { call(&base_, &size_, address); });
  }

  void add_processor() {
    for (const std::size_t lines : {16, 64, 256})
      add(std::to_string(lines) + " cold lines of code",
          [this, lines] { work_.code((next_line_ += lines) % 1024 + 1024, lines); });
    for (const std::size_t lines : {16, 64, 256})
      add(std::to_string(lines) + " cold lines of data", [this, lines] { work_.data(lines); });
    for (const std::size_t steps : {25, 50, 100, 200})
      add(std::to_string(steps) + " steps of arithmetic", [this, steps] { work_.arithmetic(steps); });
    add("an atomic addition", [this] { counter_.fetch_add(1, std::memory_order_relaxed); });
    add(
        "raw launch, another grid each time",
        [this] {
          flip_ = !flip_;
          launch_raw(flip_ ? raw_ : other_grid_, stream_.handle());
        },
        true);
    if (!on_gpu) return;  // the stubs read the other form
    add(
        "raw launch, parameters as an array of pointers",
        [this] {
          void* parameter = const_cast<std::byte*>(raw_.parameters.data());
          runtime::check(api_->launch_kernel(raw_.function, raw_.grid, 1, 1, raw_.block, 1, 1, raw_.shared,
                                             stream_.handle(), &parameter, nullptr),
                         "launch");
        },
        true);
  }

  void add_parts() {
    const ir::Program& program = subject_.tail().program();
    const plan::Plan plan = plan::make_plan(program, outputs(), usual_.inputs);
    Call call;
    call.set_distances(plan.space);
    call.parameters.resize(raw_.parameters.size() / sizeof(std::uint64_t));
    calls_.store(Signature(request()), call);
    add("the signature", [this] { keep(Signature(request()).hash()); });
    add("the signature, finding the call, distances", [this] {
      Call found;
      keep(calls_.find(Signature(request()), request(), found));
    });
    add(
        "Engine::launch", [this] { subject_.launch(usual_, stream_.handle()); }, true);
    add(
        "Engine::launch, cuCtxGetCurrent for nothing", [this] { subject_.launch(usual_, stream_.handle()); }, true,
        &quick_);
    add("Engine::launch that launches nothing, then a raw one", [this] {
      runtime::set_driver_for_testing(&idle_);
      subject_.launch(usual_, stream_.handle());
      runtime::set_driver_for_testing(api_);
    });
    add("planning a new shape", [this] { engine_.workspace_bytes(subject_.tail(), fresh_outputs(), fresh_.inputs); });
    add(
        "Engine::launch of a new shape",
        [this] {
          fresh_ = subject_.views(next_);
          next_ = next_ + 1 < kFirstNewBatch + kNewBatches ? next_ + 1 : kFirstNewBatch;
          subject_.launch(fresh_, stream_.handle());
        },
        true);
    add("making its views", [this] { fresh_ = subject_.views(kFirstNewBatch); });
  }

  Json run() {
    const Counters counters;
    std::vector<double> raw;
    Row plain{"raw launch", [this] { launch_raw(raw_, stream_.handle()); }, true, nullptr, {}, {}};
    rows_.insert(rows_.begin(), plain);
    for (int round = 0; round < kRounds; ++round) {
      for (Row& row : rows_) {
        runtime::set_driver_for_testing(row.driver != nullptr ? row.driver : api_);
        const auto before = counters.read();
        row.ns.push_back(burst([&](int) {
          row.action();
          if (!row.launches) launch_raw(raw_, stream_.handle());
        }));
        const auto after = counters.read();
        for (std::size_t i = 0; i < before.size(); ++i) row.counted[i] += (after[i] - before[i]) / kBurst / kRounds;
        runtime::set_driver_for_testing(api_);
        stream_.synchronize();
      }
    }
    Json result = Json::array();
    for (const Row& row : rows_) result.push_back(told(row));
    return result;
  }

 private:
  static inline runtime::ContextHandle fixed_context = nullptr;

  void add(std::string what, std::function<void()> action, bool launches = false,
           const runtime::DriverApi* driver = nullptr) {
    rows_.push_back({std::move(what), std::move(action), launches, driver, {}, {}});
  }
  template <class Function, class Action>
  void add(std::string what, Function* function, const Action& action) {
    if (function != nullptr) add(std::move(what), [=] { action(function); });
  }
  template <std::size_t N>
  void attributes(std::array<int, N> which, runtime::DevicePointer address) {
    std::array<void*, N> values;
    for (std::size_t i = 0; i < N; ++i) values[i] = &words_[i];
    api_->pointer_get_attributes(N, which.data(), values.data(), address);
  }
  std::span<const OutputView> outputs() const { return {&usual_.output, 1}; }
  std::span<const OutputView> fresh_outputs() const { return {&fresh_.output, 1}; }
  LaunchRequest request() const {
    return {subject_.tail().program(), stream_.handle(), outputs(), usual_.inputs, {}, nullptr};
  }
  void keep(std::uint64_t value) { word_ ^= value; }

  // Alone: hot, without a launch between.
  Json told(const Row& row) const {
    std::vector<double> over;
    for (std::size_t i = 0; i < row.ns.size(); ++i) over.push_back(row.ns[i] - rows_.front().ns[i]);
    const auto rounded = [](double value) { return std::round(value * 10) / 10; };
    Json json = {{"what", row.what},
                 {"ns", rounded(median(row.ns))},
                 {"ns_over_raw", rounded(median(over))},
                 {"ns_over_raw_25%", rounded(quantile(over, 0.25))},
                 {"ns_over_raw_75%", rounded(quantile(over, 0.75))}};
    if (!row.launches) json["alone"] = rounded(alone(row));
    for (std::size_t i = 0; i < Counters::kNames.size(); ++i) {
      if (!std::isnan(row.counted[i]))
        json[Counters::kNames[i]] = rounded(row.counted[i] - (&row == &rows_.front() ? 0 : rows_.front().counted[i]));
    }
    return json;
  }
  static double alone(const Row& row) {
    std::vector<double> ns;
    for (int i = 0; i < 15; ++i) ns.push_back(burst([&](int) { row.action(); }));
    return median(ns);
  }

  Subject& subject_;
  const Raw& raw_;
  Engine& engine_;
  runtime::Stream stream_;
  Subject::Views usual_;
  Subject::Views fresh_ = usual_;
  std::int64_t next_ = kFirstNewBatch;
  const runtime::DriverApi* api_ = nullptr;
  runtime::DriverApi quick_, idle_;
  CallTable calls_;
  Work work_{std::size_t{32} << 20};
  std::vector<Row> rows_;
  // What the calls write.
  runtime::ContextHandle current_ = nullptr;
  int number_ = 0;
  std::uint64_t word_ = 0;
  std::array<std::uint64_t, 5> words_{};
  runtime::DevicePointer base_ = 0;
  std::size_t size_ = 0;
  std::atomic<std::uint64_t> counter_{0};
  Raw other_grid_ = [this] {
    Raw raw = raw_;
    raw.grid = std::max(1U, raw.grid - 1);  // some of the elements are left out
    return raw;
  }();
  bool flip_ = false;
  std::size_t next_line_ = 0;
};

int measure_all(const Program& program) {
  on_gpu = program.device == "cuda";
  const StubDriver stub(program.device);
  Json record = program.document("driver-calls", {{"launches_per_burst", kBurst}, {"rounds", kRounds}});
  const auto context = std::make_shared<const runtime::Context>(0);
  const runtime::ContextGuard guard(*context);
  Engine engine(Device::cuda(0));
  for (const Case& c : cases()) {
    Subject subject(c, engine);
    const Subject::Views usual = subject.views(kBatch);
    subject.launch(usual, nullptr);
    const Raw raw = note([&] { subject.launch(usual, nullptr); });
    subject.launch(subject.views(kFirstNewBatch), nullptr);
    engine.synchronize();
    Breakdown breakdown(subject, raw, engine, context);
    if (record["records"].empty()) breakdown.add_driver_calls();
    if (record["records"].empty()) breakdown.add_processor();
    breakdown.add_parts();
    record["records"].push_back({{"case", c.name}, {"rows", breakdown.run()}});
    std::printf("%s\n", c.name);
    for (const Json& row : record["records"].back()["rows"]) std::printf("  %s\n", row.dump().c_str());
  }
  program.write(record);
  return 0;
}

}  // namespace
}  // namespace bench

int main(int argc, char** argv) {
  bench::Program program("What each part of a launch costs the CPU.");
  return program.run(argc, argv, [&] { return bench::measure_all(program); });
}
