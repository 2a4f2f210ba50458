// Where products and the chain run apart, the products' results lie in the workspace, in front of the chain's own. A
// convolution is a product of a copy of its windows there.
#include "api/products.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "api/convolutions.hpp"
#include "api/remembered.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/products.hpp"
#include "plan/gemm/inside.hpp"

namespace epifuse {
namespace {

// A factor that is copied before it is multiplied.
struct Copy {
  std::size_t product;
  bool is_right;
  TensorView dense;  // in no memory
  std::size_t offset;
  std::vector<WindowCopy> windows = {};  // of a convolution's images: the launches that make it

  OutputView in(void* memory) const {
    return {static_cast<std::byte*>(memory) + offset, dense.dtype, dense.shape, dense.strides};
  }
};

// A product that the device multiplies in no other way than by its own kernel: a chain of the product alone.
struct Alone {
  ir::Program program;
  std::shared_ptr<const InsideLaunch> kernel;
};

// What a launch comes to.
struct Arranged {
  plan::WithoutProducts split;
  std::shared_ptr<const InsideLaunch> inside;  // one kernel; else:
  std::vector<TensorView> results;             // of the products, at these bytes of the workspace
  std::vector<std::size_t> offsets;
  std::vector<Copy> copies;
  std::vector<std::optional<Alone>> alone;  // by product
  std::size_t of_products = 0;  // bytes of results and copies, behind which is what computing products takes
  std::size_t bytes = 0;        // in all

  /// Of `inside`.
  const std::vector<plan::Finish>& finishes() const { return inside->planned().hosted.finishes; }
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
    check_workspace(request.workspace, arranged->bytes);
    std::unique_ptr<Scratch> pooled;
    void* memory = request.workspace != nullptr ? request.workspace->data : nullptr;
    if (request.workspace == nullptr && arranged->bytes > 0) {
      pooled = engine_->scratch(arranged->bytes, request.stream);
      memory = pooled->data();
    }
    const std::span<const std::byte> own(static_cast<const std::byte*>(memory), pooled ? arranged->bytes : 0);
    if (arranged->inside) return launch_inside(*arranged, request, memory, own);
    const std::vector<TensorView> results = arranged->results_at(memory);
    for (std::size_t i = 0; i < results.size(); ++i) {
      const plan::Product& product = arranged->split.products[i];
      if (arranged->alone[i]) {
        launch_alone(*arranged->alone[i], product, request, results[i], own);
        continue;
      }
      TensorView left = product.left.view(request.inputs);
      TensorView right = product.right.view(request.inputs);
      for (const Copy& each : arranged->copies) {
        if (each.product == i) copy(each, each.is_right ? right : left, memory, own, request.stream);
      }
      OutputView made(const_cast<void*>(results[i].data), results[i].dtype, results[i].shape);
      if (product.windows) {
        right = *matrix_of_filters(right);
        made = matrix_of_result(made);
      }
      const auto scales_of = [&](const std::optional<plan::BlockScales>& scales) {
        return scales ? std::optional(scales->view(request.inputs)) : std::nullopt;
      };
      engine_->multiply({product, left, right, made, scales_of(product.left_scales), scales_of(product.right_scales),
                         static_cast<std::byte*>(memory) + arranged->of_products, own, request.stream});
    }
    const auto inputs = arranged->split.operands(request.inputs, results);
    const std::optional<Workspace> rest = behind(request.workspace, arranged->bytes);
    engine_->launch({arranged->split.chain, request.stream, request.outputs, inputs, request.scalars,
                     rest ? &*rest : nullptr, nullptr, own});
  }

  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    if (!program.has_products()) return engine_->workspace_bytes(program, outputs, inputs);
    const auto arranged = arrange({program, nullptr, outputs, inputs, {}, nullptr});
    if (arranged->inside) {
      std::size_t most = 0;  // finishes follow each other
      for (const plan::Finish& finish : arranged->finishes()) {
        const auto operands = arranged->inside->planned().operands(finish, standing_in(), inputs);
        const auto own = arranged->inside->planned().outputs(finish, outputs);
        most = std::max(most, engine_->workspace_bytes(finish.program, own, operands));
      }
      return arranged->bytes + most;
    }
    const auto apart = arranged->split.operands(inputs, arranged->results_at(standing_in()));
    return arranged->bytes + engine_->workspace_bytes(arranged->split.chain, outputs, apart);
  }

