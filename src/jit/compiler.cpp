// The three levels (memory, disk, NVRTC) and the rule that one key is compiled once at a time. Called by api/.
#include "jit/compiler.hpp"

#include <chrono>
#include <fstream>
#include <system_error>
#include <vector>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/nvrtc.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// What is stored on disk: four bytes that say what the image is, since for a device the key does not, then the image.
constexpr std::size_t kTagSize = 4;

std::string tag_of(const Target& target) {
  return {static_cast<char>(target.kind), '\0', static_cast<char>(target.architecture & 0xff),
          static_cast<char>(target.architecture >> 8 & 0xff)};
}

Target target_of(std::string_view tag) {
  const auto byte = [&](std::size_t i) { return static_cast<int>(static_cast<unsigned char>(tag[i])); };
  return {byte(2) | byte(3) << 8, byte(0) == 0 ? ImageKind::cubin : ImageKind::ptx};
}

// A name that is safe in a path: it may hold a whole expression.
std::string file_stem(const std::string& name) {
  constexpr std::size_t kLongest = 80;
  std::string stem = name.substr(0, kLongest);
  for (char& c : stem) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-';
    if (!plain) c = '_';
  }
  return stem.empty() ? "kernel" : stem;
}

// EPIFUSE_DUMP=DIR: what is compiled, for people. Trouble with it is no reason to fail.
void dump(const std::string& name, const Digest& key, const char* extension, const std::string& bytes) {
  const auto directory = base::environment("EPIFUSE_DUMP");
  if (!directory) return;
  const fs::path path = fs::path(*directory) / fmt::format("{}-{}.{}", file_stem(name), to_string(key), extension);
  std::error_code error;
  fs::create_directories(*directory, error);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) base::log().warn("EPIFUSE_DUMP: cannot write {}", path.string());
}

}  // namespace

const char* to_string(Origin origin) noexcept {
  switch (origin) {
    case Origin::memory:
      return "memory";
    case Origin::disk:
      return "disk";
    case Origin::compiled:
      return "compiled";
  }
  return "unknown";
}

// Either a device, whose target only NVRTC's list of architectures decides, or a target. The list belongs to the
// compiler that the key names, so the device's number stands for the target in the key, and a hit needs no list.
struct Compiler::Request {
  const std::string& source;
  const std::string& name;
  int device_architecture = 0;  // 0: `target` counts
  Target target;
  Digest key;

  void set_key() {
    const std::string what =
        device_architecture != 0 ? fmt::format("device {}", device_architecture) : to_string(target);
    // Of the options only the architecture varies; the fixed ones are in the key all the same, so that changing them in
    // compile_options() invalidates what is cached even within one version of EpiFuse.
    const std::string options = fmt::format("{}", fmt::join(compile_options(target), " "));
    key = digest_of({source, what, options, locate_nvrtc().identity, EPIFUSE_VERSION});
  }
};

Compiler::Compiler(CompilerOptions options) {
  if (!options.disk || disk_cache_disabled()) {
    base::log().debug("kernels are cached in memory only");
    return;
  }
  if (!options.directory) options.directory = default_cache_directory();
  if (!options.directory) {
    base::log().warn("kernels are not cached on disk: none of EPIFUSE_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return;
  }
  disk_.emplace(*options.directory, options.limit_bytes.value_or(default_cache_limit()));
  base::log().debug("kernels are cached in {}, up to {} bytes", options.directory->string(), disk_->limit_bytes());
}

std::shared_ptr<const Image> Compiler::get_for_device(const std::string& source, const std::string& name,
                                                      int device_architecture, Origin* found) {
  Request request{source, name, device_architecture, {}, {}};
  request.set_key();
  return find(request, found);
}

std::shared_ptr<const Image> Compiler::get(const std::string& source, const std::string& name, const Target& target,
                                           Origin* found) {
  Request request{source, name, 0, target, {}};
  request.set_key();
  return find(request, found);
}

std::shared_ptr<const Image> Compiler::find(const Request& request, Origin* found) {
  std::promise<std::shared_ptr<const Image>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto [it, mine] = images_.try_emplace(request.key);
    if (!mine) {
      const Future future = it->second;
      lock.unlock();
      std::shared_ptr<const Image> image = future.get();  // waits for, or fails with, the thread that makes it
      memory_hits_.fetch_add(1, std::memory_order_relaxed);
      if (found != nullptr) *found = Origin::memory;
      return image;
    }
    it->second = promise.get_future().share();
  }
  try {
    std::shared_ptr<const Image> image = make(request);
    promise.set_value(image);
    if (found != nullptr) *found = image->origin;
    return image;
  } catch (...) {
    failures_.fetch_add(1, std::memory_order_relaxed);
    {
      // Before the waiters wake: whoever asks after the failure shall try again, not meet the failed future.
      const std::lock_guard lock(mutex_);
      images_.erase(request.key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::shared_ptr<const Image> Compiler::make(const Request& request) {
  if (auto image = load(request)) return image;
  return compile(request);
}

std::shared_ptr<const Image> Compiler::load(const Request& request) {
  if (!disk_) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  std::optional<std::string> stored = disk_->load(request.key);
  if (!stored || stored->size() <= kTagSize) return nullptr;
  const Target target = target_of(std::string_view(*stored).substr(0, kTagSize));
  stored->erase(0, kTagSize);
  disk_hits_.fetch_add(1, std::memory_order_relaxed);
  base::log().debug("loaded {} ({}) from the disk cache in {:.2f} ms", request.name, to_string(target),
                    milliseconds_since(start));
  return std::make_shared<Image>(
      Image{std::move(*stored), target.kind, target.architecture, Origin::disk, 0, request.key});
}

std::shared_ptr<const Image> Compiler::compile(const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  dump(request.name, request.key, "cu", request.source);
  const Nvrtc& nvrtc = Nvrtc::get();
  const Target target = request.device_architecture != 0
                            ? target_for(request.device_architecture, nvrtc.architectures())
                            : request.target;
  std::string bytes = nvrtc.compile(request.source, request.name, target);
  const double spent = milliseconds_since(start);
  dump(request.name, request.key, to_string(target.kind), bytes);
  if (disk_) disk_->store(request.key, tag_of(target) + bytes);
  compiles_.fetch_add(1, std::memory_order_relaxed);
  compile_ms_.fetch_add(spent, std::memory_order_relaxed);
  return std::make_shared<Image>(
      Image{std::move(bytes), target.kind, target.architecture, Origin::compiled, spent, request.key});
}

CompilerStats Compiler::stats() const noexcept {
  return {memory_hits_.load(std::memory_order_relaxed), disk_hits_.load(std::memory_order_relaxed),
          compiles_.load(std::memory_order_relaxed), failures_.load(std::memory_order_relaxed),
          compile_ms_.load(std::memory_order_relaxed)};
}

void Compiler::clear_memory() {
  const std::lock_guard lock(mutex_);
  images_.clear();
}

}  // namespace epifuse::jit
