// `epifuse run`: computes a chain once, on files or random data, and writes or describes the results.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <epifuse/epifuse.hpp>

#include "backward.hpp"
#include "commands.hpp"
#include "execute.hpp"
#include "npy.hpp"
#include "options.hpp"
#include "report.hpp"
#include "support.hpp"
#include "task.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct RunOptions {
  TaskOptions task;
  std::vector<std::string> files;  ///< -o
  std::string device = "auto";
  std::uint64_t seed = 0;
  bool json = false;
};

using Targets = std::map<std::size_t, std::filesystem::path>;

// "y.npy" goes to the next result in order, "mask=m.npy" to the result of that name.
Targets match_files(const std::vector<std::string>& files, const std::vector<std::string>& names) {
  Targets targets;
  std::set<std::filesystem::path> paths;
  std::size_t next = 0;
  for (const std::string& text : files) {
    Cursor cursor(text);
    const std::string name(cursor.word());
    const bool named = !name.empty() && cursor.accept('=');
    std::size_t result = next;
    if (named) {
      result = static_cast<std::size_t>(std::ranges::find(names, name) - names.begin());
      if (result == names.size()) {
        refuse("-o {}: no result is called '{}'; the results are {} (write ./{} for a file of that name)", text, name,
               fmt::join(names, ", "), text);
      }
    } else if (next++ >= names.size()) {
      refuse("-o {}: one file too many; the chain has {} result{} ({})", text, names.size(),
             names.size() == 1 ? "" : "s", fmt::join(names, ", "));
    }
    const std::filesystem::path path = named ? std::string(cursor.rest()) : text;
    check_target(path);
    if (!paths.insert(std::filesystem::absolute(path).lexically_normal()).second) {
      refuse("-o {}: this file is named twice", text);
    }
    if (!targets.emplace(result, path).second) refuse("-o {}: result '{}' already has a file", text, names[result]);
  }
  return targets;
}

// All are written before the first gets its name.
void write_files(const Task& task, const HostData& data, const Targets& targets) {
  std::vector<StagedFile> staged;
  for (const auto& [i, path] : targets) staged.push_back(stage_npy(path, result_of(task, data, i).view()));
  for (StagedFile& file : staged) file.commit();
}

std::string results_text(const Task& task, const HostData& data, const Targets& targets, Device device) {
  std::string text = fmt::format("{} on {}\n", task.chain, to_string(device));
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    const TensorInfo& info = task.outputs[i];
    const std::string title = heading(fmt::format("{}: {}", info.name, describe(info)));
    if (const auto file = targets.find(i); file != targets.end()) {
      text += fmt::format("{} -> {}{}\n", title, file->second.string(), has_npy_type(info.dtype) ? "" : " (as f32)");
    } else {
      text += fmt::format("{}\n  {}\n", title, to_string(statistics_of(result_of(task, data, i).view())));
    }
  }
  return text;
}

Json results_json(const Task& task, const HostData& data, const Targets& targets, Device device) {
  Json results = Json::array();
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    Json result = tool::to_json(task.outputs[i]);
    result.update(tool::to_json(statistics_of(result_of(task, data, i).view())));
    const auto file = targets.find(i);
    result["file"] = file == targets.end() ? Json(nullptr) : Json(file->second.string());
    results.push_back(std::move(result));
  }
  return {{"chain", task.chain}, {"device", to_string(device)}, {"results", std::move(results)}};
}

void run(const RunOptions& options) {
  std::optional<BackwardTask> backward;
  if (!options.task.gradient.empty()) backward = make_backward_task(options.task);
  const Task task = backward ? backward->task : make_task(options.task);
  const Targets targets = match_files(options.files, task.tail.results());
  const Device device = chosen_device(options.device);
  // What does not fit is refused before anything is read, allocated or written. The CPU device also runs chains with
  // reductions that cannot be one kernel, which a plan would refuse; their shapes were checked with the results'.
  if (device.kind == Device::Kind::cuda || task.tail.is_elementwise()) task.inspect();

  const HostData data = [&] {
    Progress progress("starting the device");
    Engine engine(device);
    progress.stage("loading operands");
    HostData loaded = backward ? load_backward(engine, *backward, options.seed) : load_all(task, options.seed);
    progress.stage(fmt::format("computing on {}", to_string(device)));
    execute(engine, task, loaded);
    progress.stage("writing results");
    write_files(task, loaded, targets);
    return loaded;
  }();
  const std::string report =
      options.json ? json_text(results_json(task, data, targets, device)) : results_text(task, data, targets, device);
  // Standard output is for the result where one goes there.
  const bool is_taken =
      std::ranges::any_of(targets, [](const auto& target) { return target.second == kStandardStream; });
  is_taken ? write_message(report) : write_output(report);
}

}  // namespace

void add_run(CLI::App& app) {
  auto* command = app.add_subcommand("run", "Compute a chain on .npy files or random data");
  auto options = std::make_shared<RunOptions>();
  add_task_options(*command, options->task);
  command
      ->add_option("-o,--output", options->files,
                   "Write a result to FILE.npy; repeat in order, or NAME=FILE.npy; - is standard output")
      ->allow_extra_args(false)
      ->type_name("FILE");
  add_in_place(*command, options->task);
  add_gradient(*command, options->task);
  add_device(*command, options->device);
  add_seed(*command, options->seed);
  add_switch(*command, "--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  epifuse run \"(minimum(x, 0.5) + bias) * 2\" x=@conv.npy bias=@bias.npy -o y.npy\n"
      "  epifuse run \"gelu(x * alpha)\" x=bf16@x.npy alpha=0.5 -o y.npy\n"
      "  epifuse run \"t = x + bias; return relu(t), t > 0\" 'x=f16[8,16]' 'bias=f16[16]' -o y.npy -o mask.npy\n"
      "  epifuse run \"relu(x)\" x=@- -o - < x.npy > y.npy\n"
      "  epifuse run \"relu(x * scale)\" 'x=i32[64,32]' 'scale=f32[32]' --out i8 --device cpu --json\n"
      "  epifuse run \"dropout(gelu(x + b), 0.1, s, 0)\" x=@x.npy b=@b.npy s=42 dout=@dout.npy --gradient x,b -o "
      "dx.npy -o db.npy\n" +
      operand_help() +
      "Without -o, run prints each result's range, mean and first elements. Types that NumPy lacks (bf16, fp8)\n"
      "are written as f32. With -o - the report goes to standard error.");
  command->callback([options] { run(*options); });
}

}  // namespace epifuse::tool
