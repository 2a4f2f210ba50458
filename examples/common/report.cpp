// The table's columns and the record's keys, each in one place.
#include "common/report.hpp"

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include <nlohmann/json.hpp>

#include "common/gpu.hpp"

namespace examples {
namespace {

// The keys stand in the order of the record's fields.
using Json = nlohmann::ordered_json;

/// Six digits say all that a measurement knows.
double rounded(double value) {
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.6g", value);
  return std::strtod(digits, nullptr);
}

/// A number of the table; one that was not measured is a dash.
std::string figure(double value, int decimals = 4) {
  if (value <= 0) return "-";
  char digits[40];
  std::snprintf(digits, sizeof digits, "%.*f", decimals, value);
  return digits;
}

}  // namespace

std::string to_json(const Record& record) {
  Json json{{"example", record.example},
            {"producer", record.producer},
            {"chain", record.chain},
            {"dtype", record.dtype},
            {"layout", record.layout},
            {"shape", record.shape},
            {"producer_ms", rounded(record.producer_ms)},
            {"tail_ms", rounded(record.tail_ms)},
            {"copy_ms", rounded(record.copy_ms)},
            {"ratio", rounded(record.ratio())},
            {"pair_ms", rounded(record.pair_ms)},
            {"together_ms", rounded(record.together_ms)},
            {"gbps", rounded(record.gbps())},
            {"bytes", record.bytes},
            {"max_error", rounded(record.max_error)},
            {"samples", record.samples},
            {"producer_max_error", rounded(record.producer_max_error)},
            {"verified", record.verified},
            {"device", record.device},
            {"driver", record.driver},
            {"cuda_runtime", record.cuda_runtime},
            {"library", record.library},
            {"epifuse", record.epifuse}};
  if (!record.consumer.empty()) {
    json["consumer"] = record.consumer;
    json["consumer_ms"] = rounded(record.consumer_ms);
    json["all_ms"] = rounded(record.all_ms);
    json["consumer_max_error"] = rounded(record.consumer_max_error);
  }
  return json.dump();
}

void append_json(const std::filesystem::path& file, const Record& record) {
  std::ofstream out(file, std::ios::app);
  out << to_json(record) << '\n';
  if (!out.flush()) throw Failure("cannot append to " + file.string() + "; does its directory exist?");
}

void print_heading(const std::string& title, const std::string& machine) {
  std::printf("%s\n%s\n", title.c_str(), machine.c_str());
  std::printf("  %-23s %-9s %11s %9s %9s %6s %9s %9s %8s %10s  %s\n", "type", "layout", "producer ms", "tail ms",
              "copy ms", "ratio", "pair ms", "one ms", "GB/s", "max error", "verified");
}

void print_row(const Record& record) {
  const bool timed = record.tail_ms > 0;
  std::printf("  %-23s %-9s %11s %9s %9s %6s %9s %9s %8s %10.2e  %s\n", record.dtype.c_str(), record.layout.c_str(),
              figure(record.producer_ms).c_str(), figure(record.tail_ms).c_str(), figure(record.copy_ms).c_str(),
              figure(timed ? record.ratio() : 0, 3).c_str(), figure(record.pair_ms).c_str(),
              figure(record.together_ms).c_str(), figure(timed ? record.gbps() : 0, 0).c_str(), record.max_error,
              record.verified ? "yes" : "NO");
  if (record.all_ms > 0) {
    std::printf("  then %s: %.4f ms; all three %.4f ms\n", record.consumer.c_str(), record.consumer_ms, record.all_ms);
  }
  std::fflush(stdout);
}

}  // namespace examples
