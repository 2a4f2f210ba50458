// Emits, compiles in parallel processes, loads, runs, judges. A failure is shrunk with a compiler run per attempt.
#include "emitted/workshop.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "plan/bind/views.hpp"
#include "support/guarded.hpp"

namespace epifuse::test {
namespace {

namespace fs = std::filesystem;

// More in one compiler run saves the shim's headers; fewer spread better over the processes.
constexpr std::size_t kKernelsPerFile = 12;
constexpr int kShrinkAttempts = 60;
constexpr std::size_t kMostFailures = 5;
constexpr std::size_t kMostText = 4000;  // of a compiler's messages

// Null, or what went wrong.
using Launch = const char* (*)(unsigned blocks, unsigned threads, unsigned cluster, std::size_t dynamic_shared,
                               const void* params, std::size_t size);

// Blocks per cluster of a plan's launch.
unsigned cluster_of(const plan::Plan& plan) {
  return plan.kernel_class.reduction() ? static_cast<unsigned>(plan.kernel_class.reduction()->cluster_blocks()) : 1;
}

// Null, or what went wrong. A plan without blocks says that there is nothing to write.
const char* launch_plan(Launch launch, const plan::Plan& plan, std::span<const std::byte> params) {
  if (plan.blocks == 0) return nullptr;
  return launch(plan.blocks, static_cast<unsigned>(plan.threads), cluster_of(plan),
                static_cast<std::size_t>(plan.shared_bytes), params.data(), params.size());
}

class Directory {
 public:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "epifuse-emitted-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary directory could be made");
    path_ = pattern;
  }
  ~Directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// The word at a place: letters, digits and '_'.
std::string_view word_at(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && (std::isalnum(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
  return text.substr(at, end - at);
}

// Shared memory of a block is the shim's: the lines that declare it become a reference and a pointer. Searched for by
// hand: regular expressions took a quarter of the time of all tests of emitted text.
std::string with_shared_memory(std::string_view text) {
  constexpr std::string_view kDeclaration = "  __shared__ Shared shared;\n";
  constexpr std::string_view kDynamic = "extern __shared__ ";
  const bool declares = text.find(kDeclaration) != text.npos;
  std::string out;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
    text.remove_prefix(line.size());
    const std::size_t dynamic = line.find(kDynamic);
    const std::string_view type = dynamic == line.npos ? "" : word_at(line, dynamic + kDynamic.size());
    const std::string_view name = type.empty() ? "" : word_at(line, dynamic + kDynamic.size() + type.size() + 1);
    if (line.ends_with(kDeclaration)) {
      out += "  Shared& shared = ::epifuse::shim::shared<Shared>();\n";
    } else if (!name.empty() && line.ends_with(std::string(name) + "[];\n")) {
      out += fmt::format("  {0}* {1} = ::epifuse::shim::dynamic_shared<{0}>({2});\n", type, name,
                         declares ? "sizeof(Shared)" : "0");
    } else {
      out += line;
    }
  }
  return out;
}

// The name of a source's kernel.
std::string kernel_name(std::string_view source) {
  constexpr std::string_view kBounds = "__launch_bounds__(";
  const std::size_t bounds = source.find(kBounds);
  const std::size_t close = bounds == source.npos ? source.npos : source.find(") ", bounds);
  const std::string_view name = close == source.npos ? "" : word_at(source, close + 2);
  if (name.empty()) throw std::runtime_error("an emitted source has no kernel");
  return std::string(name);
}

bool has_barriers(const std::string& text) {
  return text.find("__sync") != std::string::npos || text.find("__shfl") != std::string::npos ||
         text.find("cluster_") != std::string::npos;
}

// Each source in a namespace of its own, its kernel under a name of its own: the text stays as it was emitted.
std::string translation_unit(const std::vector<const std::string*>& sources) {
  std::string out = "#include \"support/cuda_shim.hpp\"\n";
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::string n = std::to_string(i);
    const std::string name = kernel_name(*sources[i]);
    const char* waits = has_barriers(*sources[i]) ? "true" : "false";
    out += "#define " + name + " kernel_" + n + "\nnamespace source_" + n + " {\n" + with_shared_memory(*sources[i]) +
           "}\n#undef " + name + "\n";
    out += "extern \"C\" const char* launch_" + n +
           "(unsigned blocks, unsigned threads, unsigned cluster, unsigned long dynamic_shared, const void* params, "
           "unsigned long size) {\n  return epifuse::shim::run_grid(source_" +
           n + "::kernel_" + n + ", {blocks, threads, cluster, dynamic_shared}, " + waits + ", params, size);\n}\n";
  }
  out += "extern \"C\" void run_in_reverse(bool reverse) { epifuse::shim::reverse_order = reverse; }\n";
  out +=
      "extern \"C\" void order_asynchronous_work(epifuse::shim::When when, unsigned long long dice) {\n"
      "  epifuse::shim::when = when;\n  epifuse::shim::dice = dice;\n}\n";
  out += "extern \"C\" const char* count_asked(unsigned long& bytes) { return epifuse::shim::count_asked(bytes); }\n";
  return out;
}

// A shared object made of sources, loaded as long as the object lives.
class Loaded {
 public:
  Loaded(const fs::path& directory, const std::string& name, const std::vector<const std::string*>& sources) {
    const fs::path source = directory / (name + ".cpp");
    const fs::path object = directory / (name + ".so");
    const fs::path log = directory / (name + ".log");
    std::ofstream(source) << translation_unit(sources);
    const std::string command =
        EPIFUSE_EMITTED_CXX " -shared " + source.string() + " -o " + object.string() + " > " + log.string() + " 2>&1";
    if (std::system(command.c_str()) != 0) {
      std::ifstream in(log);
      throw std::runtime_error("an emitted source does not compile as C++:\n" +
                               std::string(std::istreambuf_iterator<char>(in), {}));
    }
    handle_ = dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) throw std::runtime_error(dlerror());
    fs::remove(source);
    fs::remove(object);
  }
  ~Loaded() { dlclose(handle_); }
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;

