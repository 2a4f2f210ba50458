// Line by line: constants are learnt from lines that stay, so that a part may define what a later condition asks.
#include "codegen/select.hpp"

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "codegen/lean/constants.hpp"

namespace epifuse::codegen {
namespace {

// "constexpr int kName = …;" that can be evaluated.
void learn(std::string_view line, Constants& constants) {
  for (const std::string_view type : {"constexpr int ", "constexpr bool "}) {
    if (!line.starts_with(type)) continue;
    const auto equals = line.find(" = ");
    const auto end = line.find(';');
    if (equals > end || end == line.npos) return;
    const auto value = value_of(line.substr(equals + 3, end - equals - 3), constants);
    if (value) constants.insert_or_assign(std::string(line.substr(type.size(), equals - type.size())), *value);
  }
}

[[noreturn]] void refuse(std::string_view mark) {
  throw std::logic_error("a template's mark cannot be resolved: " + std::string(mark));
}

bool holds(std::string_view condition, const Constants& constants) {
  const auto value = value_of(condition, constants);
  if (!value) refuse(condition);
  return *value != 0;
}

// A line with marks within it.
void add_marked(std::string_view line, const Constants& constants, std::string& out) {
  constexpr std::string_view kIf = "/*@if ", kClose = "*/", kEndif = "/*@endif*/";
  for (auto at = line.find(kIf); at != line.npos; at = line.find(kIf)) {
    const auto close = line.find(kClose, at);
    const auto end = line.find(kEndif, at);
    if (end == line.npos) refuse(line);
    out += line.substr(0, at);
    const auto begin = close + kClose.size();
    if (holds(line.substr(at + kIf.size(), close - at - kIf.size()), constants)) out += line.substr(begin, end - begin);
    line.remove_prefix(end + kEndif.size());
  }
  out += line;
}

}  // namespace

std::string selected(std::string_view text) {
  struct Branch {
    bool around;  // what is around it stays
    bool stays;
  };
  std::vector<Branch> branches;
  Constants constants;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end);
    const std::string_view mark = base::trim(line.substr(0, line.find('\n')));
    const bool stays = branches.empty() || branches.back().stays;
    if (mark.starts_with("//@if ")) {
      branches.push_back({stays, stays && holds(mark.substr(6), constants)});
    } else if (mark == "//@else") {
      if (branches.empty()) refuse(mark);
      branches.back().stays = branches.back().around && !branches.back().stays;
    } else if (mark == "//@endif") {
      if (branches.empty()) refuse(mark);
      branches.pop_back();
    } else if (stays) {
      learn(line, constants);
      add_marked(line, constants, out);
    }
  }
  if (!branches.empty()) refuse("an //@if without its //@endif");
  return out;
}

}  // namespace epifuse::codegen
