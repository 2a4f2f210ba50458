// What the C++ benchmarks share: their command line, medians, and the format of their records, which is that of
// record.py.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <stdexcept>
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

inline Json or_null(const char* text) { return text == nullptr || *text == '\0' ? Json(nullptr) : Json(text); }

/// The first line of what a command prints; null where it prints nothing.
inline Json first_line_of(const char* command) {
  std::FILE* const output = ::popen(command, "r");
  if (output == nullptr) return nullptr;
  char line[200] = {};
  if (std::fgets(line, sizeof line, output) == nullptr) line[0] = '\0';
  ::pclose(output);
  line[std::strcspn(line, "\n")] = '\0';
  return or_null(line);
}

/// A record file of this run, without its records: where, when, and of what it is. `device`: null for the first GPU.
inline Json document(const std::string& suite, const Json& device, const std::string& command, const Json& settings) {
  const epifuse::SystemReport system = epifuse::system_report();
  std::string cpu;
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; cpu.empty() && std::getline(info, line);) {
    if (line.starts_with("model name")) cpu = line.substr(line.find(':') + 2);
  }
  char date[sizeof "2026-01-01T00:00:00Z"] = {};
  const std::time_t now = std::time(nullptr);
  std::strftime(date, sizeof date, "%FT%TZ", std::gmtime(&now));
  const bool on_gpu = device.is_null() && !system.devices.empty();
  Json all = {{"cpu", cpu}, {"cpu_threads", system.cpu_threads}};
  all.update(settings);
  return {
      {"suite", suite},
      {"device", on_gpu ? Json(system.devices.front().name) : device},
      {"driver", on_gpu ? first_line_of("nvidia-smi --query-gpu=driver_version --format=csv,noheader -i 0 2>/dev/null")
                        : Json(nullptr)},
      {"commit", or_null(std::getenv("EPIFUSE_COMMIT"))},
      {"date", date},
      {"versions",
       {{"epifuse", system.version},
        {"cuda_driver", on_gpu && system.driver ? Json(*system.driver) : Json(nullptr)},
        {"nvrtc", system.nvrtc ? Json(*system.nvrtc) : Json(nullptr)}}},
      {"command", command},
      {"settings", all},
      {"records", Json::array()}};
}

/// A command line as it was given, but for the folder of the program.
inline std::string command_of(int argc, char** argv) {
  std::string text = argv[0];
  text.erase(0, text.rfind('/') + 1);
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

inline void write(const std::string& path, const Json& record) {
  if (path.empty()) return;
  std::ofstream file(path);
  file << record.dump(1) << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + path);
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
      command_ = command_of(argc, argv);
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
  /// The file that --json names, of that suite, without its records.
  Json document(const std::string& suite, const Json& settings) const {
    return bench::document(suite, device == "cuda" ? Json(nullptr) : Json("none (stub driver)"), command_, settings);
  }
  void write(const Json& record) const { bench::write(json, record); }

  CLI::App app;
  std::string device = epifuse::Device::automatic() == epifuse::Device::cpu() ? "stub" : "cuda";
  std::string json;

 private:
  std::string command_;
};

}  // namespace bench
