// Loading libcuda, and turning its result codes into sentences. The only file that knows where the driver lies.
// Called by the rest of runtime/ through driver.hpp.
#include "runtime/driver.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <chrono>
#include <mutex>

#include "base/log.hpp"
#include "base/text.hpp"

namespace epifuse::runtime {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

std::mutex open_mutex;
DriverApi loaded_driver;
bool is_loaded = false;

// Threads that are opening the driver, and one more once it is open (or a test's table has been given).
constinit std::atomic<int> driver_users{0};
constinit std::atomic<bool> cut_off{false};

// In the child of a fork: only stores, since any lock may be held by a thread that is not here. The table goes, so that
// every call of driver() ends in open_driver(), which refuses.
void after_fork() {
  if (driver_users.load(std::memory_order_relaxed) == 0) return;
  cut_off.store(true, std::memory_order_relaxed);
  detail::active_driver.store(nullptr, std::memory_order_relaxed);
}

[[maybe_unused]] const int kWatchedForks = ::pthread_atfork(nullptr, nullptr, after_fork);

// Counts the calling thread as a user of the driver; a failure to open it takes that back.
class DriverUser {
 public:
  DriverUser() { driver_users.fetch_add(1, std::memory_order_relaxed); }
  ~DriverUser() {
    if (!kept_) driver_users.fetch_sub(1, std::memory_order_relaxed);
  }
  DriverUser(const DriverUser&) = delete;
  DriverUser& operator=(const DriverUser&) = delete;
  void keep() noexcept { kept_ = true; }

 private:
  bool kept_ = false;
};

[[noreturn]] void fail_cut_off() {
  base::fail(ErrorCode::device_failed,
             "this process was forked after CUDA had been initialised, and CUDA works only in the process that "
             "initialised it: fork before the first engine and any other use of CUDA, or start the process anew "
             "(\"spawn\"); the CPU device works here");
}

template <class... Parameters>
bool find_symbol(void* library, const char* symbol, int (*&function)(Parameters...)) {
  function = reinterpret_cast<int (*)(Parameters...)>(::dlsym(library, symbol));
  return function != nullptr;
}

void* open_library(std::string& path) {
  const auto chosen = base::environment("EPIFUSE_LIBCUDA");
  path = chosen.value_or(kLibrary);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    base::fail(ErrorCode::no_driver,
               "the NVIDIA driver is not installed: {} cannot be loaded ({}); install it, make libcuda visible in the "
               "container, name it in EPIFUSE_LIBCUDA, or use the CPU device",
               path, reason == nullptr ? "no reason given" : reason);
  }
  return library;
}

// The result of a first call, which is where a driver says that it cannot work here.
void require_start(int result, const std::string& path) {
  switch (result) {
    case abi::kSuccess:
      return;
    case abi::kNotInitialized:  // what cuInit says where somebody else had initialised CUDA before the fork
      fail_cut_off();
    case abi::kNoDevice:
      base::fail(ErrorCode::no_device,
                 "the NVIDIA driver is installed, but finds no GPU; see whether nvidia-smi does, whether "
                 "CUDA_VISIBLE_DEVICES hides it, and whether a container was given one");
    case abi::kStubLibrary:
      base::fail(
          ErrorCode::no_driver,
          "{} is the toolkit's stub for linking, not a driver; install the NVIDIA driver, or name its libcuda in "
          "EPIFUSE_LIBCUDA",
          path);
    case abi::kSystemDriverMismatch:
    case abi::kCompatNotSupported:
      base::fail(ErrorCode::driver_too_old,
                 "{} does not fit the kernel driver of this machine (it returned {}); reboot after a driver update, or "
                 "drop the compatibility library from LD_LIBRARY_PATH",
                 path, result);
    default:
      check(result, "initialise the driver");
  }
}

void require_version(const DriverApi& api, const std::string& path) {
  int version = 0;
  require_start(api.driver_get_version(&version), path);
  if (version < kOldestDriver) {
    base::fail(ErrorCode::driver_too_old,
               "the NVIDIA driver ({}) supports CUDA {}, and EpiFuse needs {} or newer; update it", path,
               format_driver_version(version), format_driver_version(kOldestDriver));
  }
  base::log().debug("{} supports CUDA {}", path, format_driver_version(version));
}

