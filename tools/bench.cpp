// `epifuse bench`: verifies a chain's result, then times it beside a copy of the same bytes.
#include "bench.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <optional>
#include <set>
#include <span>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "report.hpp"
#include "support.hpp"
#include "terminal.hpp"
#include "verify.hpp"

namespace epifuse::tool {
namespace {

struct BenchOptions {
  TaskOptions task;
  std::vector<std::string> others;  ///< --with: chains to compare with
  std::string device = "auto";
  std::uint64_t seed = 0;
  double seconds = 1;
  bool json = false;
};

struct Outcome {
  Task task;
  Device device;
  SystemReport system;
  Traffic traffic;
  std::uint64_t elements = 0;
  std::optional<Verification> verification;  ///< not of the CPU device: results are verified against it
  Measurement measured;

  const DeviceSummary* gpu() const {
    if (device.kind == Device::Kind::cpu) return nullptr;
    const auto it = std::ranges::find(system.devices, device.index, &DeviceSummary::index);
    return it == system.devices.end() ? nullptr : &*it;
  }
  double bytes() const { return static_cast<double>(traffic.total()); }
  double seconds() const { return median(measured.chain); }
  double copy_seconds() const { return median(measured.copy); }
  double ratio() const { return seconds() / copy_seconds(); }
  /// Between these lies the middle half of the samples.
  double quarter(double share) const { return quantile(measured.chain, share); }
};

void check(Outcome& outcome, const HostData& data, std::uint64_t seed) {
  outcome.verification = verify(outcome.task, data, seed);
  const Verification& v = *outcome.verification;
  if (!v.passed()) {
    throw Error(
        ErrorCode::device_failed,
        fmt::format(
            "the result on {} is wrong: {} of {} checked elements differ from the CPU device's; this is a bug, please "
            "report it with this command line",
            to_string(outcome.device), v.different, v.checked));
  }
}

// Elements that lie in memory: a stride of 0 repeats one.
std::uint64_t stored_elements(const TensorInfo& info) {
  std::uint64_t count = 1;
  for (int i = 0; i < info.shape.size(); ++i) {
    if (info.strides[i] != 0 || info.shape[i] == 0) count *= static_cast<std::uint64_t>(info.shape[i]);
  }
  return count;
}

// The CPU device runs chains that no plan of one kernel exists for. What it must read and write the tensors say.
void count_on_cpu(Outcome& outcome) {
  std::set<std::string, std::less<>> read;
  for (const ChainValue& value : chain_of(outcome.task.tail).values) read.insert(value.name);
  const auto count = [&](const TensorInfo& info, std::uint64_t& bytes) {
    bytes += size_of(info.dtype, stored_elements(info));
    outcome.elements = std::max(outcome.elements, static_cast<std::uint64_t>(element_count(info.shape)));
  };
  for (const Input& input : outcome.task.inputs) {
    if (read.contains(input.info.name)) count(input.info, outcome.traffic.read);
  }
  for (const TensorInfo& output : outcome.task.outputs) count(output, outcome.traffic.written);
}

// Of a tensor that is written at indices the plan knows how much is.
bool writes_at_indices(const Epilogue& tail) {
  return std::ranges::any_of(tail.destinations(), [](const std::string& operand) { return !operand.empty(); });
}

void count_by_plan(Outcome& outcome) {
  const Inspection inspection = outcome.task.inspect();
  outcome.traffic = {inspection.plan().bytes_read, inspection.plan().bytes_written};
  outcome.elements = inspection.plan().elements;
}

Outcome measure(const BenchOptions& options, const TaskOptions& task) {
  Progress progress("planning");
  const Device device = chosen_device(options.device);
  const bool on_cpu = device.kind == Device::Kind::cpu;
  Outcome outcome{make_task(task), device, {}, {}, 0, {}, {}};
  if (!on_cpu || outcome.task.tail.is_elementwise()) outcome.task.inspect();  // refuses what does not fit
  on_cpu && !writes_at_indices(outcome.task.tail) ? count_on_cpu(outcome) : count_by_plan(outcome);
  if (outcome.elements == 0) {
    refuse("nothing to time: the operands broadcast to {}, which has no elements",
           to_string(outcome.task.outputs[0].shape));
  }
  Engine engine(device);
  outcome.system = system_report();
  const Traffic traffic = outcome.traffic;
  if (!on_cpu) require_gpu_memory(device.index, outcome.task, traffic);
  progress.stage("loading operands");
  const HostData data = load_all(outcome.task, options.seed);
  progress.stage(fmt::format("computing on {}", to_string(device)));
  if (on_cpu) {
    outcome.measured = measure_on_cpu(engine, outcome.task, data, traffic, options.seconds);
    return outcome;
  }
  const auto verify_first = [&] {
    progress.stage("verifying");
    check(outcome, data, options.seed);
    progress.stage("timing");
  };
  const std::uint64_t l2 = outcome.gpu() == nullptr ? 0 : outcome.gpu()->l2_bytes;
  outcome.measured = measure_on_gpu(engine, outcome.task, data, traffic, options.seconds, l2, verify_first);
  return outcome;
}

std::string rate(double bytes, double seconds) { return fmt::format("{:.1f} GB/s", bytes / seconds * 1e-9); }

void print_outcome(const Outcome& o) {
  const auto line = [](std::string_view name, std::string_view text) { print_text("  {:<9} {}\n", name, text); };
  const std::string where = o.gpu() == nullptr ? fmt::format("{} threads", o.system.cpu_threads) : o.gpu()->name;
  const Measurement& m = o.measured;
  print_text("{}\n", heading(fmt::format("{} on {} ({})", o.task.chain, to_string(o.device), where)));
  for (const Input& input : o.task.inputs) line(input.info.name, describe(input.info));
  for (const TensorInfo& output : o.task.outputs) line("-> " + output.name, describe(output));
  line("verified",
       o.verification
           ? fmt::format("{} elements computed again on the CPU device; worst difference {:.2g} of the largest value",
                         o.verification->checked, o.verification->worst)
           : "no: results are verified against the CPU device, which this is");
  line("chain", fmt::format("{}  {}  ({} read, {} written)", format_time(o.seconds()), rate(o.bytes(), o.seconds()),
                            format_bytes(static_cast<double>(o.traffic.read)),
                            format_bytes(static_cast<double>(o.traffic.written))));
  line("spread", fmt::format("half of the samples within {} to {}, the fastest {}", format_time(o.quarter(0.25)),
                             format_time(o.quarter(0.75)), format_time(*std::ranges::min_element(m.chain))));
  const std::string_view copy = o.gpu() == nullptr ? "memcpy" : "copy";
  line(copy, fmt::format("{}  {}  (the same bytes, in the same run)", format_time(o.copy_seconds()),
                         rate(o.bytes(), o.copy_seconds())));
  line("ratio", fmt::format("{:.3f} x {}", o.ratio(), copy));
  line("method", fmt::format("{}: median of {} samples of {} launch{}, {} set{} of buffers, {} in all", m.method,
                             m.chain.size(), m.launches_per_sample, m.launches_per_sample == 1 ? "" : "es", m.sets,
                             m.sets == 1 ? "" : "s", format_bytes(static_cast<double>(m.rotated_bytes))));
  if (o.gpu() != nullptr && m.rotated_bytes < o.gpu()->l2_bytes) {
    line("", fmt::format("all of it fits in the L2 cache of {}: these are times of cached data",
                         format_bytes(static_cast<double>(o.gpu()->l2_bytes))));
  }
}

Json to_json(const Verification& v) {
  return {{"checked", v.checked}, {"different", v.different}, {"worst", number(v.worst)}};
}

Json to_json(const Outcome& o) {
  const auto optional = [](const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); };
  const char* commit = std::getenv("EPIFUSE_COMMIT");
  Json inputs = Json::array();
  for (const Input& input : o.task.inputs) inputs.push_back(tool::to_json(input.info));
  Json outputs = Json::array();
  for (const TensorInfo& output : o.task.outputs) outputs.push_back(tool::to_json(output));
  const Measurement& m = o.measured;
  return {{"chain", o.task.chain},
          {"device", to_string(o.device)},
          {"gpu", o.gpu() == nullptr ? Json(nullptr) : tool::to_json(*o.gpu())},
          {"cpu_threads", o.system.cpu_threads},
          {"version", o.system.version},
          {"nvrtc", optional(o.system.nvrtc)},
          {"driver", optional(o.system.driver)},
          {"commit", commit == nullptr || *commit == '\0' ? Json(nullptr) : Json(commit)},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"elements", o.elements},
          {"bytes_read", o.traffic.read},
          {"bytes_written", o.traffic.written},
          {"seconds", o.seconds()},
          {"seconds_quartiles", {o.quarter(0.25), o.quarter(0.75)}},
          {"seconds_fastest", *std::ranges::min_element(m.chain)},
          {"gbps", o.bytes() / o.seconds() * 1e-9},
          {"copy_seconds", o.copy_seconds()},
          {"copy_seconds_fastest", *std::ranges::min_element(m.copy)},
          {"copy_gbps", o.bytes() / o.copy_seconds() * 1e-9},
          {"ratio", o.ratio()},
          {"method", m.method},
          {"samples", m.chain.size()},
          {"launches_per_sample", m.launches_per_sample},
          {"sets", m.sets},
          {"rotated_bytes", m.rotated_bytes},
          {"verified", o.verification ? to_json(*o.verification) : Json(nullptr)}};
}