  Launch launch(std::size_t i) const {
    void* symbol = dlsym(handle_, ("launch_" + std::to_string(i)).c_str());
    if (symbol == nullptr) throw std::runtime_error("the compiled text lacks its kernel");
    return reinterpret_cast<Launch>(symbol);
  }
  // Which block launches of this thread begin with.
  void run_in_reverse(bool reverse) const {
    reinterpret_cast<void (*)(bool)>(dlsym(handle_, "run_in_reverse"))(reverse);
  }
  // When asynchronous work of this thread's launches is done, of kernels of products.
  void order_asynchronous_work(shim::When when, unsigned long long dice) const {
    reinterpret_cast<void (*)(shim::When, unsigned long long)>(dlsym(handle_, "order_asynchronous_work"))(when, dice);
  }
  // What this thread's last launch asked for.
  std::size_t loaded_per_thread() const {
    unsigned long bytes = 0;
    reinterpret_cast<const char* (*)(unsigned long&)>(dlsym(handle_, "count_asked"))(bytes);
    return bytes;
  }

 private:
  void* handle_ = nullptr;
};

// What runs when a sanitizer ends the process: the report alone does not say which case it was.
thread_local const Case* running_case = nullptr;

void print_running_case() {
  if (running_case != nullptr) std::fprintf(stderr, "while running the case\n%s", running_case->str().c_str());
}

void name_case_on_death() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(print_running_case);
#else
  static_cast<void>(print_running_case);
#endif
}

// What a plan asks for: zeros where it wants them, elsewhere NaN, so that what no block wrote shows.
class Workspace {
 public:
  explicit Workspace(const plan::Workspace& wanted) {
    if (posix_memalign(&memory_, 256, std::max<std::size_t>(wanted.bytes, 1)) != 0) throw std::bad_alloc();
    std::memset(memory_, 0xff, wanted.bytes);
    std::memset(memory_, 0, wanted.zeroed_bytes);
  }
  ~Workspace() { std::free(memory_); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  const void* data() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
};

// Tensors are too small for blocks as far ahead as the plan says.
void prefetch_soon(plan::Plan& plan) {
  if (plan.prefetch_distance > 0 && plan.rows > 0)
    plan.prefetch_distance = plan.kernel_class.reduction()->cluster() * (1 + plan.tiles % 2);
}

// A case bound to guarded memory: what the planner and the kernel see.
class Bound {
 public:
  explicit Bound(const Case& test, const plan::Machine& machine = {})
      : test_(test), tail_(to_epilogue(test.chain)), before_(test), after_(before_) {
    for (Image& image : after_.inputs) guard(image);
    for (Image& image : after_.outputs) guard(image);
    views_ = make_views(test, tail_, after_, [&](const Image& image) { return guards_[index_of(image)]->data(); });
    plan_ = plan::make_plan(tail_.program(), views_.outputs, views_.inputs, plan::Views::real, machine);
    // From the end, which the plan chooses for tensors that are too large to be emulated.
    plan_.reverse_order = !plan_.kernel_class.reduction() && plan_.tiles % 2 == 0;
    prefetch_soon(plan_);
  }

