// `epifuse completion`: scripts that complete the command's words in a shell, made from the subcommands and options
// that are there.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include "commands.hpp"
#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct Word {
  std::string text;
  std::string help;
};
struct Command {
  Word name;
  std::vector<Word> options;
  std::vector<Word> below;  ///< subcommands of its own
};

std::vector<Word> subcommands_of(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    words.push_back({command->get_name(), command->get_description()});
  return words;
}

std::vector<Word> options_of(const CLI::App& app) {
  std::vector<Word> words;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_snames()) words.push_back({"-" + name, option->get_description()});
    for (const std::string& name : option->get_lnames()) words.push_back({"--" + name, option->get_description()});
  }
  return words;
}

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> commands;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    commands.push_back(
        {{command->get_name(), command->get_description()}, options_of(*command), subcommands_of(*command)});
  }
  return commands;
}

// "run dump bench"
std::string joined(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) text += (text.empty() ? "" : " ") + word.text;
  return text;
}

// Between single quotes, in a shell.
std::string quoted(std::string text, std::string_view quote) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != text.npos; at += quote.size()) text.replace(at, 1, quote);
  return text;
}

// ---- bash

std::string bash(const CLI::App& app) {
  std::string text =
      "# bash completion of epifuse: source <(epifuse completion bash)\n"
      "_epifuse() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} words=\n"
      "  COMPREPLY=()\n"
      "  if (( COMP_CWORD == 1 )); then\n";
  text += fmt::format("    words='{} {}'\n  else\n    case ${{COMP_WORDS[1]}} in\n", joined(subcommands_of(app)),
                      joined(options_of(app)));
  for (const Command& command : commands_of(app)) {
    text += fmt::format("      {}) words='{}{}{}' ;;\n", command.name.text, joined(command.below),
                        command.below.empty() ? "" : " ", joined(command.options));
  }
  text +=
      "    esac\n"
      "    if [[ $word != -* && $words == -* ]]; then\n"
      "      words=\n"
      "    fi\n"
      "  fi\n"
      "  if [[ -n $words ]]; then\n"
      "    mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$word\")\n"
      "  elif [[ $word == *@* ]]; then\n"
      "    # x=@FILE: readline has cut the word at '=' and '@'\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"${word##*@}\")\n"
      "  fi\n"
      "}\n"
      "complete -o default -F _epifuse epifuse\n";
  return text;
}

// ---- zsh

std::string zsh_items(const std::vector<Word>& words) {
  std::string text;
  for (const Word& word : words) {
    std::string help = word.help;
    std::ranges::replace(help, ':', ',');
    text += fmt::format(" '{}:{}'", word.text, quoted(help, "'\\''"));
  }
  return text;
}

std::string zsh(const CLI::App& app) {
  std::string text =
      "#compdef epifuse\n"
      "# zsh completion of epifuse: epifuse completion zsh > a folder of $fpath/_epifuse\n"
      "_epifuse() {\n"
      "  local -a commands options\n";
  text += fmt::format("  commands=({})\n", zsh_items(subcommands_of(app)).substr(1));
  text +=
      "  if (( CURRENT == 2 )); then\n"
      "    _describe 'subcommand' commands\n"
      "    return\n"
      "  fi\n"
      "  commands=()\n"
      "  case $words[2] in\n";
  for (const Command& command : commands_of(app)) {
    text += fmt::format("    {}) options=({}); commands=({}) ;;\n", command.name.text, zsh_items(command.options),
                        zsh_items(command.below));
  }
  text +=
      "  esac\n"
      "  if [[ $PREFIX == -* ]]; then\n"
      "    _describe -o 'option' options\n"
      "  elif (( $#commands )); then\n"
      "    _describe 'subcommand' commands\n"
      "  else\n"
      "    compset -P '*@'\n"
      "    _files\n"
      "  fi\n"
      "}\n"
      "compdef _epifuse epifuse\n";
  return text;
}

// ---- fish

std::string fish(const CLI::App& app) {
  std::string text = "# fish completion of epifuse: epifuse completion fish | source\n";
  for (const Command& command : commands_of(app)) {
    text += fmt::format("complete -c epifuse -n __fish_use_subcommand -a {} -d '{}'\n", command.name.text,
                        quoted(command.name.help, "\\'"));
    const std::string condition = fmt::format("-n '__fish_seen_subcommand_from {}'", command.name.text);
    for (const Word& word : command.below) {
      text += fmt::format("complete -c epifuse {} -a {} -d '{}'\n", condition, word.text, quoted(word.help, "\\'"));
    }
    for (const Word& word : command.options) {
      const bool is_long = word.text.starts_with("--");
      text += fmt::format("complete -c epifuse {} -{} {} -d '{}'\n", condition, is_long ? 'l' : 's',
                          word.text.substr(is_long ? 2 : 1), quoted(word.help, "\\'"));
    }
  }
  return text;
}

}  // namespace

void add_completion(CLI::App& app) {
  auto* command = app.add_subcommand("completion", "Print a script that completes this command's words in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash, zsh or fish")->required();
  command->footer(
      "Examples:\n"
      "  source <(epifuse completion bash)\n"
      "  epifuse completion zsh > ~/.zfunc/_epifuse\n"
      "  epifuse completion fish | source");
  command->callback([&app, shell] {
    if (*shell == "bash") return write_output(bash(app));
    if (*shell == "zsh") return write_output(zsh(app));
    if (*shell == "fish") return write_output(fish(app));
    refuse("completion: found '{}'; expected bash, zsh or fish", *shell);
  });
}

}  // namespace epifuse::tool