// ---- several chains

// The chains of a command line, each with the operands that it mentions. What none mentions stays, to be refused as
// unknown.
std::vector<TaskOptions> tasks_of(const BenchOptions& options) {
  std::vector<std::string> chains = {options.task.chain};
  chains.insert(chains.end(), options.others.begin(), options.others.end());
  std::vector<TaskOptions> tasks;
  for (const std::string& chain : chains) {
    TaskOptions task = options.task;
    task.chain = chain;
    std::erase_if(task.values, [&](const std::string& value) {
      const std::string name = value.substr(0, value.find('='));
      const auto has_name = [&](const std::string& other) { return mentions(other, name); };
      return !has_name(chain) && std::ranges::any_of(chains, has_name);
    });
    tasks.push_back(std::move(task));
  }
  return tasks;
}

// Where the middle halves of the samples overlap, the run does not tell the chains apart.
bool are_apart(const Outcome& a, const Outcome& b) {
  return a.quarter(0.75) < b.quarter(0.25) || b.quarter(0.75) < a.quarter(0.25);
}

void print_comparison(const std::vector<Outcome>& outcomes) {
  print_text("{}\n", heading("compared with the first"));
  for (const Outcome& o : outcomes) {
    const bool is_first = &o == &outcomes.front();
    const std::string_view remark =
        is_first || are_apart(o, outcomes.front()) ? "" : "  (the spreads overlap: no difference is shown)";
    print_text("  {:.3f} x  {}  {}{}\n", o.seconds() / outcomes.front().seconds(), format_time(o.seconds()),
               o.task.chain, remark);
  }
}

