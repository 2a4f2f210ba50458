// The public Engine: checks that need no device, names to positions, and the choice of the device.
#include <algorithm>
#include <charconv>
#include <exception>
#include <system_error>

#include <epifuse/engine.hpp>

#include "api/engine_impl.hpp"
#include "api/lowering.hpp"
#include "api/prepare_each.hpp"
#include "base/inline_vector.hpp"
#include "base/text.hpp"
#include "ir/program.hpp"
#include "runtime/device.hpp"

namespace epifuse {
namespace {

using base::fail;
using enum ErrorCode;

constexpr std::uintptr_t kWorkspaceAlignment = 256;

// Values in the order of `names`, from named ones in any order.
template <class T>
base::InlineVector<T, 8> in_order(const std::vector<std::string>& names,
                                  const std::vector<std::pair<std::string, T>>& given, std::string_view what) {
  base::InlineVector<T, 8> values(names.size());
  base::InlineVector<bool, 8> found(names.size(), false);
  for (const auto& [name, value] : given) {
    const auto it = std::ranges::find(names, name);
    if (it == names.end()) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      const auto suggestion = base::nearest(name, known);
      fail(invalid_argument, "the chain has no {} '{}'{}; it has: {}", what, base::shown(name),
           suggestion ? fmt::format(" (did you mean '{}'?)", *suggestion) : "",
           names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    }
    const auto i = static_cast<std::size_t>(it - names.begin());
    if (found[i]) fail(invalid_argument, "the {} '{}' is given twice", what, name);
    found[i] = true;
    values[i] = value;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!found[i]) fail(invalid_argument, "the {} '{}' of the chain is missing", what, names[i]);
  }
  return values;
}

void check_scalars(const ir::Program& program, std::span<const double> scalars) {
  if (scalars.size() == program.scalars().size()) {
    for (const ir::Value value : program.randoms()) {
      ir::random_word(program, program.node(value).args[1], scalars);
      ir::random_word(program, program.node(value).args[2], scalars);
    }
    return;
  }
  fail(invalid_argument, "the chain takes {} run-time scalar{} ({}), but {} {} given", program.scalars().size(),
       program.scalars().size() == 1 ? "" : "s", fmt::join(program.scalars(), ", "), scalars.size(),
       scalars.size() == 1 ? "was" : "were");
}

}  // namespace

void check_workspace(const Workspace* workspace, std::size_t needed) {
  if (workspace == nullptr) return;
  if (workspace->bytes < needed) {
    fail(invalid_argument, "the workspace has {} bytes; this launch needs {} (Engine::workspace_bytes)",
         workspace->bytes, needed);
  }
  if (workspace->data == nullptr && needed > 0) {
    fail(invalid_argument,
         "the workspace is a null pointer; this launch needs {} bytes: allocate them, or launch without a workspace",
         needed);
  }
  if (reinterpret_cast<std::uintptr_t>(workspace->data) % kWorkspaceAlignment != 0) {
    fail(invalid_argument, "the workspace's address {} is not a multiple of {}", fmt::ptr(workspace->data),
         kWorkspaceAlignment);
  }
}

// ---- Device

Device Device::automatic() noexcept {
  try {
    return runtime::device_count() > 0 ? cuda(0) : cpu();
  } catch (const std::exception&) {
    return cpu();  // no driver, too old, or no GPU: the CPU always works
  }
}

Device Device::parse(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text == "auto") return automatic();
  if (text == "cpu") return cpu();
  if (text == kCuda) return cuda(0);
  if (text.starts_with(kCuda) && text.size() > kCuda.size() + 1 && text[kCuda.size()] == ':') {
    const std::string_view digits = text.substr(kCuda.size() + 1);
    int index = -1;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (status == std::errc() && end == digits.data() + digits.size() && index >= 0) return cuda(index);
  }
  fail(invalid_argument, "'{}' is not a device: expected auto, cpu, cuda or cuda:N", base::shown(text));
}

std::string to_string(Device device) {
  return device.kind == Device::Kind::cpu ? "cpu" : fmt::format("cuda:{}", device.index);
}

// ---- Array

Array::Array(std::unique_ptr<Memory> memory, const OutputView& view) noexcept
    : memory_(std::move(memory)), view_(view) {}
Array::Array(Array&&) noexcept = default;
Array& Array::operator=(Array&&) noexcept = default;
Array::~Array() = default;