  const Epilogue& tail() const { return tail_; }
  const plan::Plan& plan() const { return plan_; }
  std::string source() const {
    return codegen::emit(tail_.program(), plan_.kernel_class, plan_.space.input_kinds(), codegen::Compilers::both);
  }

  std::optional<std::string> run(Launch launch, Coverage* coverage) {
    const Workspace workspace(plan_.workspace);
    const std::vector<std::byte> params = codegen::pack(tail_.program(), plan_, views_.scalars, workspace.data());
    running_case = &test_;
    const char* problem = launch_plan(launch, plan_, params);
    running_case = nullptr;
    if (problem != nullptr) return problem;
    std::size_t i = 0;
    for (auto* images : {&after_.inputs, &after_.outputs}) {
      for (Image& image : *images) guards_[i++]->copy_to(image);
    }
    return judge(test_, before_, after_, coverage);
  }

  bool has_same_results(const Bound& other) const {
    return std::ranges::equal(after_.outputs, other.after_.outputs, {}, &Image::bytes, &Image::bytes);
  }

 private:
  void guard(const Image& image) { guards_.push_back(std::make_unique<Guarded>(image)); }
  std::size_t index_of(const Image& image) const {
    const bool is_input = std::greater_equal<>()(&image, after_.inputs.data()) &&
                          std::less<>()(&image, after_.inputs.data() + after_.inputs.size());
    return static_cast<std::size_t>(is_input ? &image - after_.inputs.data()
                                             : &image - after_.outputs.data() +
                                                   static_cast<std::ptrdiff_t>(after_.inputs.size()));
  }

  const Case& test_;
  Epilogue tail_;
  Memory before_, after_;
  std::vector<std::unique_ptr<Guarded>> guards_;
  Views views_;
  plan::Plan plan_;
};

std::string fingerprint(const ir::Program& program) {
  return std::to_string(program.fingerprint().low) + "/" + std::to_string(program.fingerprint().high);
}

// Compiles and runs one case by itself.
std::optional<std::string> run_alone(const Case& test, const plan::Machine& machine) {
  static std::atomic<int> number = 0;
  const Directory directory;
  Bound bound(test, machine);
  const std::string source = bound.source();
  const Loaded loaded(directory.path(), "alone" + std::to_string(number++), {&source});
  return bound.run(loaded.launch(0), nullptr);
}

Case shrink_emitted(const Case& test, const plan::Machine& machine) {
  return shrink(
      test, [&](const Case& smaller) { return run_alone(smaller, machine).has_value(); }, kShrinkAttempts);
}

std::string describe_failure(const Case& small, const plan::Machine& machine, const std::string& problem) {
  const auto again = run_alone(small, machine);
  Bound bound(small, machine);
  return small.str() + "  plan: " + plan::to_text(bound.plan().kernel_class) + "\n  " +
         again.value_or("(passes alone)") + "\n  before shrinking: " + problem + "\n";
}

// A launch as the engine plans it: views are pushed down to the operands first.
struct Planned {
  ir::Program program;
  plan::Plan plan;
  std::string source;
};

Planned planned_launch(const Emitted& launch, const plan::Machine& machine) {
  const ir::Program& program = launch.tail.program();
  const bool is_lowered = program.is_lowered_first();
  const plan::Lowered lowered = is_lowered ? plan::lower(program, launch.inputs) : plan::Lowered{program, {}};
  const auto views = lowered.views(launch.inputs);
  const auto slices = lowered.outputs(launch.outputs, launch.inputs);
  const std::span<const OutputView> outputs = is_lowered ? std::span<const OutputView>(slices) : launch.outputs;
  const std::span<const TensorView> inputs = is_lowered ? std::span<const TensorView>(views) : launch.inputs;
  plan::Plan plan = plan::make_plan(lowered.program, outputs, inputs, plan::Views::real, machine);
  prefetch_soon(plan);
  std::string source =
      codegen::emit(lowered.program, plan.kernel_class, plan.space.input_kinds(), codegen::Compilers::both);
  return {lowered.program, std::move(plan), std::move(source)};
}

}  // namespace

