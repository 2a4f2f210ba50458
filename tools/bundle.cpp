// `epifuse bundle`: compiles the kernels of a list of launches into one file, on a machine that need not have a GPU,
// and shows what is in one.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "launch_list.hpp"
#include "options.hpp"
#include "report.hpp"
#include "staged_file.hpp"
#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

struct BundleOptions {
  std::string list;
  std::string shown;  ///< --list: the bundle whose kernels are shown
  std::vector<PlanTarget> targets;
  std::string out;
  std::string emit = "bundle";
  std::string name;  ///< of the function in C++; empty: after the file
  std::uint64_t threads = 0;
  bool json = false;
};

// ---- --list

// 0, or how many are bad.
std::size_t show(const BundleOptions& options) {
  std::vector<BundledKernel> kernels = list_bundle(options.shown);
  std::ranges::sort(kernels, {}, [](const BundledKernel& kernel) {
    return std::tie(kernel.architecture, kernel.chain, kernel.kernel_class);
  });
  std::size_t bad = 0;
  std::uint64_t bytes = 0;
  Json rows = Json::array();
  for (const BundledKernel& kernel : kernels) {
    bad += kernel.problem.empty() ? 0 : 1;
    bytes += kernel.bytes;
    if (options.json) {
      rows.push_back({{"architecture", kernel.architecture},
                      {"chain", kernel.chain},
                      {"class", kernel.kernel_class},
                      {"key", kernel.key},
                      {"bytes", kernel.bytes},
                      {"problem", kernel.problem.empty() ? Json(nullptr) : Json(kernel.problem)}});
      continue;
    }
    print_text("sm_{}  {}\n       {}  {}, {} bytes{}\n", kernel.architecture, kernel.chain, kernel.key,
               kernel.kernel_class, kernel.bytes, kernel.problem.empty() ? "" : "\n       BAD: " + kernel.problem);
  }
  if (options.json) {
    print_json({{"bundle", options.shown}, {"kernels", rows}, {"bad", bad}});
  } else {
    print_text("{}: {} kernels, {}\n", options.shown, kernels.size(), format_bytes(static_cast<double>(bytes)));
  }
  flush_output();
  return bad;
}

// ---- --emit cpp

bool is_identifier(std::string_view text) {
  Cursor cursor(text);
  return !cursor.word().empty() && cursor.done();
}

// The file's name up to its first dot, if need be with '_' for what an identifier lacks.
std::string name_of(const BundleOptions& options) {
  if (!options.name.empty()) return options.name;
  std::string name = std::filesystem::path(options.out).filename().string();
  name = name.substr(0, name.find('.'));
  for (char& c : name) {
    if (!is_identifier(std::string("_") + c)) c = '_';
  }
  return is_identifier(name) ? name : "_" + name;
}

// Words instead of bytes: a compiler takes them in a fifth of the time.
std::string cpp_of(const std::string& bundle, const std::string& name) {
  std::string text = fmt::format(
      "// {0} bytes of kernels, made by `epifuse bundle --emit cpp` of EpiFuse {1}. Compile and link this file.\n"
      "//   C++:  epifuse::Bundle {2}();  then  EngineOptions{{.bundles = {{{2}()}}}}\n"
      "//   C:    const void* {2}_data(void);  size_t {2}_size(void);  then  epifuse_options_add_bundle_memory\n"
      "#include <bit>\n#include <cstddef>\n#include <cstdint>\n#include <span>\n\n#include <epifuse/engine.hpp>\n\n"
      "static_assert(std::endian::native == std::endian::little);\n\n"
      "namespace {{\nconstexpr std::size_t kSize = {0};\nconstexpr std::uint64_t kWords[] = {{",
      bundle.size(), version(), name);
  for (std::size_t at = 0; at < bundle.size(); at += 8) {
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 8 && at + i < bundle.size(); ++i)
      word |= std::uint64_t{static_cast<unsigned char>(bundle[at + i])} << (8 * i);
    fmt::format_to(std::back_inserter(text), "{}{:#x},", at % 48 == 0 ? "\n" : "", word);
  }
  text += fmt::format(
      "\n}};\n}}  // namespace\n\n"
      "extern \"C\" const void* {0}_data() {{ return kWords; }}\n"
      "extern \"C\" std::size_t {0}_size() {{ return kSize; }}\n"
      "epifuse::Bundle {0}() {{ return {{std::as_bytes(std::span(kWords)).first(kSize), \"{0}\"}}; }}\n",
      name);
  return text;
}

