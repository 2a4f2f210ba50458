// Where products and the chain run apart, the products' results lie in the workspace, in front of the chain's own.
#include "api/products.hpp"

#include <optional>
#include <vector>

#include "api/remembered.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "plan/bind/products.hpp"

namespace epifuse {
namespace {

constexpr std::size_t kAlignment = 256;

// What a launch comes to.
struct Arranged {
  plan::WithoutProducts split;
  std::shared_ptr<const InsideLaunch> inside;  // one kernel; else:
  std::vector<TensorView> results;             // of the products, at these bytes of the workspace
  std::vector<std::size_t> offsets;
  std::size_t of_products = 0;  // bytes of their results, behind which is what computing them takes
  std::size_t bytes = 0;        // in all

  std::vector<TensorView> results_at(void* memory) const {
    std::vector<TensorView> placed = results;
    for (std::size_t i = 0; i < placed.size() && memory != nullptr; ++i)
      placed[i].data = static_cast<std::byte*>(memory) + offsets[i];
    return placed;
  }
};

class WithProducts : public Engine::Impl {
 public:
  explicit WithProducts(std::unique_ptr<DeviceEngine> engine) : engine_(std::move(engine)) {}

  Device device() const noexcept override { return engine_->device(); }

  void launch(const LaunchRequest& request) override {
    if (!request.program.has_products()) return engine_->launch(request);
    const auto arranged = arrange(request);
    if (arranged->inside) return arranged->inside->launch(request);
    check_workspace(request.workspace, arranged->bytes);
    std::unique_ptr<Scratch> pooled;
    void* memory = request.workspace != nullptr ? request.workspace->data : nullptr;
    if (request.workspace == nullptr && arranged->bytes > 0) {
      pooled = engine_->scratch(arranged->bytes, request.stream);
      memory = pooled->data();
    }
    const std::vector<TensorView> results = arranged->results_at(memory);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const plan::Product& product = arranged->split.products[i];
      engine_->multiply({product, product.left.view(request.inputs), product.right.view(request.inputs),
                         OutputView(const_cast<void*>(results[i].data), results[i].dtype, results[i].shape),
                         static_cast<std::byte*>(memory) + arranged->of_products, pooled != nullptr, request.stream});
    }
    const auto inputs = arranged->split.operands(request.inputs, results);
    const std::optional<Workspace> rest = behind(request.workspace, arranged->bytes);
    const std::size_t own = pooled ? arranged->of_products : 0;
    engine_->launch({arranged->split.chain,
                     request.stream,
                     request.outputs,
                     inputs,
                     request.scalars,
                     rest ? &*rest : nullptr,
                     nullptr,
                     {static_cast<const std::byte*>(memory), own}});
  }

  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    if (!program.has_products()) return engine_->workspace_bytes(program, outputs, inputs);
    const auto arranged = arrange({program, nullptr, outputs, inputs, {}, nullptr});
    if (arranged->inside) return 0;
    const auto apart = arranged->split.operands(inputs, arranged->results_at(standing_in()));
    return arranged->bytes + engine_->workspace_bytes(arranged->split.chain, outputs, apart);
  }

  void prepare(const LaunchRequest& request) override {
    if (!request.program.has_products()) return engine_->prepare(request);
    const auto arranged = arrange(request);
    if (arranged->inside) return arranged->inside->prepare(request);
    const auto inputs = arranged->split.operands(request.inputs, arranged->results_at(standing_in()));
    engine_->prepare({arranged->split.chain, nullptr, request.outputs, inputs, {}, nullptr});
  }

  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override { return engine_->allocate(bytes); }
  void synchronize(Stream stream) override { engine_->synchronize(stream); }
  EngineStats stats() const noexcept override { return engine_->stats(); }
  std::vector<KernelStats> kernel_stats() const override { return engine_->kernel_stats(); }

 private:
  // For plans of launches whose workspace does not exist yet: an address that no memory has, on a boundary.
  static void* standing_in() { return reinterpret_cast<void*>(std::uintptr_t{1} << 60); }

  static std::optional<Workspace> behind(const Workspace* workspace, std::size_t bytes) {
    if (workspace == nullptr) return std::nullopt;
    return Workspace{static_cast<std::byte*>(workspace->data) + bytes, workspace->bytes - bytes};
  }

  std::shared_ptr<const Arranged> arrange(const LaunchRequest& request) {
    return arranged_.get(request, [&] {
      Arranged made{plan::split_products(request.program, request.inputs), nullptr, {}, {}};
      std::string why;
      made.inside = engine_->inside(made.split, request, why);
      if (made.inside) return made;
      for (const plan::Product& product : made.split.products) {
        made.results.emplace_back(nullptr, engine_->type_of_product(product), product.shape);
        made.offsets.push_back(made.of_products);
        std::size_t bytes = size_of(made.results.back().dtype);
        for (const std::int64_t extent : product.shape) bytes *= static_cast<std::size_t>(extent);
        made.of_products += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      }
      made.bytes = made.of_products + engine_->multiply_bytes();
      base::log().debug("{} and the chain behind run apart: {}", made.split.products[0].text, why);
      return made;
    });
  }

  std::unique_ptr<DeviceEngine> engine_;
  Remembered<Arranged> arranged_;
};

}  // namespace

std::unique_ptr<Engine::Impl> with_products(std::unique_ptr<DeviceEngine> engine) {
  return std::make_unique<WithProducts>(std::move(engine));
}

}  // namespace epifuse
