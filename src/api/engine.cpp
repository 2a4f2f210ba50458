// The public Engine: checks that need no device, and the choice of the device.
#include <algorithm>
#include <charconv>
#include <exception>
#include <system_error>

#include <spdlog/fmt/ranges.h>

#include <epifuse/engine.hpp>

#include "api/arguments.hpp"
#include "api/engine_impl.hpp"
#include "api/prepare_each.hpp"
#include "api/products.hpp"
#include "api/remembered.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "ir/program.hpp"
#include "plan/bind/views.hpp"
#include "runtime/device.hpp"

namespace epifuse {

using base::fail;
using enum ErrorCode;

std::size_t dense_bytes(DType dtype, const Dims& shape) noexcept {
  std::size_t elements = 1;
  for (const std::int64_t extent : shape) elements *= static_cast<std::size_t>(extent);
  return size_of(dtype, elements);
}

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

Device Device::automatic(std::string* why_cpu) noexcept {
  if (why_cpu != nullptr) why_cpu->clear();
  try {
    if (runtime::device_count() > 0) return cuda(0);
    fail(no_device, "the driver finds no GPU that may be used (CUDA_VISIBLE_DEVICES counts)");
  } catch (const std::exception& problem) {  // no driver, too old, or no GPU: the CPU always works
    try {
      base::log().info("the CPU device is chosen: {}", problem.what());
      if (why_cpu != nullptr) *why_cpu = problem.what();
    } catch (
        const std::exception&) {  // NOLINT(bugprone-empty-catch): no memory for the sentence, which nothing depends on
    }
    return cpu();
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

std::size_t Array::size_bytes() const noexcept { return dense_bytes(view_.dtype, view_.shape); }

void Array::check_host(DType type, std::size_t count) const {
  const std::size_t expected = dense_bytes(DType::u8, view_.shape);
  if (type == view_.dtype && count == expected) return;
  fail(invalid_argument, "an array of shape {} has {} elements of type {}; found {} of type {}", to_string(view_.shape),
       expected, to_string(view_.dtype), count, to_string(type));
}

void Array::upload(const void* host) {
  if (size_bytes() > 0) memory_->upload(host, size_bytes());
}

void Array::download(void* host) const {
  if (size_bytes() > 0) memory_->download(host, size_bytes());
}

// ---- Engine

Preparation::Preparation(const Epilogue& chain, std::vector<OutputView> results, const Arguments& operands)
    : tail(chain.inputs(chain.inputs())), outputs(std::move(results)) {
  const Positional given = in_order(chain, operands, false);
  inputs.assign(given.inputs.begin(), given.inputs.end());
}

namespace {

void check_positions(const Epilogue& tail, std::span<const double> scalars) {
  check_input_order(tail);
  check_scalar_order(tail);
  check_scalars(tail.program(), scalars);
}

// Devices know no views: a chain that has some is the chain that these become with the request's tensors.
class WithoutViews : public DeviceEngine {
 public:
  explicit WithoutViews(std::unique_ptr<DeviceEngine> engine) : engine_(std::move(engine)) {}

  Device device() const noexcept override { return engine_->device(); }
  void launch(const LaunchRequest& request) override {
    if (!request.program.is_lowered_first()) return engine_->launch(request);
    const auto lowered = lower(request);
    const auto inputs = lowered->views(request.inputs);
    const auto outputs = lowered->outputs(request.outputs, request.inputs);
    engine_->launch({lowered->program, request.stream, outputs, inputs, request.scalars, request.workspace, &request,
                     request.own, lowered.get()});
  }
  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    if (!program.is_lowered_first()) return engine_->workspace_bytes(program, outputs, inputs);
    const auto lowered = lower({program, nullptr, outputs, inputs, {}, nullptr});
    return engine_->workspace_bytes(lowered->program, lowered->outputs(outputs, inputs), lowered->views(inputs));
  }
  void prepare(const LaunchRequest& request) override {
    if (!request.program.is_lowered_first()) return engine_->prepare(request);
    const auto lowered = lower(request);
    const auto inputs = lowered->views(request.inputs);
    const auto outputs = lowered->outputs(request.outputs, request.inputs);
    engine_->prepare({lowered->program, nullptr, outputs, inputs, {}, nullptr, &request, {}, lowered.get()});
  }
  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  void synchronize(Stream stream) override { engine_->synchronize(stream); }
  EngineStats stats() const noexcept override { return engine_->stats(); }
  std::vector<KernelStats> kernel_stats() const override { return engine_->kernel_stats(); }
  std::shared_ptr<const InsideLaunch> inside(const plan::WithoutProducts& split, const LaunchRequest& request,
                                             std::string& why) override {
    return engine_->inside(split, request, why);
  }
  DType type_of_product(const plan::Product& product) const override { return engine_->type_of_product(product); }
  void multiply(const ProductLaunch& launch) override { engine_->multiply(launch); }
  bool multiplies_scaled() const override { return engine_->multiplies_scaled(); }
  std::optional<Dims> copied(const plan::Factor& factor, bool is_right) const override {
    return engine_->copied(factor, is_right);
  }
  std::size_t multiply_bytes() const override { return engine_->multiply_bytes(); }
  std::unique_ptr<Scratch> scratch(std::size_t bytes, Stream stream) override {
    return engine_->scratch(bytes, stream);
  }

 private:
  std::shared_ptr<const plan::Lowered> lower(const LaunchRequest& request) {
    return lowered_.get(request, [&] { return plan::lower(request.program, request.inputs); });
  }

  std::unique_ptr<DeviceEngine> engine_;
  Remembered<plan::Lowered> lowered_;
};

}  // namespace

Engine::Engine(Device device, const EngineOptions& options)
    : impl_(with_products(std::make_unique<WithoutViews>(
          device.kind == Device::Kind::cpu ? make_cpu_engine() : make_cuda_engine(device.index, options)))) {}
Engine::Engine(Engine&&) noexcept = default;
Engine& Engine::operator=(Engine&&) noexcept = default;
Engine::~Engine() = default;

Device Engine::device() const noexcept { return impl_->device(); }

void Engine::launch(const Epilogue& tail, Stream stream, const Outputs& outputs, std::span<const TensorView> inputs,
                    std::span<const double> scalars) {
  check_positions(tail, scalars);
  impl_->launch({tail.program(), stream, outputs.views(), inputs, scalars, nullptr});
}

void Engine::launch(const Epilogue& tail, Stream stream, const Outputs& outputs, std::span<const TensorView> inputs,
                    std::span<const double> scalars, const Workspace& workspace) {
  check_positions(tail, scalars);
  impl_->launch({tail.program(), stream, outputs.views(), inputs, scalars, &workspace});
}

void Engine::launch(const Epilogue& tail, Stream stream, const Outputs& outputs, const Arguments& arguments) {
  const Positional given = in_order(tail, arguments, true);
  check_scalars(tail.program(), given.scalars);
  impl_->launch({tail.program(), stream, outputs.views(), given.inputs, given.scalars, nullptr});
}

void Engine::launch(const Epilogue& tail, Stream stream, const Outputs& outputs, const Arguments& arguments,
                    const Workspace& workspace) {
  const Positional given = in_order(tail, arguments, true);
  check_scalars(tail.program(), given.scalars);
  impl_->launch({tail.program(), stream, outputs.views(), given.inputs, given.scalars, &workspace});
}

std::size_t Engine::workspace_bytes(const Epilogue& tail, const Outputs& outputs, std::span<const TensorView> inputs) {
  check_input_order(tail);
  return impl_->workspace_bytes(tail.program(), outputs.views(), inputs);
}

std::size_t Engine::workspace_bytes(const Epilogue& tail, const Outputs& outputs, const Arguments& arguments) {
  return impl_->workspace_bytes(tail.program(), outputs.views(), in_order(tail, arguments, false).inputs);
}

void Engine::prepare(const Epilogue& tail, const Outputs& outputs, std::span<const TensorView> inputs) {
  check_input_order(tail);
  impl_->prepare({tail.program(), nullptr, outputs.views(), inputs, {}, nullptr});
}

void Engine::prepare(const Epilogue& tail, const Outputs& outputs, const Arguments& arguments) {
  impl_->prepare({tail.program(), nullptr, outputs.views(), in_order(tail, arguments, false).inputs, {}, nullptr});
}

void Engine::prepare(std::span<const Preparation> list, const std::function<void(const PreparationProgress&)>& progress,
                     unsigned threads) {
  prepare_each(
      list.size(), threads,
      [&](std::size_t i) {
        check_input_order(list[i].tail);
        impl_->prepare({list[i].tail.program(), nullptr, list[i].outputs, list[i].inputs, {}, nullptr});
      },
      progress);
}

Array Engine::empty(DType dtype, const Dims& shape) { return empty_like({nullptr, dtype, shape}); }

Array Engine::empty_like(const TensorView& like) {
  std::size_t bytes = size_of(like.dtype);
  for (const std::int64_t extent : like.shape) {
    if (extent < 0)
      fail(invalid_argument, "an array cannot have the shape {}: an extent is negative", to_string(like.shape));
    if (__builtin_mul_overflow(bytes, static_cast<std::size_t>(extent), &bytes)) {
      fail(invalid_argument, "an array of shape {} is larger than any memory", to_string(like.shape));
    }
  }
  auto memory = impl_->allocate(dense_bytes(like.dtype, like.shape));
  const OutputView view = OutputView::like(like, memory->data());
  return {std::move(memory), view};
}

Array Engine::array(DType dtype, const Dims& shape, const void* host) {
  Array result = empty(dtype, shape);
  result.upload(host);
  return result;
}

void Engine::synchronize(Stream stream) { impl_->synchronize(stream); }

EngineStats Engine::stats() const noexcept { return impl_->stats(); }

std::vector<KernelStats> Engine::kernel_stats() const {
  std::vector<KernelStats> kernels = impl_->kernel_stats();
  std::ranges::stable_sort(kernels, std::ranges::greater(), &KernelStats::bytes);
  return kernels;
}

}  // namespace epifuse
