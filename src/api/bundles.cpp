// The bundles that an engine is given, by its options and by EPIFUSE_BUNDLE; GPUs that are described.
#include "api/bundles.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/text.hpp"

namespace epifuse {
namespace {

Compile compile_setting() {
  const auto text = base::environment("EPIFUSE_COMPILE");
  if (!text || *text == "on_need") return Compile::on_need;
  if (*text == "never") return Compile::never;
  base::fail(ErrorCode::invalid_argument, "EPIFUSE_COMPILE is \"{}\"; expected on_need or never", base::shown(*text));
}

// Where the sources of kernels are to be written, made if it does not exist.
std::optional<std::filesystem::path> sources_folder(const EngineOptions& options) {
  std::optional<std::filesystem::path> folder = options.line_info;
  const auto named = base::environment("EPIFUSE_LINE_INFO");
  if (!folder && named && !named->empty()) folder = *named;
  if (!folder) return std::nullopt;
  std::error_code problem;
  std::filesystem::create_directories(*folder, problem);
  const std::filesystem::path whole = std::filesystem::absolute(*folder, problem);
  if (!problem && ::access(whole.c_str(), W_OK) == 0) return whole;
  base::fail(ErrorCode::io,
             "'{}', where the sources of kernels are to be written (EngineOptions::line_info, EPIFUSE_LINE_INFO), is "
             "no folder that can be written",
             base::shown(folder->string()));
}

}  // namespace

jit::Bundle open_bundle(const Bundle& bundle) {
  return bundle.file().empty() ? jit::Bundle::of_memory(bundle.memory(), bundle.name())
                               : jit::Bundle::open(bundle.file());
}

void check_architecture(int architecture) {
  if (architecture >= 10 && architecture <= 9999) return;
  base::fail(ErrorCode::invalid_argument, "{} is no architecture; expected one such as 90, for sm_90", architecture);
}

plan::Machine machine_of(const PlanTarget& target) {
  check_architecture(target.architecture);
  if (target.multiprocessors < 0 || target.l2_bytes < 0 || !(target.bandwidth >= 0)) {
    base::fail(ErrorCode::invalid_argument,
               "a GPU has multiprocessors, an L2 cache and memory, found {}, {} bytes and {} bytes per second; 0 "
               "stands for those of the architecture's usual device",
               target.multiprocessors, target.l2_bytes, target.bandwidth);
  }
  plan::Machine machine(target.architecture, target.multiprocessors);
  if (target.l2_bytes > 0) machine.l2_bytes = target.l2_bytes;
  if (target.bandwidth > 0) machine.bandwidth = target.bandwidth;
  return machine;
}

jit::CompilerOptions compiler_options(const EngineOptions& options) {
  jit::CompilerOptions result{
      .directory = options.cache_directory, .limit_bytes = std::nullopt, .disk = options.disk_cache};
  for (const Bundle& bundle : options.bundles)
    result.bundles.push_back(std::make_shared<const jit::Bundle>(open_bundle(bundle)));
  // A list of paths, as PATH is.
  const std::string files = base::environment("EPIFUSE_BUNDLE").value_or("");
  for (std::string_view rest = files; !rest.empty();) {
    const std::string_view file = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(rest.size(), file.size() + 1));
    if (!file.empty()) result.bundles.push_back(std::make_shared<const jit::Bundle>(jit::Bundle::open(file)));
  }
  result.line_info = sources_folder(options);
  result.compile = (options.compile ? *options.compile : compile_setting()) == Compile::on_need;
  return result;
}

}  // namespace epifuse
