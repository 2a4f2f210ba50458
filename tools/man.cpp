// `epifuse man`: the manual page, made from what --help says of the command and its subcommands.
#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

// Text as roff prints it: backslashes and hyphens as they are, and no line that it takes for a request.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const bool starts_line = result.empty() || result.back() == '\n';
    if (starts_line && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

// "-o, --output FILE"
std::string spelling(const CLI::Option& option) {
  std::string text;
  for (const std::string& name : option.get_snames()) text += fmt::format("{}-{}", text.empty() ? "" : ", ", name);
  for (const std::string& name : option.get_lnames()) text += fmt::format("{}--{}", text.empty() ? "" : ", ", name);
  if (text.empty()) return option.get_name(true);
  const std::string type = option.get_expected_min() > 0 ? option.get_type_name() : "";
  return type.empty() ? text : text + " " + type;
}

std::string options_text(const CLI::App& app) {
  std::string text;
  for (const CLI::Option* option : app.get_options()) {
    text += fmt::format(".TP\n.B {}\n{}\n", escaped(spelling(*option)), escaped(option->get_description()));
  }
  return text;
}

// The end of a --help, in its own lines.
std::string footer_text(const CLI::App& app) {
  const std::string footer = app.get_footer();
  return footer.empty() ? "" : fmt::format(".PP\n.nf\n{}\n.fi\n", escaped(footer));
}

std::vector<const CLI::App*> subcommands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

void add_subcommands(const CLI::App& app, const std::string& before, std::string& text) {
  for (const CLI::App* command : subcommands(app)) {
    const std::string name = before + command->get_name();
    text += fmt::format(".SS {}\n{}.\n", escaped(name), escaped(command->get_description()));
    text += options_text(*command) + footer_text(*command);
    add_subcommands(*command, name + " ", text);
  }
}

std::string page(const CLI::App& app) {
  std::string text = fmt::format(
      ".TH EPIFUSE 1 \"\" \"epifuse {}\" \"User Commands\"\n"
      ".SH NAME\nepifuse \\- {}\n"
      ".SH SYNOPSIS\n.B epifuse\n.I SUBCOMMAND\n[\\fIargument\\fR ...]\n"
      ".SH OPTIONS\n{}",
      version(), escaped(app.get_description()), options_text(app));
  text += ".SH SUBCOMMANDS\n";
  add_subcommands(app, "", text);
  text += ".SH EXAMPLES AND EXIT CODES\n" + footer_text(app);
  return text;
}

}  // namespace

void add_man(CLI::App& app) {
  auto* command = app.add_subcommand("man", "Print the manual page");
  command->footer("Examples:\n  epifuse man | man -l -");
  command->callback([&app] { write_output(page(app)); });
}

}  // namespace epifuse::tool
