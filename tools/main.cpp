// The `epifuse` command: wires the subcommands and turns exceptions into messages and exit codes.
//   0  done      1  a failure at run time      2  a wrong chain, operand, option or input file
#include <algorithm>
#include <exception>
#include <new>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "suggest.hpp"
#include "terminal.hpp"

namespace {

constexpr int kFailure = 1;
constexpr int kBadInput = 2;

// "-x + 1" looks like an option. Says so where it may be the reason.
std::string_view hint_for_chain(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--") return "";
    if (argument.starts_with('-') && argument.find_first_of(" (*/+") != argument.npos && !argument.starts_with("--")) {
      return "\na chain that begins with '-' goes after '--': epifuse run -- \"-x\" 'x=f32[4]'";
    }
  }
  return "";
}

// What CLI11 would print by itself: --help and --version.
void print_asked_for(const CLI::App& app, const CLI::ParseError& asked) {
  std::ostringstream text;
  app.exit(asked, text, text);
  epifuse::tool::write_output(text.str());
}

// For CLI11: in reverse order. It would take the next argument for the value of "--seed="; that option's value is
// empty.
std::vector<std::string> arguments_of(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    options = options && argument != "--";
    const bool empty_value = options && argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (empty_value) argument.remove_suffix(1);
    arguments.emplace_back(argument);
    if (empty_value) arguments.emplace_back();
  }
  std::ranges::reverse(arguments);
  return arguments;
}

void parse_and_run(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(arguments_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) throw;
    print_asked_for(app, error);
  }
  // A full disk or a closed pipe shows here at the latest.
  epifuse::tool::flush_output();
}

// The exit code.
int run_safely(CLI::App& app, int argc, char** argv) {
  using epifuse::tool::print_error;
  try {
    parse_and_run(app, argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    print_error(fmt::format("{}{}{}\nrun 'epifuse --help', or with the subcommand's name before --help", error.what(),
                            epifuse::tool::suggestion(app, argc, argv), hint_for_chain(argc, argv)));
    return kBadInput;
  } catch (const epifuse::Error& error) {
    print_error(error.what());
    return error.is_bad_input() ? kBadInput : kFailure;
  } catch (const epifuse::tool::ReaderLeft&) {
    return kFailure;
  } catch (const std::bad_alloc&) {
    print_error("out of host memory; use smaller tensors");
    return kFailure;
  } catch (const std::exception& error) {
    print_error(error.what());
    return kFailure;
  }
}

}  // namespace

int main(int argc, char** argv) {
  epifuse::tool::secure_standard_streams();
  CLI::App app{"EpiFuse: the tail of a GEMM or a convolution as one CUDA kernel, generated at run time.", "epifuse"};
  app.set_version_flag("-V,--version", fmt::format("epifuse {}", epifuse::version()));
  app.require_subcommand(1);
  app.footer(
      "Examples:\n"
      "  epifuse run \"relu(x + bias)\" 'x=f16[8,16]' 'bias=f32[16]'\n"
      "  epifuse dump \"sigmoid((x + bias) * scale)\" 'x=f16[128,32,254,254]' 'bias=f32[32,1,1]' 'scale=f32[32,1,1]' "
      "--emit cuda\n"
      "  epifuse bench \"gelu(x + bias)\" 'x=bf16[8192,4096]' 'bias=f32[4096]'\n"
      "  epifuse doctor\n"
      "Exit codes: 0 done, 1 a failure at run time, 2 a wrong chain or input.");
  epifuse::tool::add_run(app);
  epifuse::tool::add_dump(app);
  epifuse::tool::add_bench(app);
  epifuse::tool::add_ops(app);
  epifuse::tool::add_cache(app);
  epifuse::tool::add_warm(app);
  epifuse::tool::add_bundle(app);
  epifuse::tool::add_doctor(app);
  epifuse::tool::add_completion(app);
  epifuse::tool::add_man(app);
  return run_safely(app, argc, argv);
}
