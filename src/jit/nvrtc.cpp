// Opening NVRTC and compiling with it: the only file that calls NVRTC's functions.
// Called through nvrtc.hpp.
#include "jit/nvrtc.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <charconv>
#include <chrono>

#include <spdlog/fmt/ranges.h>

#include "base/log.hpp"
#include "base/text.hpp"

namespace epifuse::jit {
namespace {

// The number that stands before the first `unit`; 0 without one.
int number_before(std::string_view log, std::string_view unit) {
  const auto end = log.find(unit);
  if (end == log.npos) return 0;
  auto begin = end;
  while (begin > 0 && log[begin - 1] >= '0' && log[begin - 1] <= '9') --begin;
  int number = 0;
  std::from_chars(log.data() + begin, log.data() + end, number);
  return number;
}

}  // namespace

Resources resources_of(std::string_view log) {
  return {number_before(log, " registers"), number_before(log, " bytes smem"),
          number_before(log, " bytes spill stores")};
}

namespace {

template <class Function>
void find_symbol(void* library, const std::filesystem::path& path, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(::dlsym(library, symbol));
  if (function == nullptr) {
    base::fail(
        ErrorCode::no_compiler,
        "{} lacks the function {}, which NVRTC has had since CUDA 11.2; install NVRTC 12 or newer, or name another "
        "library in EPIFUSE_NVRTC",
        path.string(), symbol);
  }
}

// Never closed: NVRTC starts threads and keeps state, and kernels may be compiled during static destruction.
abi::Functions load(const std::filesystem::path& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const reason = ::dlerror();
    base::fail(ErrorCode::no_compiler, "NVRTC cannot be loaded from {} ({}); name a working library in EPIFUSE_NVRTC",
               path.string(), reason == nullptr ? "no reason given" : reason);
  }
  abi::Functions functions;
#define EPIFUSE_FIND(member, symbol, result, parameters) find_symbol(library, path, #symbol, functions.member);
  EPIFUSE_NVRTC_FUNCTIONS(EPIFUSE_FIND)
#undef EPIFUSE_FIND
  return functions;
}

// One nvrtcProgram, destroyed on every way out.
class ProgramOwner {
 public:
  ProgramOwner(const abi::Functions& functions, abi::Program program) : functions_(functions), program_(program) {}
  ~ProgramOwner() { functions_.destroy_program(&program_); }
  ProgramOwner(const ProgramOwner&) = delete;
  ProgramOwner& operator=(const ProgramOwner&) = delete;

