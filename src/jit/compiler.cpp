// The four levels (memory, bundles, disk, NVRTC) and the rule that one key is compiled once at a time. Called by api/.
#include "jit/compiler.hpp"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <system_error>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/nvrtc.hpp"
#include "jit/spills.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

// What is stored on disk: a tag that says what the image is, since for a device the key does not, and how long
// compiling took; then the image.
constexpr std::size_t kTagSize = 8;

struct Tag {
  Target target;
  double compile_ms = 0;
};

std::string pack(const Tag& tag) {
  constexpr double kMost = 4e9;  // microseconds, more than an hour
  const auto spent = static_cast<std::uint32_t>(std::min(tag.compile_ms * 1000, kMost));
  std::string bytes = {static_cast<char>(tag.target.kind), '\0', static_cast<char>(tag.target.architecture & 0xff),
                       static_cast<char>(tag.target.architecture >> 8 & 0xff)};
  for (unsigned shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(spent >> shift & 0xff));
  return bytes;
}

Tag unpack(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[i])); };
  const auto spent = byte(4) | byte(5) << 8 | byte(6) << 16 | byte(7) << 24;
  return {{static_cast<int>(byte(2) | byte(3) << 8), byte(0) == 0 ? ImageKind::cubin : ImageKind::ptx}, spent / 1000.0};
}

constexpr std::string_view kLineInfo = "--generate-line-info";

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
    case Origin::bundle:
      return "bundle";
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
  const Source& source;
  const std::string& name;
  int device_architecture;  // 0: `target` counts
  Target target;            // of a device: a cubin for it
  Digest in_memory;
  Digest key;

  Request(const Source& s, const std::string& n, int device, const Target& t)
      : source(s), name(n), device_architecture(device), target(t), in_memory(digest_of({s.identity(), what()})) {}

  std::string what() const {
    return device_architecture != 0 ? fmt::format("device {}", device_architecture) : to_string(target);
  }

  // What the key promises of the stored image, asked again of the image itself: the last thing between a file and the
  // driver. Empty if it holds.
  std::string why_unfit(const Target& found, std::string_view image) const {
    const bool cubin = found.kind == ImageKind::cubin;
    const bool fits = device_architecture == 0 ? found == target
                      : cubin                  ? found.architecture == device_architecture
                                               : found.architecture < device_architecture;
    if (!fits) return fmt::format("its image is for {}, which was not asked for", to_string(found));
    if (image.empty() || cubin != image.starts_with("\x7f"
                                                    "ELF"))
      return fmt::format("what it holds is no {}", to_string(found.kind));
    return {};
  }
};

// On disk. Looks for NVRTC, which not every request comes to.
void Compiler::set_key(Request& request) const {
  // Of the options the architecture varies, and whether there are lines; the fixed ones are in the key all the same, so
  // that changing them in compile_options() invalidates what is cached even within one version of EpiFuse.
  std::string options =
      fmt::format("{}", fmt::join(compile_options(request.device_architecture != 0 ? Target{} : request.target), " "));
  if (line_info_) options += fmt::format(" {} {}", kLineInfo, line_info_->string());
  request.key =
      digest_of({request.source.identity(), request.what(), options, locate_nvrtc().identity, EPIFUSE_VERSION});
}

// Where the lines of an image say that its source is.
fs::path Compiler::source_file(const Request& request) const {
  return *line_info_ / fmt::format("{}-{}.cu", file_stem(request.name), to_string(request.key));
}

void Compiler::write_source(const Request& request) const {
  const fs::path path = source_file(request);
  if (std::error_code error; fs::exists(path, error)) return;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << request.source.text();
  file.close();
  if (!file) base::log().warn("line_info: cannot write {}", path.string());
}

