// Parses the section markers of the embedded templates once, and orders sections by need.
#include "codegen/prelude.hpp"

#include <array>
#include <map>
#include <stdexcept>
#include <utility>

#include "base/text.hpp"
#include "templates/templates.hpp"

namespace epifuse::codegen {
namespace {

constexpr auto kFiles = std::to_array<std::string_view>({
    "types.cuh",         "integers.cuh",    "arithmetic.cuh",   "exponentials.cuh",
    "activations.cuh",   "index.cuh",       "access.cuh",       "pointwise.cuh",
    "accumulate.cuh",    "packet.cuh",      "places.cuh",       "prefetch.cuh",
    "reduction.cuh",     "segments.cuh",    "shared_rows.cuh",  "transposed_store.cuh",
    "transpose.cuh",     "fast.cuh",        "column_sums.cuh",  "philox.cuh",
    "random.cuh",        "positions.cuh",   "asynchronous.cuh", "producer.cuh",
    "gemm.cuh",          "bounded.cuh",     "packed.cuh",       "gathered.cuh",
    "boxes.cuh",         "synchronous.cuh", "warp_boxes.cuh",   "warp_copies.cuh",
    "warp_gemm.cuh",     "column_runs.cuh", "window_tile.cuh",  "whole_rows.cuh",
    "factor_scales.cuh",
});
constexpr std::string_view kBegin = "//@section ";
constexpr std::string_view kEnd = "//@end\n";

// "gelu : bits, exp_parts" and the lines up to the end marker.
Section parse_section(std::string_view header, std::string_view body) {
  Section section{base::trim(header.substr(0, header.find(':'))), {}, body};
  if (const auto colon = header.find(':'); colon != header.npos) {
    std::string_view list = header.substr(colon + 1);
    while (!list.empty()) {
      const auto comma = std::min(list.find(','), list.size());
      section.needs.push_back(base::trim(list.substr(0, comma)));
      list.remove_prefix(std::min(comma + 1, list.size()));
    }
  }
  return section;
}

std::map<std::string_view, Section> parse_all() {
  std::map<std::string_view, Section> sections;
  for (const std::string_view file : kFiles) {
    std::string_view text = templates::text(file);
    for (auto at = text.find(kBegin); at != text.npos; at = text.find(kBegin)) {
      text.remove_prefix(at + kBegin.size());
      const auto line = text.find('\n');
      const auto end = text.find(kEnd);
      const Section section = parse_section(text.substr(0, line), text.substr(line + 1, end - line - 1));
      sections.emplace(section.name, section);
      text.remove_prefix(end + kEnd.size());
    }
  }
  return sections;
}

const Section& find(std::string_view name) {
  static const auto& sections = *new std::map<std::string_view, Section>(parse_all());
  const auto it = sections.find(name);
  if (it == sections.end()) throw std::logic_error("templates have no section '" + std::string(name) + "'");
  return it->second;
}

}  // namespace

void Prelude::require(std::string_view name) {
  const Section& section = find(name);
  if (!seen_.insert(section.name).second) return;
  for (const std::string_view need : section.needs) require(need);
  text_ += section.text;
  text_ += '\n';
}

std::string Prelude::take() { return std::exchange(text_, {}); }

}  // namespace epifuse::codegen