// The whole table, or an Error. The version is looked at first: "too old" is the better sentence than a missing symbol.
DriverApi load_driver() {
  const auto start = std::chrono::steady_clock::now();
  std::string path;
  void* const library = open_library(path);  // never closed: the driver does not survive that
  DriverApi api;
  const char* missing = nullptr;
#define EPIFUSE_FIND(member, symbol, parameters) \
  if (!find_symbol(library, #symbol, api.member) && missing == nullptr) missing = #symbol;
  EPIFUSE_DRIVER_FUNCTIONS(EPIFUSE_FIND)
#undef EPIFUSE_FIND
  if (api.driver_get_version != nullptr) require_version(api, path);
  if (missing != nullptr) {
    base::fail(
        ErrorCode::driver_too_old,
        "the NVIDIA driver ({}) lacks the function {}, which EpiFuse calls; install one that supports CUDA {} or newer",
        path, missing, format_driver_version(kOldestDriver));
  }
  require_start(api.init(0), path);
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  base::log().debug("opened {} in {:.1f} ms", path, spent.count());
  return api;
}

const char* advice(int result) {
  switch (result) {
    case abi::kNotInitialized:
      return "; CUDA cannot be used in a process forked after it was initialised: start the process anew (\"spawn\")";
    case abi::kDeinitialized:
      return "; the process is exiting and the driver has shut down, release EpiFuse's objects before that";
    case abi::kInvalidContext:
    case abi::kContextIsDestroyed:
      return "; the CUDA context was destroyed or reset while EpiFuse used it, keep it alive as long as the engine";
    case abi::kInvalidHandle:
      return "; the stream belongs to another context or was destroyed, or the engine's context was reset";
    case abi::kInvalidImage:
    case abi::kNoBinaryForGpu:
    case abi::kUnsupportedPtxVersion:
      return "; the driver is older than the NVRTC that compiled this: update the driver, or name an NVRTC of the "
             "driver's "
             "major version in EPIFUSE_NVRTC";
    case abi::kInvalidPtx:
      return "; the driver rejects the PTX that NVRTC wrote: please report it with the log";
    case abi::kJitCompilerNotFound:
      return "; the driver's PTX compiler (libnvidia-ptxjitcompiler) is not installed, and no image of exactly this "
             "GPU's "
             "architecture could be compiled: install it, or a newer NVRTC";
    case abi::kLaunchOutOfResources:
      return "; the kernel needs more registers or threads than this GPU has: please report it";
    case abi::kStreamCaptureUnsupported:
    case abi::kStreamCaptureInvalidated:
    case abi::kStreamCaptureImplicit:
      return "; a stream is being captured and this call is not allowed meanwhile: prepare (compile and load) the "
             "kernel "
             "before the capture begins";
    case abi::kEccUncorrectable:
    case abi::kNvlinkUncorrectable:
      return "; the hardware reported an uncorrectable error: the context is lost, see the system's log";
    default:
      return is_sticky(result)
                 ? "; the context is lost, and every call on it will fail until the process starts anew. Which "
                   "kernel it was, compute-sanitizer or a run with CUDA_LAUNCH_BLOCKING=1 tells"
                 : "";
  }
}

}  // namespace

namespace detail {

constinit std::atomic<const DriverApi*> active_driver{nullptr};

const DriverApi& open_driver() {
  require_driver_of_this_process();
  DriverUser user;  // before the lock, which a fork could leave locked in the child
  const std::lock_guard lock(open_mutex);
  if (!is_loaded) {
    loaded_driver = load_driver();
    is_loaded = true;
    user.keep();
  }
  active_driver.store(&loaded_driver, std::memory_order_release);
  return loaded_driver;
}

void throw_driver_error(int result, const char* what) {
  const char* name = nullptr;
  const char* text = nullptr;
  // Only if it is open: this is also called while opening.
  if (const DriverApi* api = active_driver.load(std::memory_order_acquire)) {
    if (api->get_error_name != nullptr) api->get_error_name(result, &name);
    if (api->get_error_string != nullptr) api->get_error_string(result, &text);
  }
  ErrorCode code = ErrorCode::device_failed;
  if (result == abi::kOutOfMemory) code = ErrorCode::out_of_memory;
  if (result == abi::kNoDevice || result == abi::kInvalidDevice) code = ErrorCode::no_device;
  const std::string error = fmt::format("{} ({}){}", name == nullptr ? "error" : name, result,
                                        text == nullptr ? "" : fmt::format(", {}", text));
  // Kernels run later than they are queued: what is sticky was done before the call that is told of it.
  if (is_sticky(result)) {
    base::fail(
        code,
        "an earlier kernel or copy on this CUDA context failed, EpiFuse's or not: {}; CUDA said so when it was to {}{}",
        error, what, advice(result));
  }
  base::fail(code, "CUDA could not {}: {}{}", what, error, advice(result));
}

}  // namespace detail

bool is_cut_off() noexcept { return cut_off.load(std::memory_order_relaxed); }

void require_driver_of_this_process() {
  if (is_cut_off()) [[unlikely]]
    fail_cut_off();
}

int driver_version() {
  int version = 0;
  check(driver().driver_get_version(&version), "ask the driver for its version");
  return version;
}

std::string format_driver_version(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

bool is_sticky(int result) noexcept {
  switch (result) {
    case abi::kEccUncorrectable:
    case abi::kNvlinkUncorrectable:
    case abi::kIllegalAddress:
    case abi::kLaunchTimeout:
    case abi::kAssert:
    case abi::kHardwareStackError:
    case abi::kIllegalInstruction:
    case abi::kMisalignedAddress:
    case abi::kInvalidAddressSpace:
    case abi::kInvalidPc:
    case abi::kLaunchFailed:
      return true;
    default:
      return false;
  }
}

bool is_teardown(int result) noexcept {
  return result == abi::kDeinitialized || result == abi::kNotInitialized || result == abi::kInvalidContext ||
         result == abi::kContextIsDestroyed || is_sticky(result);
}

void set_driver_for_testing(const DriverApi* api) noexcept {
  DriverUser user;
  if (api != nullptr) user.keep();
  detail::active_driver.store(api, std::memory_order_release);
}

}  // namespace epifuse::runtime