  void prepare(const LaunchRequest& request) override {
    if (!request.program.has_products()) return engine_->prepare(request);
    const auto arranged = arrange(request);
    if (arranged->inside) {
      arranged->inside->prepare(request);
      for (const plan::Finish& finish : arranged->finishes()) {
        const auto operands = arranged->inside->planned().operands(finish, standing_in(), request.inputs);
        const auto outputs = arranged->inside->planned().outputs(finish, request.outputs);
        engine_->prepare({finish.program, nullptr, outputs, operands, {}, nullptr});
      }
      return;
    }
    for (std::size_t i = 0; i < arranged->alone.size(); ++i) {
      const auto& alone = arranged->alone[i];
      if (!alone) continue;
      const plan::Product& product = arranged->split.products[i];
      const OutputView made(standing_in(), DType::f32, product.shape);
      const auto inputs = plan::operands_of(product, request.inputs);
      alone->kernel->prepare({alone->program, nullptr, std::span(&made, 1), inputs, {}, nullptr});
    }
    for (const Copy& each : arranged->copies) {
      const plan::Product& product = arranged->split.products[each.product];
      const TensorView from = (each.is_right ? product.right : product.left).view(request.inputs);
      const OutputView dense = each.in(standing_in());
      const auto prepare = [&](const ir::Program& program, const OutputView& to) {
        engine_->prepare({program, nullptr, std::span(&to, 1), std::span(&from, 1), {}, nullptr});
      };
      for (const WindowCopy& one : each.windows) prepare(one.program, one.in(dense));
      if (each.windows.empty()) prepare(ir::identity(), dense);
    }
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

  // The kernel, and what makes results of its partial ones.
  void launch_inside(const Arranged& arranged, const LaunchRequest& request, void* memory,
                     std::span<const std::byte> own) {
    arranged.inside->launch(request, memory);
    const std::optional<Workspace> rest = behind(request.workspace, arranged.bytes);
    for (const plan::Finish& finish : arranged.finishes()) {
      const auto operands = arranged.inside->planned().operands(finish, memory, request.inputs);
      const auto outputs = arranged.inside->planned().outputs(finish, request.outputs);
      engine_->launch(
          {finish.program, request.stream, outputs, operands, request.scalars, rest ? &*rest : nullptr, nullptr, own});
    }
  }

  static void launch_alone(const Alone& alone, const plan::Product& product, const LaunchRequest& request,
                           const TensorView& result, std::span<const std::byte> own) {
    const OutputView made(const_cast<void*>(result.data), DType::f32, product.shape);
    const auto inputs = plan::operands_of(product, request.inputs);
    alone.kernel->launch({alone.program, request.stream, std::span(&made, 1), inputs, {}, nullptr, nullptr, own},
                         nullptr);
  }

  // Nothing where the device multiplies such factors otherwise.
  std::optional<Alone> alone(const LaunchRequest& request, const plan::Product& product) const {
    if (!product.has_scales() || engine_->multiplies_scaled()) return std::nullopt;
    Alone made{plan::program_of(product), nullptr};
    const auto inputs = plan::operands_of(product, request.inputs);
    const OutputView result(standing_in(), DType::f32, product.shape);
    const LaunchRequest own{made.program, nullptr, std::span(&result, 1), inputs, {}, nullptr};
    std::string why;
    made.kernel = engine_->inside(plan::split_products(made.program, inputs), own, why);
    if (made.kernel == nullptr)
      base::fail(ErrorCode::unsupported,
                 "'{}' has scales that vary along the depth, and no kernel multiplies by them here: {}. Scales of rows "
                 "and of columns run everywhere, and so do factors that 'dequantize' writes in a chain of its own",
                 product.text, why);
    return made;
  }

  // `factor` is its copy from here on.
  void copy(const Copy& copy, TensorView& factor, void* memory, std::span<const std::byte> own, Stream stream) {
    const OutputView dense = copy.in(memory);
    const TensorView from = factor;
    const auto launch = [&](const ir::Program& program, const OutputView& to) {
      engine_->launch({program, stream, std::span(&to, 1), std::span(&from, 1), {}, nullptr, nullptr, own});
    };
    for (const WindowCopy& one : copy.windows) launch(one.program, one.in(dense));
    if (copy.windows.empty()) launch(ir::identity(), dense);
    factor = dense;
  }

  // As DeviceEngine::copied, of filters: they are multiplied as a matrix.
  std::optional<Dims> copied_filters(const plan::Factor& filters) const {
    const auto matrix = matrix_of_filters({nullptr, filters.dtype, filters.shape, filters.strides});
    if (matrix && !engine_->copied({0, 0, filters.dtype, matrix->shape, matrix->strides, filters.text}, true))
      return std::nullopt;
    return channels_last(filters.shape);
  }

  std::shared_ptr<const Arranged> arrange(const LaunchRequest& request) {
    return arranged_.get(request, [&] {
      Arranged made;
      made.split = plan::split_products(request.program, request.inputs);
      std::string why;
      made.inside = engine_->inside(made.split, request, why);
      if (made.inside) {
        made.bytes = static_cast<std::size_t>(made.inside->planned().plan.partial_bytes());
        return made;
      }
      const auto reserve = [&](const TensorView& dense) {
        const std::size_t bytes = dense_bytes(dense.dtype, dense.shape);
        made.of_products += (bytes + kWorkspaceAlignment - 1) / kWorkspaceAlignment * kWorkspaceAlignment;
      };
      for (std::size_t i = 0; i < made.split.products.size(); ++i) {
        const plan::Product& product = made.split.products[i];
        made.results.push_back(product.result(engine_->type_of_product(product)));
        made.offsets.push_back(made.of_products);
        reserve(made.results.back());
        made.alone.push_back(alone(request, product));
        if (made.alone.back()) continue;
        for (const bool is_right : {false, true}) {
          const plan::Factor& factor = is_right ? product.right : product.left;
          if (product.windows && !is_right) {
            made.copies.push_back({i, false, matrix_of_windows(product), made.of_products, copies_of_windows(product)});
          } else if (const auto strides =
                         product.windows ? copied_filters(factor) : engine_->copied(factor, is_right)) {
            made.copies.push_back(
                {i, is_right, TensorView(nullptr, factor.dtype, factor.shape, *strides), made.of_products});
          } else {
            continue;
          }
          reserve(made.copies.back().dense);
        }
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
