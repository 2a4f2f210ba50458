// The nearest name by edit distance, if it is near enough to be a typing error.
#include "suggest.hpp"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>

namespace epifuse::tool {
namespace {

// Characters to insert, remove, replace, or exchange with their neighbour.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& names) {
  constexpr std::size_t kLongestWord = 40;
  if (word.size() > kLongestWord) return {};
  const auto best = std::ranges::min_element(names, {}, [&](const std::string& name) { return distance(word, name); });
  if (best == names.end() || distance(word, *best) > std::min<std::size_t>(2, word.size() / 2)) return {};
  return fmt::format(" (did you mean '{}'?)", *best);
}

std::vector<std::string> subcommands_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> options_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace

std::string suggestion(const CLI::App& app, int argc, char** argv) {
  const CLI::App* command = &app;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--") break;
    if (word.starts_with("--")) {
      const std::string_view name = word.substr(0, word.find('='));
      const std::vector<std::string> known = options_of(*command);
      if (std::ranges::find(known, name) == known.end()) return nearest(name, known);
    } else if (const std::vector<std::string> known = subcommands_of(*command); !known.empty()) {
      if (std::ranges::find(known, word) == known.end()) return nearest(word, known);
      command = command->get_subcommand(std::string(word));
    }
  }
  return {};
}

}  // namespace epifuse::tool