std::size_t Array::size_bytes() const noexcept {
  std::size_t bytes = size_of(view_.dtype);
  for (const std::int64_t extent : view_.shape) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void Array::upload(const void* host) {
  if (size_bytes() > 0) memory_->upload(host, size_bytes());
}

void Array::download(void* host) const {
  if (size_bytes() > 0) memory_->download(host, size_bytes());
}

// ---- Engine

namespace {

// Devices know no views: a chain that has some is the chain that these become with the request's tensors.
class WithoutViews : public Engine::Impl {
 public:
  explicit WithoutViews(std::unique_ptr<Engine::Impl> engine) : engine_(std::move(engine)) {}

  Device device() const noexcept override { return engine_->device(); }
  void launch(const LaunchRequest& request) override {
    if (!request.program.has_views()) return engine_->launch(request);
    const auto lowered = lowerings_.get(request);
    const auto inputs = lowered->views(request.inputs);
    engine_->launch({lowered->program, request.stream, request.outputs, inputs, request.scalars, request.workspace});
  }
  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    if (!program.has_views()) return engine_->workspace_bytes(program, outputs, inputs);
    const auto lowered = lowerings_.get({program, nullptr, outputs, inputs, {}, nullptr});
    return engine_->workspace_bytes(lowered->program, outputs, lowered->views(inputs));
  }
  void prepare(const ir::Program& program, std::span<const OutputView> outputs,
               std::span<const TensorView> inputs) override {
    if (!program.has_views()) return engine_->prepare(program, outputs, inputs);
    const auto lowered = lowerings_.get({program, nullptr, outputs, inputs, {}, nullptr});
    engine_->prepare(lowered->program, outputs, lowered->views(inputs));
  }
  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  void synchronize(Stream stream) override { engine_->synchronize(stream); }
  EngineStats stats() const noexcept override { return engine_->stats(); }

 private:
  std::unique_ptr<Engine::Impl> engine_;
  LoweringTable lowerings_;
};

}  // namespace

Engine::Engine(Device device, const EngineOptions& options)
    : impl_(std::make_unique<WithoutViews>(
          device.kind == Device::Kind::cpu ? make_cpu_engine() : make_cuda_engine(device.index, options))) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Device Engine::device() const noexcept { return impl_->device(); }

void Engine::launch(const Epilogue& tail, Stream stream, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs, std::span<const double> scalars) {
  check_scalars(tail.program(), scalars);
  impl_->launch({tail.program(), stream, outputs, inputs, scalars, nullptr});
}

void Engine::launch(const Epilogue& tail, Stream stream, std::span<const OutputView> outputs,
                    std::span<const TensorView> inputs, std::span<const double> scalars, const Workspace& workspace) {
  check_scalars(tail.program(), scalars);
  impl_->launch({tail.program(), stream, outputs, inputs, scalars, &workspace});
}

std::size_t Engine::workspace_bytes(const Epilogue& tail, std::span<const OutputView> outputs,
                                    std::span<const TensorView> inputs) {
  return impl_->workspace_bytes(tail.program(), outputs, inputs);
}

void Engine::launch(const Epilogue& tail, Stream stream, std::span<const OutputView> outputs,
                    const Arguments& arguments) {
  const auto inputs = in_order(tail.inputs(), arguments.inputs, "operand");
  const auto scalars = in_order(tail.scalars(), arguments.scalars, "scalar");
  check_scalars(tail.program(), scalars);
  impl_->launch({tail.program(), stream, outputs, inputs, scalars, nullptr});
}

void Engine::prepare(const Epilogue& tail, std::span<const OutputView> outputs, std::span<const TensorView> inputs) {
  impl_->prepare(tail.program(), outputs, inputs);
}

void Engine::prepare(std::span<const Preparation> list, const std::function<void(const PreparationProgress&)>& progress,
                     unsigned threads) {
  prepare_each(
      list.size(), threads,
      [&](std::size_t i) { impl_->prepare(list[i].tail.program(), list[i].outputs, list[i].inputs); }, progress);
}

Array Engine::empty(DType dtype, const Dims& shape) {
  OutputView view(nullptr, dtype, shape);
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (extent < 0)
      fail(invalid_argument, "an array cannot have the shape {}: an extent is negative", to_string(shape));
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      fail(invalid_argument, "an array of shape {} is larger than any memory", to_string(shape));
    }
  }
  auto memory = impl_->allocate(bytes);
  view.data = memory->data();
  return {std::move(memory), view};
}

Array Engine::array(DType dtype, const Dims& shape, const void* host) {
  Array result = empty(dtype, shape);
  result.upload(host);
  return result;
}

void Engine::synchronize(Stream stream) { impl_->synchronize(stream); }

EngineStats Engine::stats() const noexcept { return impl_->stats(); }

}  // namespace epifuse