#if defined(__SANITIZE_ADDRESS__)
// What is undefined traps in emitted text: a report, and the case, instead of silence. Where memory was allocated the
// case says; to remember the stack of each allocation took a tenth of the time. Read by the sanitizer as it starts.
extern "C" const char* __asan_default_options() { return "handle_sigill=1:malloc_context_size=1"; }
#endif

Asked run_emitted(const Epilogue& tail, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
                  std::span<const double> scalars, const plan::Machine& machine) {
  const auto [program, plan, source] = planned_launch({tail, outputs, inputs}, machine);
  const Directory directory;
  const Loaded loaded(directory.path(), "launch", {&source});
  const Workspace workspace(plan.workspace);
  const std::vector<std::byte> params = codegen::pack(program, plan, scalars, workspace.data());
  const char* problem = launch_plan(loaded.launch(0), plan, params);
  if (problem != nullptr) throw std::runtime_error(problem);
  return {plan::to_text(plan.kernel_class), plan.blocks, plan.prefetch_distance, loaded.loaded_per_thread()};
}

std::optional<std::string> run_in_any_order(const Case& test, const plan::Machine& machine) {
  const Directory directory;
  Bound first(test, machine);
  const std::string source = first.source();
  const Loaded loaded(directory.path(), "order", {&source});
  if (const auto problem = first.run(loaded.launch(0), nullptr)) return problem;
  for (const bool reverse : {false, true}) {
    Bound again(test, machine);
    loaded.run_in_reverse(reverse);
    const auto problem = again.run(loaded.launch(0), nullptr);
    loaded.run_in_reverse(false);
    if (problem) return problem;
    if (!again.has_same_results(first))
      return reverse ? "the last block first: other bits" : "a second run: other bits";
  }
  return std::nullopt;
}

std::vector<std::optional<std::string>> run_emitted(std::span<const Emitted> launches) {
  std::vector<std::optional<std::string>> problems;
  const Directory directory;
  for (std::size_t first = 0; first < launches.size(); first += kKernelsPerFile) {
    std::vector<Planned> planned;
    for (const Emitted& one : launches.subspan(first, std::min(kKernelsPerFile, launches.size() - first)))
      planned.push_back(planned_launch(one, {}));
    std::vector<const std::string*> sources;
    for (const Planned& one : planned) sources.push_back(&one.source);
    const Loaded loaded(directory.path(), "launches" + std::to_string(first), sources);
    for (std::size_t i = 0; i < planned.size(); ++i) {
      const auto& [program, plan, source] = planned[i];
      const Workspace workspace(plan.workspace);
      const std::vector<std::byte> params = codegen::pack(program, plan, {}, workspace.data());
      const char* problem = launch_plan(loaded.launch(i), plan, params);
      problems.push_back(problem == nullptr ? std::nullopt : std::optional<std::string>(problem));
    }
  }
  return problems;
}

struct CompiledText::Impl {
  explicit Impl(const std::string& text) : loaded(directory.path(), "text", {&text}) {}
  Directory directory;
  Loaded loaded;
};

CompiledText::CompiledText(const std::string& text) : impl_(std::make_shared<const Impl>(text)) {}

std::optional<std::string> CompiledText::run(const Grid& grid, std::span<const std::byte> params) const {
  impl_->loaded.order_asynchronous_work(grid.when, grid.dice);
  const char* problem =
      impl_->loaded.launch(0)(grid.blocks, grid.threads, grid.cluster, 0, params.data(), params.size());
  return problem == nullptr ? std::nullopt : std::optional<std::string>(problem);
}

