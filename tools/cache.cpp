// `epifuse cache`: the disk cache of compiled kernels.
#include <memory>
#include <vector>

#include <spdlog/fmt/fmt.h>
#include <epifuse/epifuse.hpp>

#include "commands.hpp"
#include "report.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

Json to_json(const CacheReport& cache) {
  return {{"directory", cache.directory}, {"writable", cache.writable},
          {"entries", cache.entries},     {"bytes", cache.bytes},
          {"limit", cache.limit},         {"unfinished", cache.unfinished},
          {"compiling", cache.compiling}, {"problem", cache.problem.empty() ? Json(nullptr) : Json(cache.problem)}};
}

void print(const CacheReport& cache) {
  fmt::print("{}{}\n", cache.directory, cache.shared ? "  (shared)" : "");
  if (!cache.problem.empty()) {
    fmt::print("not used: {}\n", cache.problem);
    return;
  }
  fmt::print("{} kernels, {} of at most {}{}\n", cache.entries, format_bytes(static_cast<double>(cache.bytes)),
             format_bytes(static_cast<double>(cache.limit)),
             cache.writable || cache.entries == 0 ? "" : "; this process only reads it");
  if (cache.compiling + cache.unfinished > 0)
    fmt::print("{} kernels being compiled and {} being written, or left so by a process that was killed\n",
               cache.compiling, cache.unfinished);
}

// The user's own directory stands at the top of the JSON; null where there is none.
void print_info(bool json) {
  const std::vector<CacheReport> caches = cache_report();
  if (json) {
    Json object = {{"directory", nullptr}, {"shared", nullptr}};
    for (const CacheReport& cache : caches) {
      if (cache.shared) {
        object["shared"] = to_json(cache);
      } else {
        object.update(to_json(cache));
      }
    }
    print_json(object);
    return;
  }
  if (caches.empty()) fmt::print("no disk cache: it is switched off, or there is no home directory (docs/guide/cache.md)\n");
  for (const CacheReport& cache : caches) print(cache);
}

void verify(bool json) {
  const CacheCheck check = cache_verify();
  if (json) {
    print_json({{"good", check.good},
                {"removed", check.removed},
                {"damaged", check.damaged},
                {"outdated", check.outdated},
                {"misplaced", check.misplaced},
                {"foreign", check.foreign}});
    return;
  }
  const std::uint64_t bad = check.damaged + check.outdated + check.misplaced + check.foreign;
  fmt::print("{} kernels are good, {} bad ones were removed\n", check.good, check.removed);
  if (bad > 0)
    fmt::print("bad: {} damaged, {} of another version, {} under another kernel's name, {} not files of this cache\n",
               check.damaged, check.outdated, check.misplaced, check.foreign);
  if (bad > check.removed)
    fmt::print("{} could not be removed: the directory is not this user's\n", bad - check.removed);
  for (const CacheReport& cache : cache_report()) {
    if (!cache.problem.empty()) fmt::print("not used: {}\n", cache.problem);
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
  add(*command, "info", "Where it is, how full, and whether it is used", print_info);
  add(*command, "verify", "Check every entry; remove bad ones and what killed processes left", verify);
  add(*command, "clear", "Remove every entry", clear);
}

}  // namespace epifuse::tool
