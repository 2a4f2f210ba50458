// `epifuse dump`: what each stage makes of a chain, from the SSA list to machine code. Needs no GPU.
#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "disassembler.hpp"
#include "options.hpp"
#include "report.hpp"
#include "support.hpp"
#include "task.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

// The newest architecture that is common; stands in where there is no GPU.
constexpr int kUsualArchitecture = 90;

struct DumpOptions {
  TaskOptions task;
  std::vector<std::string> emit = {"plan,cuda"};
  std::optional<PlanTarget> target;  ///< else the first GPU
  double bandwidth = 0;              ///< 0: of the first GPU
  bool json = false;
};

// What the emitters share; each part is made when first needed.
class Subject {
 public:
  explicit Subject(const DumpOptions& options) : options_(options) {}

  const Epilogue& tail() {
    if (task_) return task_->tail;
    if (!tail_) tail_ = parse_chain(options_.task);
    return *tail_;
  }
  /// Null where the chain itself is dumped.
  const Gradient* gradient() {
    if (options_.task.gradient.empty()) return nullptr;
    if (task_) return &*task_->gradient;
    TaskOptions forward = options_.task;
    forward.gradient.clear();
    if (!gradient_) gradient_ = gradient_of(parse_chain(forward), options_.task);
    return &*gradient_;
  }
  /// Null before inspection(): until then nobody has asked for what needs shapes.
  const Task* task() const { return task_ ? &*task_ : nullptr; }
  const Inspection& inspection() {
    if (!inspection_) {
      task_ = make_task(options_.task);
      inspection_ = task_->inspect(target());
    }
    return *inspection_;
  }
  /// The GPU that --arch describes; what it leaves open is that of the GPU at hand if it is of the architecture, else a
  /// usual one's.
  PlanTarget target() {
    PlanTarget found{.architecture = architecture()};
    if (options_.target && options_.target->multiprocessors > 0) {
      found = *options_.target;
    } else if (gpu() && gpu()->architecture == architecture()) {
      found.multiprocessors = gpu()->multiprocessors;
      found.l2_bytes = static_cast<std::int64_t>(gpu()->l2_bytes);
      found.bandwidth = gpu()->peak_bandwidth;
    }
    if (options_.bandwidth > 0) found.bandwidth = options_.bandwidth;
    return found;
  }
  int architecture() {
    if (options_.target) return options_.target->architecture;
    return gpu() ? gpu()->architecture : kUsualArchitecture;
  }
  double bandwidth() { return options_.bandwidth > 0 ? options_.bandwidth : gpu() ? gpu()->peak_bandwidth : 0; }
  /// All 0 without NVRTC: the plan is worth printing all the same.
  KernelResources resources() {
    const int target = architecture();
    try {
      return inspection().resources(target);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::no_compiler) return {};
      throw;
    }
  }

 private:
  const DeviceSummary* gpu() {
    if (!report_) report_ = system_report();
    return report_->devices.empty() ? nullptr : &report_->devices.front();
  }

  const DumpOptions& options_;
  std::optional<Epilogue> tail_;
  std::optional<Gradient> gradient_;
  std::optional<Task> task_;
  std::optional<Inspection> inspection_;
  std::optional<SystemReport> report_;
};

Json plan_json(Subject& subject) {
  const PlanSummary& plan = subject.inspection().plan();
  Json json = tool::to_json(plan);
  const KernelResources used = subject.resources();
  const auto known = [&](int number) { return used.registers > 0 ? Json(number) : Json(nullptr); };
  json["architecture"] = subject.architecture();
  json["registers"] = known(used.registers);
  json["shared_bytes"] = known(used.shared_bytes);
  json["spilled_bytes"] = known(used.spilled_bytes);
  const double bandwidth = subject.bandwidth();
  const auto bytes = static_cast<double>(plan.bytes_read + plan.bytes_written);
  json["bandwidth"] = bandwidth > 0 ? Json(bandwidth) : Json(nullptr);
  json["seconds_at_bandwidth"] = bandwidth > 0 ? Json(bytes / bandwidth) : Json(nullptr);
  return json;
}

std::string_view name_of(GradientSource source) {
  static constexpr std::array<std::string_view, 5> kNames = {"gradient", "result", "saved", "operand", "shape"};
  return kNames[static_cast<std::size_t>(source)];
}

std::string what_it_is(const Gradient& gradient, const GradientOperand& operand) {
  const std::vector<std::string> results = gradient.forward.results();
  switch (operand.source) {
    case GradientSource::gradient:
      return fmt::format("the gradient of {}", results[operand.index]);
    case GradientSource::result:
      return "a result of the forward pass";
    case GradientSource::saved:
      return "saved by the forward pass";
    case GradientSource::operand:
      return "an operand of the forward pass";
    case GradientSource::shape:
      return "an operand of the forward pass, for its shape alone";
  }
  return {};
}

// What the forward pass computes, and where the backward pass gets its operands from.
std::string gradient_text(const Gradient& gradient) {
  std::string text = fmt::format("forward   {}\nbackward  {}\n", gradient.forward.str(), gradient.backward.str());
  std::size_t width = 0;
  for (const GradientOperand& operand : gradient.operands) width = std::max(width, operand.name.size());
  for (const GradientOperand& operand : gradient.operands)
    text += fmt::format("  {:<{}}  {}\n", operand.name, width, what_it_is(gradient, operand));
  return text;
}

