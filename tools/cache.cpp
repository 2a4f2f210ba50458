// `epifuse cache`: the disk cache of compiled kernels.
#include <memory>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "report.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

void print_info(bool json) {
  const SystemReport report = system_report();
  const std::string directory = report.cache_directory.value_or("");
  if (json) {
    print_json({{"directory", report.cache_directory ? Json(directory) : Json(nullptr)},
                {"entries", report.cache_entries},
                {"bytes", report.cache_bytes},
                {"limit", report.cache_limit}});
  } else if (!report.cache_directory) {
    fmt::print("no disk cache: it is switched off, or there is no home directory (docs/cache.md)\n");
  } else {
    fmt::print("{}\n{} kernels, {} of at most {}\n", directory, report.cache_entries,
               format_bytes(static_cast<double>(report.cache_bytes)),
               format_bytes(static_cast<double>(report.cache_limit)));
  }
}

void verify(bool json) {
  const CacheCheck check = cache_verify();
  if (json) {
    print_json({{"good", check.good}, {"removed", check.removed}});
  } else {
    fmt::print("{} kernels are good, {} damaged ones were removed\n", check.good, check.removed);
  }
}

void clear(bool json) {
  const std::uint64_t removed = cache_clear();
  if (json) {
    print_json({{"removed", removed}});
  } else {
    fmt::print("removed {} kernels\n", removed);
  }
}

void add(CLI::App& parent, const char* name, const char* help, void (*action)(bool)) {
  auto* command = parent.add_subcommand(name, help);
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "Print JSON");
  command->footer(fmt::format("Example:\n  epifuse cache {0}\n  epifuse cache {0} --json", name));
  command->callback([action, json] { action(*json); });
}

}  // namespace

void add_cache(CLI::App& app) {
  auto* command = app.add_subcommand("cache", "Show, check or empty the disk cache of compiled kernels");
  command->require_subcommand(1);
  command->footer("Examples:\n  epifuse cache info\n  epifuse cache verify\n  epifuse cache clear");
  add(*command, "info", "Where it is and how full", print_info);
  add(*command, "verify", "Check every entry; remove damaged ones", verify);
  add(*command, "clear", "Remove every entry", clear);
}

}  // namespace epifuse::tool
