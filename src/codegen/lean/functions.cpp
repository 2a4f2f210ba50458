// A name that two functions have, or that stands anywhere without a call, is nobody's: its entry says so.
#include "codegen/lean/functions.hpp"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

namespace epifuse::codegen::lean {

std::vector<Function> functions_of(const std::vector<Unit>& units) {
  std::vector<Function> functions;
  std::unordered_map<std::string_view, std::size_t> by_name;
  std::set<std::pair<std::size_t, std::size_t>> heads;
  for (std::size_t u = 0; u < units.size(); ++u) {
    for (const Head& head : units[u].heads()) {
      const Source& source = units[u].source();
      const auto [it, is_new] = by_name.try_emplace(source[head.name].text, functions.size());
      if (is_new) functions.push_back({source[head.name].text, u, head});
      // In an #if it may have another definition elsewhere: the model of the tests.
      const bool is_plain = source.is_word(head.name) && head.body < source.size() && head.open == head.name + 1 &&
                            units[u].guard.empty();
      if (!is_new || !is_plain) functions[it->second].is_one = false;
      heads.emplace(u, head.name);
    }
  }
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Source& source = units[u].source();
    const bool has_branches = source.size() > 0 && source[0].kind == Kind::directive;
    for (std::size_t i = 0; i < source.size(); ++i) {
      const auto it = source.is_word(i) ? by_name.find(source[i].text) : by_name.end();
      if (it == by_name.end() || heads.contains({u, i})) continue;
      if (source.call_of(i) == source.size() || has_branches) functions[it->second].is_one = false;
      functions[it->second].calls.push_back({u, i});
    }
  }
  return functions;
}

void apply(Edits edits, std::vector<Unit>& units) {
  for (auto& [unit, list] : edits) {
    std::ranges::sort(list, {}, &Edit::begin);
    units[unit].set_text(edited(units[unit].text(), list));
  }
}

void drop_item(const Source& source, std::size_t open, std::size_t k, std::vector<Edit>& edits) {
  const auto items = source.items(open);
  if (k + 1 < items.size()) {
    edits.push_back({source[items[k].first].begin, source[items[k + 1].first].begin, ""});
  } else {
    const std::size_t begin = k == 0 ? source[items[k].first].begin : source[items[k - 1].last - 1].end;
    edits.push_back({begin, source[items[k].last - 1].end, ""});
  }
}

std::string_view name_of_parameter(const Source& source, Source::Range item) {
  std::size_t last = item.last;
  for (std::size_t i = item.first; i < item.last; ++i) {
    if (source.is(i, "(") && source.is(i + 1, "&"))
      return source.is_word(i + 2) ? source[i + 2].text : std::string_view();
    if (source.is(i, "=")) {
      last = i;
      break;
    }
  }
  if (last < item.first + 2 || !source.is_word(last - 1)) return {};
  if (last == item.first + 2 && source.is(item.first, "const")) return {};
  return source[last - 1].text;
}

}  // namespace epifuse::codegen::lean
