// Source text in, compiled image out: from memory, from a bundle, from disk, or from NVRTC, in that order. Called by
// the engine (api/). This is all that the rest of EpiFuse needs of jit/; it knows no expressions.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include <epifuse/error.hpp>

#include "jit/bundle.hpp"
#include "jit/digest.hpp"
#include "jit/disk_cache.hpp"
#include "jit/source.hpp"
#include "jit/target.hpp"

namespace epifuse::jit {

/// Where an image came from.
enum class Origin : std::uint8_t { memory, bundle, disk, compiled };

/// "memory", "bundle", "disk" or "compiled".
const char* to_string(Origin origin) noexcept;

struct Image {
  std::string bytes;
  ImageKind kind = ImageKind::cubin;
  int architecture = 0;
  Origin origin = Origin::compiled;  ///< How this process first got it: not memory. See `found` of Compiler::get.
  double compile_ms = 0;             ///< What NVRTC took in this process; 0 when it came from elsewhere.
  Digest key;
};

struct CompilerOptions {
  std::optional<std::filesystem::path> directory;  ///< default_cache_directory() when absent
  std::optional<std::uint64_t> limit_bytes;        ///< default_cache_limit() when absent
  bool disk = true;                                ///< false, or EPIFUSE_CACHE=off: memory only
  /// shared_cache_directory() when absent
  std::optional<std::filesystem::path> shared_directory = std::nullopt;
  std::vector<std::shared_ptr<const Bundle>> bundles = {};  ///< looked at first, in this order
  bool compile = true;                                      ///< false: what is found nowhere is a NotFound
  /// A folder that exists: images have the lines of their sources, which are written there
  std::optional<std::filesystem::path> line_info = std::nullopt;
};

/// The image is found nowhere, and is not to be compiled here. what() says where it was looked for.
class NotFound : public Error {
 public:
  explicit NotFound(const std::string& what) : Error(ErrorCode::no_compiler, what) {}
};

/// A snapshot; the counts are of one Compiler.
struct CompilerStats {
  std::uint64_t memory_hits = 0;  ///< waiting for another thread's compile of the same key included
  std::uint64_t bundle_hits = 0;
  std::uint64_t disk_hits = 0;
  std::uint64_t disk_misses = 0;  ///< images that no disk cache had, also after waiting for other processes
  std::uint64_t compiles = 0;
  std::uint64_t failures = 0;
  std::uint64_t rejected = 0;    ///< entries on disk and in bundles that were found bad, and not loaded
  std::uint64_t vain_waits = 0;  ///< waits for another process that ended with a compile here
  double compile_ms = 0;
  double saved_ms = 0;  ///< what compiling the disk hits took when they were stored, less what loading them took
};

class Compiler {
 public:
  explicit Compiler(CompilerOptions options = {});
  /// Logs the statistics (level info) if there is a disk cache.
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// The image of `source` for a GPU of that architecture (90 for sm_90). `name` is for messages and dumps, and not
  /// part of the key. One compile however many threads ask for the same thing at once; when it fails, every one of them
  /// gets the Error and the next call tries again. A hit does not open NVRTC, and one in a bundle does not even look
  /// for it. `found`, if given, says where this call found it.
  std::shared_ptr<const Image> get_for_device(const Source& source, const std::string& name, int device_architecture,
                                              Origin* found = nullptr);
  /// The same for a target chosen by the caller, whatever GPU is here, or none.
  std::shared_ptr<const Image> get(const Source& source, const std::string& name, const Target& target,
                                   Origin* found = nullptr);

  CompilerStats stats() const noexcept;
  /// Null when there is no disk cache of the user's own.
  DiskCache* disk() noexcept { return disk_ ? &*disk_ : nullptr; }
  /// Forgets the images in memory (not those on disk). Images that callers hold stay valid.
  void clear_memory();

 private:
  using Future = std::shared_future<std::shared_ptr<const Image>>;
  struct Request;

  std::shared_ptr<const Image> find(Request request, Origin* found);
  std::shared_ptr<const Image> make(Request& request);
  std::shared_ptr<const Image> load_from_bundles(const Request& request);
  std::shared_ptr<const Image> load_or_fail(Request& request);
  std::shared_ptr<const Image> load(const Request& request);
  std::shared_ptr<const Image> load_from(DiskCache& cache, const Request& request);
  DiskCache* cache_to_write();
  std::shared_ptr<const Image> compile(const Request& request, DiskCache* cache);
  void set_key(Request& request) const;
  std::filesystem::path source_file(const Request& request) const;
  void write_source(const Request& request) const;

  std::vector<std::shared_ptr<const Bundle>> bundles_;
  bool compiles_at_all_;
  std::optional<std::filesystem::path> line_info_;
  std::optional<DiskCache> disk_;
  std::optional<DiskCache> shared_;
  std::mutex mutex_;
  std::unordered_map<Digest, Future, DigestHash> images_;

  std::atomic<std::uint64_t> memory_hits_{0};
  std::atomic<std::uint64_t> bundle_hits_{0};
  std::atomic<std::uint64_t> bad_images_{0};  // in bundles
  std::atomic<std::uint64_t> disk_hits_{0};
  std::atomic<std::uint64_t> disk_misses_{0};
  std::atomic<std::uint64_t> compiles_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::atomic<double> compile_ms_{0};
  std::atomic<double> saved_ms_{0};
};

}  // namespace epifuse::jit