Compiler::Compiler(CompilerOptions options)
    : bundles_(std::move(options.bundles)),
      compiles_at_all_(options.compile),
      line_info_(std::move(options.line_info)) {
  if (line_info_) bundles_.clear();  // their images have no lines
  for (const auto& bundle : bundles_)
    base::log().debug("{} kernels are in the bundle {}", bundle->size(), bundle->name());
  if (!options.disk || disk_cache_disabled()) {
    base::log().debug("kernels are cached in memory only");
    return;
  }
  if (!options.shared_directory) options.shared_directory = shared_cache_directory();
  const std::uint64_t limit = options.limit_bytes.value_or(default_cache_limit());
  if (options.shared_directory) shared_.emplace(*options.shared_directory, limit, Trust::shared);
  try {
    // Which keys name: looked for now, so that the first hit need not. With bundles there may never be a need.
    if (bundles_.empty()) locate_nvrtc();
  } catch (const Error&) {
    // Whoever needs it is told.
  }
  if (!options.directory) options.directory = default_cache_directory();
  if (!options.directory) {
    base::log().warn("kernels are not cached on disk: none of EPIFUSE_CACHE_DIR, XDG_CACHE_HOME and HOME is set");
    return;
  }
  disk_.emplace(*options.directory, limit);
  base::log().debug("kernels are cached in {}, up to {} bytes", options.directory->string(), disk_->limit_bytes());
}

Compiler::~Compiler() {
  if (!disk_ && !shared_ && bundles_.empty()) return;
  const CompilerStats s = stats();
  base::log().info(
      "kernels: {} from memory, {} from bundles, {} from disk ({:.0f} ms of compiling saved), {} compiled in {:.0f} "
      "ms, {} failed; {} bad entries, {} waits in vain",
      s.memory_hits, s.bundle_hits, s.disk_hits, s.saved_ms, s.compiles, s.compile_ms, s.failures, s.rejected,
      s.vain_waits);
}

std::shared_ptr<const Image> Compiler::get_for_device(const Source& source, const std::string& name,
                                                      int device_architecture, Origin* found) {
  return find(Request(source, name, device_architecture, {device_architecture, ImageKind::cubin}), found);
}

std::shared_ptr<const Image> Compiler::get(const Source& source, const std::string& name, const Target& target,
                                           Origin* found) {
  return find(Request(source, name, 0, target), found);
}