// ---- making one

void check(const BundleOptions& options) {
  if (options.list.empty() == options.shown.empty())
    refuse("expected either a list of launches to compile, or --list and a bundle");
  if (!options.shown.empty()) {
    if (!options.out.empty() || !options.targets.empty())
      refuse("--list {}: shows a bundle; -o and --arch are for making one", options.shown);
    return;
  }
  if (options.emit != "bundle" && options.emit != "cpp")
    refuse("--emit: found '{}'; expected bundle or cpp", options.emit);
  if (!options.name.empty() && !is_identifier(options.name))
    refuse("--name: found '{}'; expected a name of C++: letters, digits and _", options.name);
  if (options.out.empty()) refuse("-o is missing; expected the file to write, as in -o kernels.epifuse");
  check_target(options.out);
}

void make(const BundleOptions& options) {
  LaunchList launches(options.list);
  launches.check();  // a bundle that lacks a kernel is worse than none
  if (launches.count() == 0) refuse("{}: no launch is in it; expected one a line", options.list);
  Precompiler precompiler;
  launches.precompile(precompiler, options.targets, static_cast<unsigned>(options.threads));
  launches.check();
  const PrecompilerStats stats = precompiler.stats();
  if (stats.kernels == 0) refuse("{}: no launch in it has elements, so there is no kernel", options.list);
  const std::string bundle = precompiler.bundle();
  // Engines refuse a bundle that others may write, whatever the umask is.
  StagedFile file(options.out, 0644);
  file.write(options.emit == "cpp" ? cpp_of(bundle, name_of(options)) : bundle);
  file.commit();
  if (options.json) {
    print_json({{"bundle", options.out},
                {"launches", launches.count()},
                {"kernels", stats.kernels},
                {"compiled", stats.compiles},
                {"from_disk", stats.disk_hits},
                {"compile_ms", stats.compile_ms},
                {"bytes", bundle.size()}});
  } else {
    print_text("{} launches: {} kernels, {} compiled in {}, {} from disk -> {} ({})\n", launches.count(), stats.kernels,
               stats.compiles, format_time(stats.compile_ms / 1e3), stats.disk_hits, options.out,
               format_bytes(static_cast<double>(bundle.size())));
  }
  flush_output();
}

void run(const BundleOptions& options) {
  check(options);
  if (options.shown.empty()) return make(options);
  std::size_t bad = 0;
  try {
    bad = show(options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    refuse("{}", error.what());  // to an engine a failure at run time; here it is the input
  }
  if (bad > 0) refuse("the bundle '{}' has {} damaged kernels; make it anew with `epifuse bundle`", options.shown, bad);
}

}  // namespace

void add_bundle(CLI::App& app) {
  auto* command =
      app.add_subcommand("bundle", "Compile the kernels of a list of launches into one file, without a GPU");
  auto options = std::make_shared<BundleOptions>();
  add_text(*command, "launches", options->list, "a file name",
           "A file with one launch per line; - reads standard input");
  add_text(*command, "--list", options->shown, "a file name", "Show what is in a bundle, and check it")
      ->type_name("BUNDLE");
  add_targets(*command, options->targets, "For such GPUs: sm_90,sm_100; with the multiprocessors sm_90:114");
  add_text(*command, "-o,--output", options->out, "a file name", "The file to write")->type_name("FILE");
  add_text(*command, "--emit", options->emit, "bundle or cpp", "bundle (the default), or cpp: a source to link")
      ->type_name("FORM");
  add_text(*command, "--name", options->name, "a name of C++",
           "Of the function in --emit cpp; by default after the file")
      ->type_name("NAME");
  add_threads(*command, options->threads);
  add_switch(*command, "--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n"
      "  echo '\"relu(x + bias)\" x=f16[8,16] bias=f32[16]' > launches.txt\n"
      "  epifuse bundle launches.txt --arch sm_90,sm_100 -o kernels.epifuse\n"
      "  epifuse bundle --list kernels.epifuse\n"
      "  epifuse bundle launches.txt --arch sm_90 --emit cpp -o kernels.cpp\n"
      "A line is what 'epifuse dump' takes, and may have an --arch of its own. EPIFUSE_RECORD=FILE makes a process\n"
      "write its launches down as such lines. EPIFUSE_BUNDLE=kernels.epifuse makes engines use a bundle.\n");
  command->callback([options] { run(*options); });
}

}  // namespace epifuse::tool