 private:
  const abi::Functions& functions_;
  abi::Program program_;
};

// The text that comes with a size function and a copy function; NVRTC counts the final NUL, a std::string does not.
std::string read_text(int (*size_of)(abi::Program, std::size_t*), int (*copy)(abi::Program, char*),
                      abi::Program program) {
  std::size_t size = 0;
  if (size_of(program, &size) != abi::kSuccess || size == 0) return {};
  std::string text(size, '\0');
  if (copy(program, text.data()) != abi::kSuccess) return {};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

}  // namespace

const Nvrtc& Nvrtc::get() {
  static const Nvrtc& nvrtc = *new Nvrtc(locate_nvrtc());  // leaked on purpose: see load()
  return nvrtc;
}

Nvrtc::Nvrtc(const NvrtcLocation& location) : path_(location.path) {
  const auto start = std::chrono::steady_clock::now();
  functions_ = load(path_);
  check(functions_.get_version(&version_.major, &version_.minor), "tell its version");
  int count = 0;
  check(functions_.get_num_supported_archs(&count), "count its architectures");
  architectures_.resize(static_cast<std::size_t>(std::max(count, 0)));
  check(functions_.get_supported_archs(architectures_.data()), "list its architectures");
  std::ranges::sort(architectures_);
  base::log().debug("opened NVRTC {}.{} ({}) in {:.1f} ms", version_.major, version_.minor, path_.string(),
                    milliseconds_since(start));
}

void Nvrtc::check(int result, const char* what) const {
  if (result == abi::kSuccess) return;
  base::fail(result == abi::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::compile_failed,
             "NVRTC ({}) could not {}: {}", path_.string(), what, functions_.get_error_string(result));
}

std::string Nvrtc::compile(const std::string& source, const std::string& name, const Target& target) const {
  return compile(source, name, target, compile_options(target));
}

std::string Nvrtc::compile(const std::string& source, const std::string& name, const Target& target,
                           const std::vector<std::string>& options, std::string* log) const {
  const auto start = std::chrono::steady_clock::now();
  if (std::ranges::find(architectures_, target.architecture) == architectures_.end()) {
    base::fail(
        ErrorCode::unsupported,
        "NVRTC {}.{} does not compile for sm_{}; it compiles for sm_{}. Another NVRTC can be named in EPIFUSE_NVRTC",
        version_.major, version_.minor, target.architecture, fmt::join(architectures_, ", sm_"));
  }
  std::vector<const char*> arguments;
  arguments.reserve(options.size() + 1);
  for (const std::string& option : options) arguments.push_back(option.c_str());
  // Halves the time of a small kernel (13 ms from 27 for the first): it leaves out declarations of textures and of the
  // CUDA runtime, which emitted sources do not use. CUDA 12.4 added it; older versions reject it.
  if (version_.major > 12 || (version_.major == 12 && version_.minor >= 4)) arguments.push_back("-minimal");

  // NVRTC keeps a disk cache of its own since 12.9 (User Guide, "Caching"). Ours is checked, bounded and private; two
  // would only hide what a compile costs, and a hit there has no log.
  if (version_.major > 12 || (version_.major == 12 && version_.minor >= 9)) arguments.push_back("--no-cache");

  abi::Program program = nullptr;
  check(functions_.create_program(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr), "take the source");
  const ProgramOwner owner(functions_, program);
  const int result = functions_.compile_program(program, static_cast<int>(arguments.size()), arguments.data());
  if (result != abi::kSuccess && result != abi::kCompilation) {
    base::fail(
        result == abi::kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::compile_failed,
        "NVRTC {}.{} could not compile the kernel {} for {} ({}). Its text is not the reason: memory may have run out, "
        "or this NVRTC may not know an option: {}",
        version_.major, version_.minor, name, to_string(target), functions_.get_error_string(result),
        fmt::join(arguments, " "));
  }
  if (result == abi::kCompilation) {
    base::fail(ErrorCode::compile_failed,
               "NVRTC {}.{} rejected the kernel {} for {} ({}), which is a bug in EpiFuse unless the source was "
               "changed; please "
               "report it with all of this text.\noptions: {}\n{}\n{}",
               version_.major, version_.minor, name, to_string(target), functions_.get_error_string(result),
               fmt::join(arguments, " "),
               read_text(functions_.get_program_log_size, functions_.get_program_log, program), source);
  }
  if (log != nullptr) *log = read_text(functions_.get_program_log_size, functions_.get_program_log, program);
  std::string image;
  if (target.kind == ImageKind::ptx) {
    image = read_text(functions_.get_ptx_size, functions_.get_ptx, program);
  } else {
    std::size_t size = 0;
    check(functions_.get_cubin_size(program, &size), "tell the size of the compiled kernel");
    image.resize(size);
    check(functions_.get_cubin(program, image.data()), "hand over the compiled kernel");
  }
  if (image.empty()) {
    base::fail(ErrorCode::compile_failed,
               "NVRTC {}.{} compiled {} for {} but gave no image; the options must name a real architecture (sm_NN) "
               "for a cubin "
               "and a virtual one (compute_NN) for PTX, and were: {}",
               version_.major, version_.minor, name, to_string(target), fmt::join(arguments, " "));
  }
  base::log().debug("compiled {} for {} in {:.1f} ms: {} bytes", name, to_string(target), milliseconds_since(start),
                    image.size());
  return image;
}

}  // namespace epifuse::jit
