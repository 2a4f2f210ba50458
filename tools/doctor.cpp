// `epifuse doctor`: what was found on this machine, whether it works, and what is missing.
#include <array>
#include <cmath>
#include <memory>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "report.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct Trial {
  Device device;
  std::string problem;  ///< empty: the chain ran and its result is right
};

// The proof that something can be run: a small chain, end to end.
Trial try_device(Device device) {
  constexpr std::array<float, 4> kInput = {-1, 0, 1, 2};
  constexpr std::array<float, 4> kExpected = {0, 0.5, 1.5, 2.5};
  try {
    Engine engine(device);
    const Array x = engine.array(DType::f32, {4}, kInput.data());
    const Array y = engine.empty(DType::f32, {4});
    engine.launch(Epilogue::parse("relu(x + 0.5)"), nullptr, y.view(), {x.view()});
    engine.synchronize();
    std::array<float, 4> result{};
    y.download(result.data());
    return {device, result == kExpected ? "" : "the chain 'relu(x + 0.5)' gave a wrong result"};
  } catch (const Error& error) {
    return {device, error.what()};
  }
}

std::vector<Trial> try_all(const SystemReport& report) {
  std::vector<Trial> trials = {try_device(Device::cpu())};
  for (const DeviceSummary& device : report.devices) trials.push_back(try_device(Device::cuda(device.index)));
  return trials;
}

Json to_json(const SystemReport& report, const std::vector<Trial>& trials) {
  const auto optional = [](const std::optional<std::string>& text) { return text ? Json(*text) : Json(nullptr); };
  Json devices = Json::array();
  for (const DeviceSummary& device : report.devices) devices.push_back(tool::to_json(device));
  Json tried = Json::array();
  for (const Trial& trial : trials) {
    tried.push_back({{"device", to_string(trial.device)},
                     {"works", trial.problem.empty()},
                     {"problem", trial.problem.empty() ? Json(nullptr) : Json(trial.problem)}});
  }
  return {{"version", report.version},
          {"nvrtc", optional(report.nvrtc)},
          {"nvrtc_architectures", report.nvrtc_architectures},
          {"driver", optional(report.driver)},
          {"devices", std::move(devices)},
          {"cache",
           {{"directory", optional(report.cache_directory)},
            {"entries", report.cache_entries},
            {"bytes", report.cache_bytes},
            {"limit", report.cache_limit}}},
          {"cpu_threads", report.cpu_threads},
          {"tried", std::move(tried)},
          {"problems", report.problems}};
}

void row(std::string_view name, std::string_view value) { print_text("{:<9} {}\n", name, value); }

void print_report(const SystemReport& report, const std::vector<Trial>& trials) {
  row("epifuse", report.version);
  row("cpu", fmt::format("{} threads", report.cpu_threads));
  row("driver", report.driver.value_or("none"));
  for (const DeviceSummary& device : report.devices) {
    const std::string bandwidth =
        device.peak_bandwidth > 0 ? fmt::format(", {}/s", format_bytes(device.peak_bandwidth)) : std::string();
    row(fmt::format("cuda:{}", device.index),
        fmt::format("{}, sm_{}, {} multiprocessors, {} memory{}, {} L2", device.name, device.architecture,
                    device.multiprocessors, format_bytes(static_cast<double>(device.memory_bytes)), bandwidth,
                    format_bytes(static_cast<double>(device.l2_bytes))));
  }
  row("nvrtc", report.nvrtc.value_or("none"));
  if (!report.nvrtc_architectures.empty()) {
    row("", fmt::format("compiles for sm_{}", fmt::join(report.nvrtc_architectures, " ")));
  }
  row("cache", report.cache_directory
                   ? fmt::format("{} ({} kernels, {} of at most {})", *report.cache_directory, report.cache_entries,
                                 format_bytes(static_cast<double>(report.cache_bytes)),
                                 format_bytes(static_cast<double>(report.cache_limit)))
                   : "off");
  for (const Trial& trial : trials) {
    row("runs on", fmt::format("{}: {}", to_string(trial.device), trial.problem.empty() ? "yes" : trial.problem));
  }
  if (report.problems.empty()) return;
  print_text("\n{}\n", heading("missing"));
  for (const std::string& problem : report.problems) print_text("  - {}\n", problem);
}

struct Findings {
  SystemReport report;
  std::vector<Trial> trials;
};

Findings examine() {
  const Progress progress("looking around");
  Findings findings{system_report(), {}};
  findings.trials = try_all(findings.report);
  return findings;
}

void doctor(bool json) {
  const auto [report, trials] = examine();
  if (json) {
    print_json(to_json(report, trials));
  } else {
    print_report(report, trials);
  }
  for (const Trial& trial : trials) {
    if (trial.problem.empty()) return;
  }
  throw Error(ErrorCode::device_failed, "no chain can be run on this machine");
}

}  // namespace

void add_doctor(CLI::App& app) {
  auto* command = app.add_subcommand("doctor", "Say what was found on this machine and what is missing");
  auto json = std::make_shared<bool>(false);
  add_switch(*command, "--json", *json, "Print JSON");
  command->footer("Examples:\n  epifuse doctor\n  epifuse doctor --json\nExit code 0 if a chain can be run at all.");
  command->callback([json] { doctor(*json); });
}

}  // namespace epifuse::tool
