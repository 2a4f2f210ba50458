// Finding NVRTC's file without opening it: see NvrtcLocation for why. What the dynamic linker would find is looked up
// as the linker does, in LD_LIBRARY_PATH and /etc/ld.so.cache. Called through nvrtc.hpp.
#include <dlfcn.h>
#include <link.h>
#include <sys/stat.h>

#include <array>
#include <fstream>
#include <mutex>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/nvrtc.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

// The newest first: it knows the most GPUs, and every version since 11.2 has the functions that are called.
constexpr std::array kNames = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// What tells one compiler from another without running it. The size alone nearly does; the time of change catches an
// upgrade in place, the real path two versions behind one link.
std::string identity_of(const fs::path& path) {
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  struct stat status {};
  if (error || ::stat(real.c_str(), &status) != 0) return path.string();
  return fmt::format("{} {} {}.{:09}", real.string(), status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

// Whether the process has loaded anything of that name: asking the linker for each name would cost three searches, 60
// µs.
bool any_is_loaded() {
  const auto visit = [](dl_phdr_info* info, std::size_t, void*) {
    return static_cast<int>(std::string_view(info->dlpi_name).find("libnvrtc") != std::string_view::npos);
  };
  return ::dl_iterate_phdr(visit, nullptr) != 0;
}

// One that the process has loaded, say PyTorch's: a second copy would only cost memory.
std::optional<fs::path> already_loaded(const char* name) {
  void* const handle = ::dlopen(name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return std::nullopt;
  std::optional<fs::path> path;
  link_map* map = nullptr;
  if (::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && map->l_name != nullptr && *map->l_name == '/')
    path = map->l_name;
  ::dlclose(handle);  // drops the reference that RTLD_NOLOAD added; the library stays loaded
  return path;
}

std::vector<fs::path> split_path_list(const std::optional<std::string>& list) {
  std::vector<fs::path> result;
  if (!list) return result;
  std::size_t begin = 0;
  while (begin <= list->size()) {
    const std::size_t end = std::min(list->find_first_of(":;", begin), list->size());
    if (end > begin) result.emplace_back(list->substr(begin, end - begin));
    begin = end + 1;
  }
  return result;
}

// The linker's cache is a table with a block of NUL-terminated strings behind it. Looking for "/name" in those strings
// needs no knowledge of the table, which has changed between versions of glibc.
std::optional<fs::path> in_linker_cache(const std::string& cache, std::string_view name) {
  const std::string wanted = fmt::format("/{}", name) + '\0';
  for (std::size_t at = cache.find(wanted); at != std::string::npos; at = cache.find(wanted, at + 1)) {
    const std::size_t begin = cache.rfind('\0', at) + 1;  // npos + 1 is 0: the start of the file
    const fs::path path = cache.substr(begin, at + wanted.size() - 1 - begin);
    if (path.is_absolute() && is_file(path)) return path;
  }
  return std::nullopt;
}

std::string read_linker_cache() {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary | std::ios::ate);
  if (!file) return {};
  std::string cache(static_cast<std::size_t>(file.tellg()), '\0');
  file.seekg(0);
  file.read(cache.data(), static_cast<std::streamsize>(cache.size()));
  return file ? cache : std::string();
}

void add_wheels(std::vector<fs::path>& directories, const fs::path& site_packages) {
  directories.push_back(site_packages / "nvidia" / "cu13" / "lib");        // wheels of CUDA 13
  directories.push_back(site_packages / "nvidia" / "cuda_nvrtc" / "lib");  // wheels of CUDA 12
}

// Toolkits at their usual places, then Python environments.
std::vector<fs::path> usual_directories() {
  std::vector<fs::path> result;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto root = base::environment(variable)) {
      result.push_back(fs::path(*root) / "lib64");
      result.push_back(fs::path(*root) / "lib");
    }
  }
  result.emplace_back("/usr/local/cuda/lib64");
  for (const char* variable : {"VIRTUAL_ENV", "CONDA_PREFIX"}) {
    const auto root = base::environment(variable);
    if (!root) continue;
    result.push_back(fs::path(*root) / "lib");
    std::error_code error;
    for (fs::directory_iterator it(fs::path(*root) / "lib", error), end; !error && it != end; it.increment(error)) {
      if (it->path().filename().string().starts_with("python3")) add_wheels(result, it->path() / "site-packages");
    }
  }
  // EpiFuse in a wheel of its own: site-packages/epifuse/libepifuse.so, beside site-packages/nvidia.
  Dl_info self{};
  if (::dladdr(reinterpret_cast<const void*>(&locate_nvrtc), &self) != 0 && self.dli_fname != nullptr) {
    const fs::path here = fs::path(self.dli_fname).parent_path();
    add_wheels(result, here / "..");
  }
  return result;
}

std::optional<fs::path> find_by_linker_rules(std::string& tried) {
  const std::vector<fs::path> directories = split_path_list(base::environment("LD_LIBRARY_PATH"));
  const std::string cache = read_linker_cache();
  for (const char* name : kNames) {
    for (const fs::path& directory : directories) {
      if (is_file(directory / name)) return directory / name;
    }
    if (auto path = in_linker_cache(cache, name)) return path;
    for (const char* directory : {"/lib64", "/usr/lib64", "/lib", "/usr/lib"}) {
      if (is_file(fs::path(directory) / name)) return fs::path(directory) / name;
    }
    tried += fmt::format("{}{}", tried.empty() ? "" : ", ", name);
  }
  tried += " where the dynamic linker looks";
  return std::nullopt;
}

std::optional<fs::path> find_in_usual_directories(std::string& tried) {
  for (const fs::path& directory : usual_directories()) {
    for (const char* name : kNames) {
      if (is_file(directory / name)) return directory / name;
    }
    tried += fmt::format(", {}", directory.string());
  }
  return std::nullopt;
}

// Search rules that are not reproduced here (RUNPATH of the application, another C library): the linker itself decides,
// which opens the library.
std::optional<fs::path> find_by_opening() {
  for (const char* name : kNames) {
    if (::dlopen(name, RTLD_LAZY | RTLD_LOCAL) != nullptr) return already_loaded(name);
  }
  return std::nullopt;
}

fs::path find_nvrtc() {
  if (const auto path = base::environment("EPIFUSE_NVRTC")) {
    if (is_file(*path)) return *path;
    base::fail(
        ErrorCode::no_compiler,
        "EPIFUSE_NVRTC is {}, which is not a file; let it name NVRTC's shared library, or unset it to have it searched",
        *path);
  }
  if (any_is_loaded()) {
    for (const char* name : kNames) {
      if (auto path = already_loaded(name)) return *path;
    }
  }
  std::string tried;
  if (auto path = find_by_linker_rules(tried)) return *path;
  if (auto path = find_in_usual_directories(tried)) return *path;
  if (auto path = find_by_opening()) return *path;
  base::fail(
      ErrorCode::no_compiler,
      "NVRTC, which compiles the kernels, is not installed (tried {}); install the CUDA toolkit's NVRTC 12 or newer "
      "(the wheel nvidia-cuda-nvrtc will do), or name its library in EPIFUSE_NVRTC",
      tried);
}

}  // namespace

const NvrtcLocation& locate_nvrtc() {
  // A function-local static whose initialisation throws is initialised again by the next call: "each time".
  static const NvrtcLocation location = [] {
    NvrtcLocation found;
    found.path = find_nvrtc();
    found.identity = identity_of(found.path);
    base::log().debug("NVRTC is {}", found.path.string());
    return found;
  }();
  return location;
}

}  // namespace epifuse::jit
