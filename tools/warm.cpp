// `epifuse warm`: compiles the kernels of a list of launches on all cores, so that the processes that need them find
// them on disk.
#include <memory>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "launch_list.hpp"
#include "options.hpp"
#include "report.hpp"
#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct WarmOptions {
  std::string list;
  std::string device = "auto";
  std::vector<PlanTarget> targets;
  std::uint64_t threads = 0;
  bool json = false;
};

// Where there is no GPU, "auto" checks the launches for the GPU that plans are made for: no kernel is compiled.
void plan(LaunchList& launches) {
  for (std::size_t i = 0; i < launches.list().size(); ++i) {
    const Preparation& launch = launches.list()[i];
    try {
      const Inspection inspection(launch.tail, launch.outputs, launch.inputs);
    } catch (const Error& error) {
      launches.fail(i, error);
    }
  }
}

void report(const LaunchList& launches, const Engine& engine, const WarmOptions& options) {
  const EngineStats stats = engine.stats();
  const bool compiles = engine.device().kind == Device::Kind::cuda;
  if (options.json) {
    print_json({{"device", to_string(engine.device())},
                {"launches", launches.count()},
                {"failed", launches.failed()},
                {"kernels", compiles ? stats.kernels : 0},
                {"compiled", stats.compiles},
                {"from_disk", stats.disk_hits},
                {"compile_ms", stats.compile_ms}});
  } else if (compiles) {
    print_text("{} launches on {}: {} kernels, {} compiled in {}, {} from disk\n", launches.count(),
               to_string(engine.device()), stats.kernels, stats.compiles, format_time(stats.compile_ms / 1e3),
               stats.disk_hits);
  } else {
    print_text(
        "{} launches checked, no kernel compiled: {}\n", launches.count(),
        options.device == "auto" ? "there is no usable GPU (`epifuse doctor` says why)" : "the CPU device has none");
  }
  flush_output();
}

void report_precompiled(const LaunchList& launches, const PrecompilerStats& stats, bool json) {
  if (json) {
    print_json({{"device", nullptr},
                {"launches", launches.count()},
                {"failed", launches.failed()},
                {"kernels", stats.kernels},
                {"compiled", stats.compiles},
                {"from_disk", stats.disk_hits},
                {"compile_ms", stats.compile_ms}});
  } else {
    print_text("{} launches: {} kernels, {} compiled in {}, {} from disk\n", launches.count(), stats.kernels,
               stats.compiles, format_time(stats.compile_ms / 1e3), stats.disk_hits);
  }
  flush_output();
}

void warm(const WarmOptions& options) {
  LaunchList launches(options.list);
  if (!options.targets.empty()) {
    Precompiler precompiler;
    launches.precompile(precompiler, options.targets, static_cast<unsigned>(options.threads));
    report_precompiled(launches, precompiler.stats(), options.json);
    launches.check();
    return;
  }
  Engine engine(chosen_device(options.device));
  if (options.device == "auto" && engine.device().kind == Device::Kind::cpu) {
    plan(launches);
  } else {
    launches.prepare(
        [&](const LaunchList::Progress& progress) {
          engine.prepare(launches.list(), progress, static_cast<unsigned>(options.threads));
        },
        [](std::size_t i) { return i; });
  }
  report(launches, engine, options);
  launches.check();
}

}  // namespace

void add_warm(CLI::App& app) {
  auto* command = app.add_subcommand("warm", "Compile the kernels of a list of launches, for later processes");
  auto options = std::make_shared<WarmOptions>();
  command->add_option("list", options->list, "A file with one launch per line; - reads standard input")->required();
  add_device(*command, options->device);
  add_targets(*command, options->targets, "For such GPUs, which need not be here: sm_90,sm_100");
  add_threads(*command, options->threads);
  add_switch(*command, "--json", options->json, "Print JSON");
  command->footer(
      "A line is what 'epifuse dump' takes: the chain in quotes, its operands, --out, --inplace. # begins a comment.\n"
      "EPIFUSE_RECORD=FILE makes a process write its launches down as such lines.\n"
      "A line that fails is named, and the others are prepared all the same.\n"
      "Examples:\n"
      "  echo '\"relu(x + bias)\" x=f16[8,16] bias=f32[16]' | epifuse warm -\n"
      "  epifuse warm launches.txt --arch sm_90,sm_100\n");
  command->callback([options] { warm(*options); });
}

}  // namespace epifuse::tool
