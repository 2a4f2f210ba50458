// What the C++ benchmarks share: their command line, medians, and the head of their JSON (device, driver, versions, commit, date).
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <epifuse/epifuse.hpp>
#include <nlohmann/json.hpp>

namespace bench {

using Json = nlohmann::ordered_json;

/// The value below which that share of the samples lies; 0.5: the median.
inline double quantile(std::vector<double> samples, double share) {
  std::ranges::sort(samples);
  const auto last = static_cast<double>(samples.size() - 1);
  return samples[static_cast<std::size_t>(share * last + 0.5)];
}
inline double median(const std::vector<double>& samples) { return quantile(samples, 0.5); }

/// Where and when this runs.
inline Json head(const std::string& benchmark, bool on_gpu) {
  const epifuse::SystemReport system = epifuse::system_report();
  std::string cpu;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; cpu.empty() && std::getline(info, line);) {
    if (line.starts_with("model name")) cpu = line.substr(line.find(':') + 2);
  }
  char date[sizeof "2026-01-01T00:00:00Z"] = {};
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
  const char* const commit = std::getenv("EPIFUSE_COMMIT");
  return {
      {"benchmark", benchmark},
      {"device", on_gpu && !system.devices.empty() ? Json(system.devices.front().name) : Json("none (stub driver)")},
      {"driver", on_gpu && system.driver ? Json(*system.driver) : Json(nullptr)},
      {"nvrtc", system.nvrtc ? Json(*system.nvrtc) : Json(nullptr)},
      {"epifuse", system.version},
      {"commit", commit == nullptr ? Json(nullptr) : Json(commit)},
      {"date", date},
      {"cpu", cpu},
      {"cpu_threads", system.cpu_threads}};
}

/// A benchmark's command line, and its run from there to the exit code.
class Program {
 public:
  explicit Program(const char* what) : app(what) {
    app.add_option("--device", device,
                   "cuda; without a GPU stub, or busy: a stub that leaves the caches as a driver does")
        ->check(CLI::IsMember({"cuda", "stub", "busy"}));
    app.add_option("--json", json, "write the figures there");
  }

  /// 77, which ctest takes for skipped, where there is no NVRTC.
  int run(int argc, char** argv, const std::function<int()>& body) {
    try {
      app.parse(argc, argv);
      return body();
    } catch (const CLI::ParseError& error) {
      return app.exit(error);
    } catch (const epifuse::Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return error.code() == epifuse::ErrorCode::no_compiler ? 77 : 1;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return 1;
    }
  }
  void write(const Json& record) const {
    if (json.empty()) return;
    std::ofstream file(json);
    file << record.dump(1) << '\n';
    if (!file.flush()) throw std::runtime_error("cannot write " + json);
  }

  CLI::App app;
  std::string device = epifuse::Device::automatic() == epifuse::Device::cpu() ? "stub" : "cuda";
  std::string json;
};

}  // namespace bench
