// What an Engine does, without saying on which device. For the files of api/ only.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <epifuse/engine.hpp>

#include "ir/program.hpp"
#include "plan/bind/products.hpp"
#include "plan/bind/views.hpp"

namespace epifuse {

namespace plan {
struct Inside;
}

/// Memory of an Array.
struct Array::Memory {
  virtual ~Memory() = default;
  virtual void* data() const noexcept = 0;
  virtual void upload(const void* host, std::size_t bytes) = 0;
  virtual void download(void* host, std::size_t bytes) const = 0;
};

/// What a launch is given.
struct LaunchRequest {
  const ir::Program& program;
  Stream stream;
  std::span<const OutputView> outputs;
  std::span<const TensorView> inputs;
  std::span<const double> scalars;
  const Workspace* workspace;  ///< null where the caller gave none
  /// The launch as the caller gave it, where views made this one of it.
  const LaunchRequest* written = nullptr;
  /// Memory of the engine's own, which operands may lie in: nobody need ask what it is, and while a graph is captured
  /// nobody can.
  std::span<const std::byte> own = {};
  /// What views made of it, for who explains the plan; null where there were none.
  const plan::Lowered* lowered = nullptr;

  /// The launch that text can say: bounds of operands have no words.
  const LaunchRequest& in_words() const noexcept {
    return written != nullptr && !program.bounds().empty() ? *written : *this;
  }
};

/// Memory of a launch that nobody else has until the work on its stream that was queued before this is destroyed is
/// done.
struct Scratch {
  virtual ~Scratch() = default;
  virtual void* data() const noexcept = 0;
};

/// One kernel for a product and the chain around it, for launches of equal signatures. What the chain reduces is left
/// as partial results; chains of their own (plan::Inside::hosted.finishes) make the other results of these.
struct InsideLaunch {
  virtual ~InsideLaunch() = default;
  /// Partial results go to `partials`, of planned().plan.partial_bytes() bytes.
  virtual void launch(const LaunchRequest& request, void* partials) const = 0;
  virtual void prepare(const LaunchRequest& request) const = 0;
  virtual const plan::Inside& planned() const = 0;
};

struct Engine::Impl {
  virtual ~Impl() = default;
  virtual Device device() const noexcept = 0;
  virtual void launch(const LaunchRequest& request) = 0;
  virtual std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                                      std::span<const TensorView> inputs) = 0;
  /// Of the request the chain, the outputs and the inputs count.
  virtual void prepare(const LaunchRequest& request) = 0;
  virtual std::unique_ptr<Array::Memory> allocate(std::size_t bytes) = 0;
  virtual void synchronize(Stream stream) = 0;
  virtual EngineStats stats() const noexcept = 0;
  virtual std::vector<KernelStats> kernel_stats() const { return {}; }
};

/// A product that is computed apart from the chain around it.
struct ProductLaunch {
  const plan::Product& product;
  TensorView left, right;  ///< the factors in their memory
  OutputView result;       ///< dense
  std::optional<plan::ScaleView> left_scales, right_scales;
  void* workspace;                 ///< of multiply_bytes() bytes
  std::span<const std::byte> own;  ///< as LaunchRequest::own
  Stream stream;
};

/// An engine that does what chains with products need besides (products.cpp).
struct DeviceEngine : Engine::Impl {
  /// The kernel that computes the product and the chain, or null, and in `why` the reason. `request` is of the chain
  /// with products.
  virtual std::shared_ptr<const InsideLaunch> inside(const plan::WithoutProducts&, const LaunchRequest&,
                                                     std::string& why) {
    why = "the device computes products apart";
    return nullptr;
  }
  /// Of the result of `multiply`.
  virtual DType type_of_product(const plan::Product& product) const { return product.dtype; }
  virtual void multiply(const ProductLaunch& launch) = 0;
  /// Whether `multiply` takes factors with scales of blocks. Else inside() has a kernel of such a product, or none.
  virtual bool multiplies_scaled() const { return false; }
  /// The strides of a copy that is to be multiplied instead of a factor; nothing where it is read as it lies.
  virtual std::optional<Dims> copied(const plan::Factor&, bool /*is_right*/) const { return std::nullopt; }
  /// Of ProductLaunch::workspace.
  virtual std::size_t multiply_bytes() const { return 0; }
  virtual std::unique_ptr<Scratch> scratch(std::size_t bytes, Stream stream) = 0;
};

/// Of workspaces, and of what lies in them.
inline constexpr std::size_t kWorkspaceAlignment = 256;

/// Of a dense tensor of that type and shape.
std::size_t dense_bytes(DType dtype, const Dims& shape) noexcept;

/// Throws if the caller's workspace is too small for a launch that needs so many bytes, or not aligned. Null: nothing
/// to check.
void check_workspace(const Workspace* workspace, std::size_t needed);

std::unique_ptr<DeviceEngine> make_cpu_engine();
std::unique_ptr<DeviceEngine> make_cuda_engine(int index, const EngineOptions& options);

}  // namespace epifuse
