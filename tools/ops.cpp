// `epifuse ops`: the operations of the language, from the library's own table.
#include <algorithm>
#include <memory>
#include <string>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "options.hpp"
#include "report.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct OpsOptions {
  bool json = false;
  bool markdown = false;
};

void print_table(const std::vector<OpInfo>& ops) {
  std::size_t width = 0;
  for (const OpInfo& op : ops) width = std::max(width, op.signature.size());
  std::string group;
  for (const OpInfo& op : ops) {
    if (op.group != group) print_text("{}{}\n", group.empty() ? "" : "\n", heading(op.group));
    group = op.group;
    print_text("  {:<{}}  {}\n", op.signature, width, op.formula);
  }
}

void print_markdown(const std::vector<OpInfo>& ops) {
  const auto escaped = [](const std::string& text) {
    std::string out;
    for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
    return out;
  };
  print_text("| operation | group | definition | type | instructions |\n| --- | --- | --- | --- | ---: |\n");
  for (const OpInfo& op : ops) {
    print_text("| `{}` | {} | {} | {} | {} |\n", escaped(op.signature), op.group, escaped(op.formula), op.type,
               op.cost);
  }
}

Json to_json(const std::vector<OpInfo>& ops) {
  Json list = Json::array();
  for (const OpInfo& op : ops) {
    list.push_back({{"signature", op.signature},
                    {"group", op.group},
                    {"formula", op.formula},
                    {"cost", op.cost},
                    {"gives_truth", op.gives_truth},
                    {"type", op.type}});
  }
  return list;
}

}  // namespace

void add_ops(CLI::App& app) {
  auto* command = app.add_subcommand("ops", "List the operations of the language");
  auto options = std::make_shared<OpsOptions>();
  auto* json = add_switch(*command, "--json", options->json, "Print JSON");
  add_switch(*command, "--markdown", options->markdown, "Print a Markdown table")->excludes(json);
  command->footer("Examples:\n  epifuse ops\n  epifuse ops --json | jq -r '.[].signature'");
  command->callback([options] {
    const std::vector<OpInfo> ops = list_operations();
    if (options->json) {
      print_json(to_json(ops));
    } else if (options->markdown) {
      print_markdown(ops);
    } else {
      print_table(ops);
    }
  });
}

}  // namespace epifuse::tool