std::shared_ptr<const Image> Compiler::find(Request request, Origin* found) {
  std::promise<std::shared_ptr<const Image>> promise;
  {
    std::unique_lock lock(mutex_);
    const auto [it, mine] = images_.try_emplace(request.in_memory);
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
      images_.erase(request.in_memory);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

// From a bundle or from disk, else compiled by whichever process is first, while the others wait for its entry.
std::shared_ptr<const Image> Compiler::make(Request& request) {
  if (auto image = load_from_bundles(request)) return image;
  if (!compiles_at_all_) return load_or_fail(request);
  set_key(request);
  if (line_info_) write_source(request);
  if (auto image = load(request)) return image;
  DiskCache* const cache = cache_to_write();
  Turn turn;
  if (cache != nullptr) {
    turn = cache->take_turn(request.key);
    // Asked again in any case: whoever had the turn before may have stored between our look and our turn.
    if (auto image = load(request)) return image;
  }
  disk_misses_.fetch_add(disk_ || shared_, std::memory_order_relaxed);
  return compile(request, cache);
}

std::shared_ptr<const Image> Compiler::load_or_fail(Request& request) {
  std::string looked = "no bundle is given";
  if (!bundles_.empty()) {
    looked.clear();
    for (const auto& bundle : bundles_) {
      looked += fmt::format("{}the bundle '{}' lacks it ({} kernels for {}{})", looked.empty() ? "" : ", ",
                            bundle->name(), bundle->size(), bundle->size() == 0 ? "no GPU" : "sm_",
                            fmt::join(bundle->architectures(), ", sm_"));
    }
  }
  if (disk_ || shared_) {
    try {
      set_key(request);
      if (auto image = load(request)) return image;
      disk_misses_.fetch_add(1, std::memory_order_relaxed);
      looked += ", nor is it in the disk cache";
    } catch (const Error& problem) {
      looked += fmt::format(", and the disk cache serves nobody without NVRTC ({})", problem.what());
    }
  }
  throw NotFound(looked);
}

std::shared_ptr<const Image> Compiler::load_from_bundles(const Request& request) {
  if (bundles_.empty()) return nullptr;
  const auto start = std::chrono::steady_clock::now();
  const Digest key = bundle_key(request.source.identity(), request.target);
  for (const auto& bundle : bundles_) {
    std::optional<Bundle::Found> found = bundle->load(key);
    if (!found) continue;
    if (found->problem.empty()) found->problem = request.why_unfit(found->target, found->image);
    if (!found->problem.empty()) {
      bad_images_.fetch_add(1, std::memory_order_relaxed);
      base::log().warn("not used: the kernel {} of the bundle {}: {}", to_string(key), bundle->name(), found->problem);
      continue;
    }
    bundle_hits_.fetch_add(1, std::memory_order_relaxed);
    base::log().debug("loaded {} ({}) from the bundle {} in {:.2f} ms", request.name, to_string(found->target),
                      bundle->name(), milliseconds_since(start));
    return std::make_shared<Image>(
        Image{std::move(found->image), found->target.kind, found->target.architecture, Origin::bundle, 0, key});
  }
  return nullptr;
}

std::shared_ptr<const Image> Compiler::load(const Request& request) {
  for (std::optional<DiskCache>* cache : {&disk_, &shared_}) {
    if (!*cache) continue;
    if (auto image = load_from(**cache, request)) return image;
  }
  return nullptr;
}

std::shared_ptr<const Image> Compiler::load_from(DiskCache& cache, const Request& request) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<std::string> stored = cache.load(request.key);
  if (!stored) return nullptr;
  const Tag tag = stored->size() > kTagSize ? unpack(*stored) : Tag{};
  stored->erase(0, kTagSize);
  if (const std::string why = request.why_unfit(tag.target, *stored); !why.empty()) {
    cache.reject(request.key, why);
    return nullptr;
  }
  const double spent = milliseconds_since(start);
  disk_hits_.fetch_add(1, std::memory_order_relaxed);
  saved_ms_.fetch_add(tag.compile_ms - spent, std::memory_order_relaxed);
  base::log().debug("loaded {} ({}) from {} in {:.2f} ms", request.name, to_string(tag.target),
                    cache.directory().string(), spent);
  return std::make_shared<Image>(
      Image{std::move(*stored), tag.target.kind, tag.target.architecture, Origin::disk, 0, request.key});
}

// A shared cache is filled by its owner; everybody else fills their own.
DiskCache* Compiler::cache_to_write() {
  if (shared_ && shared_->writable()) return &*shared_;
  return disk();
}

std::shared_ptr<const Image> Compiler::compile(const Request& request, DiskCache* cache) {
  const auto start = std::chrono::steady_clock::now();
  std::string source = request.source.text();
  dump(request.name, request.key, "cu", source);
  const Nvrtc& nvrtc = Nvrtc::get();
  const Target target = request.device_architecture != 0
                            ? target_for(request.device_architecture, nvrtc.architectures())
                            : request.target;
  std::vector<std::string> options = compile_options(target, request.source.is_of_one_architecture());
  if (line_info_) options.emplace_back(kLineInfo);
  Compiled compiled = compile_with_few_spills(
      nvrtc, std::move(source), line_info_ ? source_file(request).string() : request.name, target, std::move(options));
  const double spent = milliseconds_since(start);
  if (compiled.resident_blocks > 0) dump(request.name, request.key, "cu", compiled.source);
  dump(request.name, request.key, to_string(target.kind), compiled.image);
  if (cache != nullptr) cache->store(request.key, pack(Tag{target, spent}) + compiled.image);
  compiles_.fetch_add(1, std::memory_order_relaxed);
  compile_ms_.fetch_add(spent, std::memory_order_relaxed);
  return std::make_shared<Image>(
      Image{std::move(compiled.image), target.kind, target.architecture, Origin::compiled, spent, request.key});
}

CompilerStats Compiler::stats() const noexcept {
  CompilerStats stats{.memory_hits = memory_hits_.load(std::memory_order_relaxed),
                      .bundle_hits = bundle_hits_.load(std::memory_order_relaxed),
                      .disk_hits = disk_hits_.load(std::memory_order_relaxed),
                      .disk_misses = disk_misses_.load(std::memory_order_relaxed),
                      .compiles = compiles_.load(std::memory_order_relaxed),
                      .failures = failures_.load(std::memory_order_relaxed),
                      .rejected = bad_images_.load(std::memory_order_relaxed),
                      .compile_ms = compile_ms_.load(std::memory_order_relaxed),
                      .saved_ms = saved_ms_.load(std::memory_order_relaxed)};
  for (const std::optional<DiskCache>* cache : {&disk_, &shared_}) {
    if (!*cache) continue;
    stats.rejected += (*cache)->stats().rejected;
    stats.vain_waits += (*cache)->stats().vain_waits;
  }
  return stats;
}

void Compiler::clear_memory() {
  const std::lock_guard lock(mutex_);
  images_.clear();
}

}  // namespace epifuse::jit
