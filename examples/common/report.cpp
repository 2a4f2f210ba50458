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

}  // namespace

std::string to_json(const Record& record) {
  return Json{{"example", record.example},
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
              {"epifuse", record.epifuse}}
      .dump();
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
  char together[32] = "-";
  if (record.together_ms > 0) std::snprintf(together, sizeof together, "%.4f", record.together_ms);
  std::printf("  %-23s %-9s %11.4f %9.4f %9.4f %6.3f %9.4f %9s %8.0f %10.2e  %s\n", record.dtype.c_str(),
              record.layout.c_str(), record.producer_ms, record.tail_ms, record.copy_ms, record.ratio(), record.pair_ms,
              together, record.gbps(), record.max_error, record.verified ? "yes" : "NO");
  std::fflush(stdout);
}

}  // namespace examples