// With types and shapes where the backward pass was bound to operands.
Json gradient_json(const Gradient& gradient, const Task* bound) {
  Json operands = Json::array();
  for (std::size_t i = 0; i < gradient.operands.size(); ++i) {
    const GradientOperand& operand = gradient.operands[i];
    operands.push_back({{"name", operand.name}, {"source", name_of(operand.source)}, {"index", operand.index}});
    if (bound == nullptr) continue;
    const TensorInfo& info = bound->inputs[i].info;
    operands.back()["dtype"] = to_string(info.dtype);
    operands.back()["shape"] = tool::to_json(info.shape);
  }
  return {{"forward", gradient.forward.str()},
          {"backward", gradient.backward.str()},
          {"saved", gradient.saved},
          {"operands", operands}};
}

struct Emitter {
  std::string_view name;
  std::string_view help;
  std::string (*text)(Subject&);
};
constexpr std::array<Emitter, 6> kEmitters = {{
    {"ir", "the chain as a list of values", [](Subject& s) { return ir_text(s.tail()); }},
    {"plan", "how the kernel reads, computes and writes, and why",
     [](Subject& s) { return s.inspection().plan_text(s.bandwidth(), s.resources()); }},
    {"cuda", "the whole CUDA source", [](Subject& s) { return s.inspection().cuda(); }},
    {"ptx", "NVRTC's output", [](Subject& s) { return s.inspection().ptx(s.architecture()); }},
    {"sass", "machine code", [](Subject& s) { return disassemble(s.inspection().cubin(s.architecture())); }},
    {"dot", "the chain as a Graphviz graph", [](Subject& s) { return ir_dot(s.tail()); }},
}};

const Emitter& emitter(const std::string& name) {
  const auto it = std::ranges::find(kEmitters, name, &Emitter::name);
  if (it != kEmitters.end()) return *it;
  refuse("--emit: found '{}'; expected ir, plan, cuda, ptx, sass or dot", name);
}

// Names with commas between them, of all occurrences of --emit.
std::vector<const Emitter*> emitters_of(const std::vector<std::string>& lists) {
  std::vector<const Emitter*> emitters;
  for (const std::string& list : lists) {
    for (std::size_t at = 0; at <= list.size();) {
      const std::size_t end = std::min(list.find(',', at), list.size());
      emitters.push_back(&emitter(list.substr(at, end - at)));
      at = end + 1;
    }
  }
  return emitters;
}

// What is printed: the progress line is gone by then.
std::string dump(const DumpOptions& options) {
  const std::vector<const Emitter*> emitters = emitters_of(options.emit);
  const Progress progress("planning and compiling");
  Subject subject(options);
  // Operands that are given are checked, whether or not what is asked for needs them.
  const bool needs_shapes =
      std::ranges::any_of(emitters, [](const Emitter* e) { return e->name != "ir" && e->name != "dot"; });
  if (needs_shapes || !options.task.values.empty()) subject.inspection();

  Json json;
  std::string text = subject.gradient() == nullptr || options.json ? "" : gradient_text(*subject.gradient());
  if (subject.gradient() != nullptr && options.json)
    json["gradient"] = gradient_json(*subject.gradient(), subject.task());
  for (const Emitter* e : emitters) {
    if (options.json) {
      const bool is_data = e->name == "plan";
      json[std::string(e->name)] = is_data ? plan_json(subject) : Json(e->text(subject));
      continue;
    }
    if (emitters.size() > 1) text += heading(fmt::format("// ---- {}", e->name)) + "\n";
    text += e->text(subject);
    if (!text.ends_with('\n')) text += '\n';
  }
  return options.json ? json_text(json) : text;
}

}  // namespace

void add_dump(CLI::App& app) {
  auto* command = app.add_subcommand("dump", "Show what each stage makes of a chain: IR, plan, CUDA, PTX, SASS");
  auto options = std::make_shared<DumpOptions>();
  add_task_options(*command, options->task);
  add_gradient(*command, options->task);
  std::string stages;
  for (const Emitter& e : kEmitters) stages += fmt::format("  {:<6} {}\n", e.name, e.help);
  command->add_option("--emit", options->emit, "Stages, with commas between them; by default plan,cuda")
      ->allow_extra_args(false)
      ->type_name("STAGE[,STAGE]");
  command
      ->add_option_function<std::string>(
          "--arch", [options](const std::string& text) { options->target = parse_target(text); },
          "sm_90 or 90, or with the multiprocessors sm_90:114; by default the first GPU, else sm_90")
      ->type_name("ARCH");
  add_number(*command, "--bandwidth", options->bandwidth, 1, 1e18,
             "Bytes per second of the GPU's memory; by default the first GPU's");
  add_switch(*command, "--json", options->json, "Print JSON: the plan as data, the others as text");
  command->footer(
      "Examples:\n"
      "  epifuse dump \"sigmoid((x + bias) * scale)\" 'x=f16[128,32,254,254]' 'bias=f32[32,1,1]' 'scale=f32[32,1,1]' "
      "--emit cuda\n"
      "  epifuse dump \"gelu(x + bias)\" 'x=bf16[8192,4096]' 'bias=f32[4096]' --emit plan --bandwidth 3.35e12\n"
      "  epifuse dump \"relu(x + bias)\" --emit dot | dot -Tsvg > chain.svg\n"
      "  epifuse dump \"relu(x + bias)\" 'x=f16[8,16]' 'bias=f16[16]' --emit ptx,sass --arch sm_90\n"
      "  epifuse dump \"layer_norm(x, w, b)\" 'x=bf16[8192,4096]' 'w=bf16[4096]' 'b=bf16[4096]' --gradient x "
      "--emit plan\n"
      "  epifuse dump \"gelu(linear(x, w, b))\" 'x=bf16[8192,4096]' 'w=bf16[4096,4096]' 'b=bf16[4096]' --emit plan "
      "--arch sm_90\n"
      "Stages:\n" +
      stages + operand_help());
  command->callback([options] { write_output(dump(*options)); });
}

}  // namespace epifuse::tool
