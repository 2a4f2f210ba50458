// An Engine runs epilogues on one device. It plans, compiles on first need, caches, and launches.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <epifuse/epilogue.hpp>
#include <epifuse/error.hpp>
#include <epifuse/tensor.hpp>

struct CUstream_st;

namespace epifuse {

/// The driver's CUstream and the runtime's cudaStream_t, which are the same type. nullptr is the legacy default stream.
using Stream = CUstream_st*;

/// The calling thread's own default stream (CU_STREAM_PER_THREAD). Programs that nvcc compiles with --default-stream
/// per-thread pass this where they would pass 0 to a kernel of theirs.
inline const Stream kPerThreadStream =
    reinterpret_cast<Stream>(std::uintptr_t{2});  // NOLINT(performance-no-int-to-ptr)

/// Where epilogues run.
struct Device {
  enum class Kind { cpu, cuda };
  Kind kind = Kind::cuda;
  int index = 0;

  static constexpr Device cpu() noexcept { return {Kind::cpu, 0}; }
  static constexpr Device cuda(int index) noexcept { return {Kind::cuda, index}; }
  /// The first GPU, or the CPU where there is no usable one; then `why_cpu`, if given, is a sentence that says why
  /// there is none. It is empty on a GPU. The log has it too (log.hpp). Never throws.
  static Device automatic(std::string* why_cpu = nullptr) noexcept;
  /// "auto", "cpu", "cuda" or "cuda:N"; Error(invalid_argument) otherwise.
  static Device parse(std::string_view text);
  friend bool operator==(const Device&, const Device&) = default;
};
/// "cpu", "cuda:0"
std::string to_string(Device device);

/// Kernels that `epifuse bundle` compiled (docs/guide/bundles.md): a file, or its bytes in the program's own memory.
class Bundle {
 public:
  Bundle(std::filesystem::path file) : file_(std::move(file)) {}  // NOLINT(google-explicit-constructor)
  Bundle(const char* file) : file_(file) {}                       // NOLINT(google-explicit-constructor)
  Bundle(const std::string& file) : file_(file) {}                // NOLINT(google-explicit-constructor)
  /// What `epifuse bundle --emit cpp` gives. The bytes stay where they are; `name` is for messages.
  Bundle(std::span<const std::byte> memory, std::string name) : memory_(memory), name_(std::move(name)) {}

  /// Empty where the kernels are in memory.
  const std::filesystem::path& file() const noexcept { return file_; }
  std::span<const std::byte> memory() const noexcept { return memory_; }
  const std::string& name() const noexcept { return name_; }