std::optional<std::string> run_text(const std::string& text, unsigned blocks, unsigned threads, unsigned cluster,
                                    std::span<const std::byte> params) {
  return CompiledText(text).run({blocks, threads, cluster}, params);
}

void Workshop::add(Case test, const plan::Machine& machine) {
  const Bound bound(test, machine);
  const std::string text = bound.source();
  const auto [by_text, is_new] = by_text_.try_emplace(text, sources_.size());
  if (is_new) sources_.push_back({text, {}});
  const std::string key = fingerprint(bound.tail().program()) + " " + plan::to_text(bound.plan().kernel_class);
  const auto by_class = by_class_.try_emplace(key, by_text->second).first;
  if (by_class->second != by_text->second) ++ambiguous_classes_;
  // The class in words, by which the engine finds kernels, tells apart what the class in letters does, and no more.
  const plan::ClassCode code = plan::code_of(bound.plan().kernel_class);
  const std::string words = fingerprint(bound.tail().program()) + " " + fmt::format("{}", fmt::join(code, " "));
  if (by_code_.try_emplace(words, key).first->second != key) ++ambiguous_classes_;
  if (codes_.try_emplace(key, words).first->second != words) ++ambiguous_classes_;
  sources_[by_text->second].cases.push_back(cases_.size());
  cases_.push_back(std::move(test));
  machines_.push_back(machine);
}

std::size_t Workshop::kernels_with(std::string_view text) const {
  const auto contains = [&](const Source& source) { return source.text.find(text) != std::string::npos; };
  return static_cast<std::size_t>(std::ranges::count_if(sources_, contains));
}

std::size_t Workshop::classes_with(std::string_view text) const {
  const auto says = [&](const auto& entry) { return entry.first.find(text) != std::string::npos; };
  return static_cast<std::size_t>(std::ranges::count_if(by_class_, says));
}

WorkshopReport Workshop::run(unsigned threads, const std::function<void(const Case&)>& before) {
  name_case_on_death();
  WorkshopReport report;
  report.cases = cases_.size();
  report.kernels = sources_.size();
  const Directory directory;
  std::atomic<std::size_t> next_file = 0;
  std::mutex mutex;
  const std::size_t files = (sources_.size() + kKernelsPerFile - 1) / kKernelsPerFile;

  const auto run_file = [&](std::size_t file) {
    const std::size_t first = file * kKernelsPerFile;
    const std::size_t last = std::min(first + kKernelsPerFile, sources_.size());
    std::vector<const std::string*> texts;
    for (std::size_t i = first; i < last; ++i) texts.push_back(&sources_[i].text);
    const auto start = std::chrono::steady_clock::now();
    const Loaded loaded(directory.path(), "file" + std::to_string(file), texts);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    Coverage coverage;
    for (std::size_t i = first; i < last; ++i) {
      for (const std::size_t index : sources_[i].cases) {
        Bound bound(cases_[index], machines_[index]);
        if (before) before(cases_[index]);
        const auto problem = bound.run(loaded.launch(i - first), &coverage);
        const std::lock_guard lock(mutex);
        if (problem && report.failures.size() < kMostFailures) {
          report.smallest.push_back(shrink_emitted(cases_[index], machines_[index]));
          report.failures.push_back(describe_failure(report.smallest.back(), machines_[index], *problem));
        }
      }
    }
    const std::lock_guard lock(mutex);
    report.compile_seconds += seconds;
    report.coverage.elements += coverage.elements;
    report.coverage.exact += coverage.exact;
    report.coverage.anything += coverage.anything;
  };
  const auto work = [&] {
    for (std::size_t file = next_file++; file < files; file = next_file++) {
      try {
        run_file(file);
      } catch (const std::exception& problem) {
        const std::lock_guard lock(mutex);
        if (report.failures.size() < kMostFailures)
          report.failures.push_back(std::string(problem.what()).substr(0, kMostText));
      }
    }
  };
  if (threads == 0) threads = std::max(2u, std::thread::hardware_concurrency());
  std::vector<std::jthread> helpers;
  for (unsigned i = 1; i < threads; ++i) helpers.emplace_back(work);
  work();
  helpers.clear();
  return report;
}

}  // namespace epifuse::test