Json to_json(const std::vector<Outcome>& outcomes) {
  Json list = Json::array();
  for (const Outcome& o : outcomes) {
    Json one = to_json(o);
    one["relative"] = o.seconds() / outcomes.front().seconds();
    one["apart"] = are_apart(o, outcomes.front());
    list.push_back(std::move(one));
  }
  return {{"chains", std::move(list)}};
}

// What is wrong with a chain of --with names it, and is said before the first is timed.
void check_others(std::span<const TaskOptions> tasks) {
  for (const TaskOptions& task : tasks.subspan(1)) {
    try {
      make_task(task);
    } catch (const Error& problem) {
      throw Error(problem.code(), fmt::format("--with {}: {}", task.chain, problem.what()));
    }
  }
}

void bench(const BenchOptions& options) {
  const std::vector<TaskOptions> tasks = tasks_of(options);
  check_others(tasks);
  std::vector<Outcome> outcomes;
  for (const TaskOptions& task : tasks) outcomes.push_back(measure(options, task));
  if (options.json) return print_json(outcomes.size() == 1 ? to_json(outcomes.front()) : to_json(outcomes));
  for (const Outcome& outcome : outcomes) print_outcome(outcome);
  if (outcomes.size() > 1) print_comparison(outcomes);
}

}  // namespace

double quantile(std::span<const double> samples, double share) {
  std::vector<double> sorted(samples.begin(), samples.end());
  const auto at = static_cast<std::size_t>(share * static_cast<double>(sorted.size()));
  const auto place = sorted.begin() + static_cast<std::ptrdiff_t>(std::min(at, sorted.size() - 1));
  std::ranges::nth_element(sorted, place);
  return *place;
}

double median(std::span<const double> samples) { return quantile(samples, 0.5); }

void add_bench(CLI::App& app) {
  auto* command = app.add_subcommand("bench", "Time a chain beside a copy of the same bytes");
  auto options = std::make_shared<BenchOptions>();
  add_task_options(*command, options->task);
  command
      ->add_option("--with", options->others,
                   "Another chain of the same operands, timed after the first; repeat for more")
      ->allow_extra_args(false)
      ->type_name("CHAIN");
  add_device(*command, options->device);
  add_number(*command, "--seconds", options->seconds, 0, 3600, "Time to spend on samples");
  add_seed(*command, options->seed);
  add_switch(*command, "--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  epifuse bench \"gelu(x + bias)\" 'x=bf16[8192,4096]' 'bias=f32[4096]'\n"
      "  epifuse bench \"relu(x + bias)\" 'x=f16[128,128,126,126]:nhwc' 'bias=f32[128,1,1]' --out f16:nhwc --json\n"
      "  epifuse bench \"sigmoid((x + bias) * scale)\" 'x=f32[64000000]' 'bias=f32[1]' 'scale=f32[1]' --device cpu\n"
      "  epifuse bench \"gelu(x + bias)\" --with \"silu(x)\" 'x=bf16[8192,4096]' 'bias=f32[4096]'\n"
      "On a GPU the result is verified first, against the CPU device; CUDA events time launches that rotate through\n"
      "buffers larger than the L2 cache, in turn with device copies of the same number of bytes. On the CPU the wall\n"
      "clock does, with memcpy.\n" +
      operand_help());
  command->callback([options] { bench(*options); });
}

}  // namespace epifuse::tool