 private:
  std::filesystem::path file_;
  std::span<const std::byte> memory_;
  std::string name_;
};

/// Whether an engine may compile.
enum class Compile : std::uint8_t {
  on_need,  ///< what no bundle and no cache has
  never,    ///< Error(no_compiler) instead, at once, with the line to add to the list that `epifuse bundle` compiles
};

struct EngineOptions {
  /// Keep compiled images on disk (docs/guide/cache.md lists the environment variables that also steer this).
  bool disk_cache = true;
  /// Directory of the disk cache; by default EPIFUSE_CACHE_DIR or the user's cache directory.
  std::optional<std::filesystem::path> cache_directory = std::nullopt;
  /// Kernels that need no compiler and no disk cache; looked at first, in this order, then the files that
  /// EPIFUSE_BUNDLE names. What cannot be used is an Error(io) when the engine is made. On the CPU nothing is compiled,
  /// and these are not looked at.
  std::vector<Bundle> bundles = {};
  /// Absent: EPIFUSE_COMPILE, or on_need.
  std::optional<Compile> compile = std::nullopt;
  /// A folder, made if it does not exist: kernels carry the lines of their sources (NVRTC's --generate-line-info), and
  /// each source is written there, so that Nsight Compute shows which line an instruction comes from. Such kernels are
  /// compiled and cached apart from others, and bundles are not looked at. Absent: EPIFUSE_LINE_INFO, or no lines. A
  /// folder that cannot be written is an Error(io) when the engine is made.
  std::optional<std::filesystem::path> line_info = std::nullopt;
};

/// Counters since the engine was made. The log has those of the disk cache when the engine is destroyed
/// (EPIFUSE_LOG=info).
struct EngineStats {
  std::uint64_t launches = 0;
  std::uint64_t kernels = 0;      ///< distinct kernels (classes of epilogue, types and access) in use
  std::uint64_t compiles = 0;     ///< of these, compiled by NVRTC
  std::uint64_t disk_hits = 0;    ///< of these, loaded from the disk cache
  double compile_ms = 0;          ///< time spent in NVRTC
  std::uint64_t disk_misses = 0;  ///< kernels that the disk cache did not have; 0 where there is no disk cache
  std::uint64_t bad_entries = 0;  ///< entries of the disk cache and of bundles that were found bad, and were not loaded
  std::uint64_t vain_waits = 0;   ///< waits for another process's compile that ended with one here (EPIFUSE_CACHE_WAIT)
  double saved_ms = 0;            ///< what compiling the disk hits took when they were stored, less their loading
  std::uint64_t bundle_hits = 0;  ///< of the kernels, loaded from a bundle
};

/// One kernel of an engine, and what its launches have done since the engine was made.
struct KernelStats {
  std::string name;            ///< as profilers show it
  std::string chain;           ///< as text, which Epilogue::parse reads; a chain of views is told as it was lowered
  std::string kernel_class;    ///< what was decided when it was compiled, as in PlanSummary
  std::string origin;          ///< "memory", "bundle", "disk" or "compiled"
  int registers = 0;           ///< per thread
  int spilled_bytes = 0;       ///< per thread: registers that did not suffice
  std::uint64_t launches = 0;  ///< those that a CUDA graph replays are not seen
  std::uint64_t bytes = 0;     ///< read and written by these launches, each element of each operand and result once
};

/// Memory on an engine's device, freed with the object: a convenience for programs that have no allocator of their own.
/// It may outlive its engine, and keeps the device's primary context alive. A context that the application made takes
/// the memory along when it is destroyed: copies then throw Error(device_failed), and destroying the object does
/// nothing. Copies are blocking and ordered after work on the legacy default stream; they throw Error(device_failed) as
/// Engine::synchronize does.
class Array {
 public:
  Array(Array&&) noexcept;
  Array& operator=(Array&&) noexcept;
  ~Array();

  /// The whole array, dense: row-major, or as it was made like another view.
  OutputView view() const noexcept { return view_; }
  operator OutputView() const noexcept { return view_; }  // NOLINT(google-explicit-constructor)
  std::size_t size_bytes() const noexcept;
  /// Copies size_bytes() from or to host memory.
  void upload(const void* host);
  void download(void* host) const;
  /// The same from and to a vector, a span or another contiguous range, of the array's type (dtype_of) and with as many
  /// elements as it has; else Error(invalid_argument).
  template <std::ranges::contiguous_range Values>
  requires Element<std::ranges::range_value_t<Values>>
  void upload(const Values& values) {
    check_host(dtype_of<std::ranges::range_value_t<Values>>, std::ranges::size(values));
    upload(static_cast<const void*>(std::ranges::data(values)));
  }
  template <std::ranges::contiguous_range Values>
  requires Element<std::ranges::range_value_t<Values>>
  void download(Values&& values) const {
    check_host(dtype_of<std::ranges::range_value_t<Values>>, std::ranges::size(values));
    download(static_cast<void*>(std::ranges::data(values)));
  }

  struct Memory;  ///< how devices hold it; for the library's own files

 private:
  friend class Engine;
  friend class Outputs;
  Array(std::unique_ptr<Memory> memory, const OutputView& view) noexcept;
  /// Throws where host memory of that type with so many elements is not what the array holds.
  void check_host(DType type, std::size_t count) const;
  std::unique_ptr<Memory> memory_;
  OutputView view_;
};

/// The outputs of a launch in the order of the results: a view or an Array, `{y, mask}`, or any contiguous range of
/// views. A parameter's type: it refers to what it was made of.
class Outputs {
 public:
  Outputs(const OutputView& one) noexcept : views_(&one, 1) {}   // NOLINT(google-explicit-constructor)
  Outputs(const Array& one) noexcept : views_(&one.view_, 1) {}  // NOLINT(google-explicit-constructor)
  Outputs(std::initializer_list<OutputView> several) noexcept : views_(std::data(several), several.size()) {}
  template <std::ranges::contiguous_range Views>
  requires std::same_as<std::ranges::range_value_t<Views>, OutputView> Outputs(const Views& views)
  noexcept  // NOLINT(google-explicit-constructor)
      : views_(std::ranges::data(views), std::ranges::size(views)) {}

  std::span<const OutputView> views() const noexcept { return views_; }

 private:
  std::span<const OutputView> views_;
};

/// Device memory that a launch may use while it runs: uninitialised, 256-byte aligned, not used by another launch at
/// the same time. The caller's, who frees it after the launch has completed.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;
};

/// A launch to come, for Engine::prepare. The views' memory is neither read nor written, but their addresses decide how
/// wide its accesses may be.
struct Preparation {
  /// Operands in the order of tail.inputs(), which somebody has stated (Epilogue::takes_inputs_by_position).
  Preparation(Epilogue chain, std::vector<OutputView> results, std::vector<TensorView> operands)
      : tail(std::move(chain)), outputs(std::move(results)), inputs(std::move(operands)) {}
  /// By name. Throws Error(invalid_argument) for names that do not fit.
  Preparation(const Epilogue& chain, std::vector<OutputView> results, const Arguments& operands);

  Epilogue tail;
  std::vector<OutputView> outputs;
  std::vector<TensorView> inputs;
};

/// One launch of a list is prepared, or could not be.
struct PreparationProgress {
  std::size_t index = 0;         ///< which, in the list
  std::size_t done = 0;          ///< how many are, this one included
  std::size_t total = 0;         ///< length of the list
  double ms = 0;                 ///< that this one took
  const Error* error = nullptr;  ///< why it could not be; valid during the call
};

/// Thread-safe: any thread may launch, prepare, allocate and ask at any time, on any stream, beside other engines of
/// the same or other devices; only moving and destroying need that nobody else uses the object. Movable, not copyable.
/// Loaded kernels are unloaded when the engine is destroyed, which must happen after the launches have completed;
/// before or after the end of a context that the application made, but not while another thread ends it. At exit, among
/// static objects, any order will do.
///
/// What fails leaves the engine usable, and the next call tries anew: out_of_memory on the device or in NVRTC,
/// compile_failed, and device_failed where a module does not load. Final is device_failed for a context that was
/// destroyed or reset, whatever context has its handle by then: an engine in a context of the application's asks the
/// driver at each launch whether it lives (one more driver call); one in a primary context, which only a reset can end,
/// asks at all but launches, and at one launch of 1024. Until it has asked, a launch in a context that was reset and
/// begun anew is as undefined as it is with any kernel loaded before the reset. Final, too, is device_failed for a
/// context that is lost since a kernel on it failed, anybody's: the text says that an earlier kernel or copy failed,
/// and every CUDA call on that context fails from then on. In a process forked after CUDA was initialised an engine of
/// a GPU fails in the same way at once, and destroying it there is harmless; the CPU engine works on.
class Engine {
 public:
  /// On a GPU the engine works in the calling thread's current context if it belongs to that device, else in the
  /// device's primary context. Throws no_driver, driver_too_old, no_device, or out_of_memory where a context of the
  /// application's has none left.
  explicit Engine(Device device = Device::cuda(0), const EngineOptions& options = {});
  Engine(Engine&&) noexcept;
  Engine& operator=(Engine&&) noexcept;
  ~Engine();

  Device device() const noexcept;

  /// Computes `tail` on `inputs` into `outputs` (in the order of the results). Two or more inputs are given by name, or
  /// by position where the order of tail.inputs() is stated (Epilogue::takes_inputs_by_position); so are two or more
  /// scalars. Inputs broadcast against each other as in NumPy. Each output has exactly its result's shape (without
  /// reductions the broadcast shape, else Epilogue::result_shapes) and may have any type and strides. An output may be
  /// the same view as an input (in place); any other overlap is refused. On a GPU an input is refused, too, that other
  /// elements of the results need than the one that is written over it: `sum(x * v, axis=1)` over `v`,
  /// Error(unsupported). The CPU device copies it first.
  ///
  /// On a GPU: asynchronous on `stream`; once the kernel exists it synchronises nothing and allocates no device memory
  /// but a workspace, where workspace_bytes() is not 0 and the caller gives none. So it can be captured in a CUDA graph
  /// (the first launch of a class compiles: launch or prepare it once before the capture). On the CPU: `stream` is
  /// ignored and the call returns when the result is written, using all cores. Throws Error(invalid_argument) and
  /// writes nothing if anything does not fit.
  void launch(const Epilogue& tail, Stream stream, const Outputs& outputs, std::span<const TensorView> inputs,
              std::span<const double> scalars = {});
  void launch(const Epilogue& tail, Stream stream, const Outputs& outputs, std::initializer_list<TensorView> inputs,
              std::initializer_list<double> scalars = {}) {
    launch(tail, stream, outputs, std::span(inputs.begin(), inputs.size()), std::span(scalars.begin(), scalars.size()));
  }
  /// By name: `engine.launch(tail, stream, y, {{"x", c}, {"bias", b}, {"alpha", 0.5}})`.
  void launch(const Epilogue& tail, Stream stream, const Outputs& outputs, const Arguments& arguments);

  /// The same with a workspace of the caller, of at least workspace_bytes(): allocates nothing on the device. One that
  /// is too small, misaligned or not this device's memory is an Error(invalid_argument).
  void launch(const Epilogue& tail, Stream stream, const Outputs& outputs, std::span<const TensorView> inputs,
              std::span<const double> scalars, const Workspace& workspace);
  void launch(const Epilogue& tail, Stream stream, const Outputs& outputs, const Arguments& arguments,
              const Workspace& workspace);

  /// Bytes of device memory that such a launch needs beside its tensors. 0 without reductions, and for those whose rows
  /// one block or cluster holds; rows that many blocks share, and grid reductions, leave partial results there. Without
  /// a workspace of the caller it comes from the device's stream-ordered memory pool (cuMemAllocAsync on the launch's
  /// stream), which neither synchronises nor prevents capture in a graph. By name, run-time scalars may be left out.
  std::size_t workspace_bytes(const Epilogue& tail, const Outputs& outputs, std::span<const TensorView> inputs);
  std::size_t workspace_bytes(const Epilogue& tail, const Outputs& outputs, std::initializer_list<TensorView> inputs) {
    return workspace_bytes(tail, outputs, std::span(inputs.begin(), inputs.size()));
  }
  std::size_t workspace_bytes(const Epilogue& tail, const Outputs& outputs, const Arguments& arguments);

  /// Compiles (or loads from the cache) the kernel that such a launch would use, without launching it. Throws as launch
  /// does. By name, run-time scalars may be left out.
  void prepare(const Epilogue& tail, const Outputs& outputs, std::span<const TensorView> inputs);
  void prepare(const Epilogue& tail, const Outputs& outputs, std::initializer_list<TensorView> inputs) {
    prepare(tail, outputs, std::span(inputs.begin(), inputs.size()));
  }
  void prepare(const Epilogue& tail, const Outputs& outputs, const Arguments& arguments);

  /// The same for a list, on `threads` threads (0: one for each core, at most one for each entry), before a model's
  /// first step, say. Calls `progress` after each entry, from any of the threads, one call at a time. An entry that
  /// fails does not keep the others from being prepared; in the end the failure that stands first in the list is
  /// thrown. An exception of `progress` ends the work and is thrown.
  void prepare(std::span<const Preparation> list, const std::function<void(const PreparationProgress&)>& progress = {},
               unsigned threads = 0);

  /// Dense row-major memory on this device, uninitialised. Throws invalid_argument for a shape that cannot be,
  /// out_of_memory.
  Array empty(DType dtype, const Dims& shape);
  /// The same of the type and shape of `view`, whose dimensions lie in memory in the order that those of `view` do
  /// (OutputView::like).
  Array empty_like(const TensorView& view);
  /// Dense row-major memory, filled from host memory.
  Array array(DType dtype, const Dims& shape, const void* host);
  /// The same from a vector, a span or another contiguous range of as many elements as the shape has:
  /// `engine.array({16, 1, 1}, biases)`. Its elements say the type (dtype_of).
  template <std::ranges::contiguous_range Values>
  requires Element<std::ranges::range_value_t<Values>> Array array(const Dims& shape, const Values& values) {
    Array result = empty(dtype_of<std::ranges::range_value_t<Values>>, shape);
    result.upload(values);
    return result;
  }

  /// Waits for the work on `stream` (nothing to do on the CPU). Throws Error(device_failed) if work on the engine's
  /// context failed, whoever queued it.
  void synchronize(Stream stream = nullptr);

  EngineStats stats() const noexcept;
  /// All kernels of this engine, those with the most bytes first. Empty on the CPU, which has none. Any thread may ask
  /// while others launch; a launch that is under way is counted or not.
  std::vector<KernelStats> kernel_stats() const;

  struct Impl;  ///< one per kind of device; for the library's own files

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace epifuse
