// cuBLASLt counts columns first: it is given the transpose of everything, right^T @ left^T, whose result is the
// transpose of a row-major one.
#include "runtime/cublaslt.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include <spdlog/fmt/ranges.h>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/cublaslt_abi.hpp"
#include "runtime/driver.hpp"

namespace epifuse::runtime {
namespace {

using base::fail;
using enum ErrorCode;

constexpr std::array kLibraries = {"libcublasLt.so.13", "libcublasLt.so.12"};

void* open_library() {
  if (const auto path = base::environment("EPIFUSE_CUBLASLT")) {
    if (void* const library = ::dlopen(path->c_str(), RTLD_LAZY | RTLD_LOCAL)) return library;
    fail(unsupported, "EPIFUSE_CUBLASLT names {}, which cannot be opened: {}", *path, ::dlerror());
  }
  for (const int mode : {RTLD_LAZY | RTLD_NOLOAD, RTLD_LAZY | RTLD_LOCAL}) {
    for (const char* const name : kLibraries) {
      if (void* const library = ::dlopen(name, mode)) return library;
    }
  }
  fail(unsupported,
       "the product is computed apart from the chain, which takes cuBLASLt, and that is not installed: {}. Install it, "
       "name its "
       "file in EPIFUSE_CUBLASLT, or launch the chain behind a product of your own",
       fmt::join(kLibraries, " or "));
}

template <class Function>
void find(void* library, const char* symbol, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, symbol));
  if (function == nullptr) fail(unsupported, "this cuBLASLt has no function {}: it is older than CUDA 12", symbol);
}

CublasLtApi open_api() {
  void* const library = open_library();
  CublasLtApi api;
#define EPIFUSE_FIND(member, symbol, parameters) find(library, #symbol, api.member);
  EPIFUSE_CUBLASLT_FUNCTIONS(EPIFUSE_FIND)
#undef EPIFUSE_FIND
  return api;
}

void check_status(int status, const char* what) {
  if (status != cublaslt::kSuccess) fail(device_failed, "cuBLASLt could not {}: its status is {}", what, status);
}

// A descriptor, destroyed by that function.
class Descriptor {
 public:
  explicit Descriptor(int (*destroy)(void*)) : destroy_(destroy) {}
  ~Descriptor() {
    if (handle_ != nullptr) destroy_(handle_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  void** address() { return &handle_; }
  void* get() const { return handle_; }

 private:
  int (*destroy_)(void*);
  void* handle_ = nullptr;
};

// A matrix [batch, rows, columns] as its transpose lies column by column.
struct Layout {
  std::uint64_t rows, columns;
  std::int64_t leading, batch_stride;
  bool transposed;  // it is this matrix's transpose that lies so
};

// Elements are neighbours along dimension `inner`, and what stands one step further along `outer` begins behind them.
bool is_dense_along(const TensorView& matrix, int inner, int outer) {
  return (matrix.shape[inner] == 1 || matrix.strides[inner] == 1) &&
         (matrix.shape[outer] == 1 || matrix.strides[outer] >= matrix.shape[inner]);
}

Layout layout_of(const TensorView& matrix) {
  const bool is_row_major = is_dense_along(matrix, 2, 1);
  if (!is_row_major && !is_dense_along(matrix, 1, 2)) {
    fail(unsupported, "a factor of the product has strides {}, which cuBLASLt does not read. Make it contiguous",
         to_string(matrix.strides));
  }
  const int inner = is_row_major ? 2 : 1;
  const int outer = is_row_major ? 1 : 2;
  const std::int64_t rows = matrix.shape[inner];
  const std::int64_t columns = matrix.shape[outer];
  return {static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
          columns > 1 ? matrix.strides[outer] : rows, matrix.shape[0] > 1 ? matrix.strides[0] : 0, !is_row_major};
}

std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  constexpr std::uintptr_t kMost = 256;
  return static_cast<std::uint32_t>(address == 0 ? kMost : std::min(kMost, address & (~address + 1)));
}

}  // namespace

const CublasLtApi& cublaslt_api() {
  static const CublasLtApi api = open_api();  // tried again where it failed
  return api;
}

std::optional<int> cublaslt_type(DType type) noexcept {
  switch (type) {
    case DType::f64:
      return cublaslt::kF64;
    case DType::f32:
      return cublaslt::kF32;
    case DType::f16:
      return cublaslt::kF16;
    case DType::bf16:
      return cublaslt::kBf16;
    case DType::f8e4m3:
      return cublaslt::kF8E4M3;
    case DType::f8e5m2:
      return cublaslt::kF8E5M2;
    case DType::i8:
      return cublaslt::kI8;
    case DType::i32:
      return cublaslt::kI32;
    default:
      return std::nullopt;
  }
}

bool is_matrix_layout(const TensorView& factor, bool is_right) noexcept {
  const int rank = factor.shape.size();
  for (int d = 0; d < rank - 2; ++d) {
    if (factor.shape[d] > 1 && factor.strides[d] < 0) return false;
  }
  const bool is_row_major = is_dense_along(factor, rank - 1, rank - 2);
  const bool is_column_major = is_dense_along(factor, rank - 2, rank - 1);
  if (size_of(factor.dtype) == 1) return is_right ? is_column_major : is_row_major;
  return is_row_major || is_column_major;
}

CublasLt::CublasLt() : api_(cublaslt_api()) { check_status(api_.create(&handle_), "make a handle"); }

CublasLt::~CublasLt() {
  if (!is_cut_off()) api_.destroy(handle_);
}

void CublasLt::multiply(const TensorView& left, const TensorView& right, const OutputView& result, bool tf32,
                        StreamHandle stream, void* workspace) const {
  const bool is_f64 = left.dtype == DType::f64;
  const bool is_i8 = left.dtype == DType::i8;
  Descriptor operation(api_.operation_destroy);
  check_status(api_.operation_create(operation.address(),
                                     is_f64  ? cublaslt::kComputeF64
                                     : is_i8 ? cublaslt::kComputeI32
                                     : tf32  ? cublaslt::kComputeTf32
                                             : cublaslt::kComputeF32,
                                     is_f64  ? cublaslt::kF64
                                     : is_i8 ? cublaslt::kI32
                                             : cublaslt::kF32),
               "describe a product");
  const std::array<const TensorView*, 3> matrices = {&right, &left, &result};
  std::array<Descriptor, 3> layouts = {Descriptor(api_.layout_destroy), Descriptor(api_.layout_destroy),
                                       Descriptor(api_.layout_destroy)};
  const auto batches = static_cast<std::int32_t>(result.shape[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    const Layout layout = layout_of(*matrices[i]);
    const auto type = cublaslt_type(matrices[i]->dtype);
    if (!type) fail(unsupported, "cuBLASLt has no products of {}", to_string(matrices[i]->dtype));
    check_status(api_.layout_create(layouts[i].address(), *type, layout.rows, layout.columns, layout.leading),
                 "describe a matrix");
    check_status(api_.layout_set(layouts[i].get(), cublaslt::kBatchCount, &batches, sizeof batches),
                 "describe a batch");
    check_status(
        api_.layout_set(layouts[i].get(), cublaslt::kBatchStride, &layout.batch_stride, sizeof layout.batch_stride),
        "describe a batch");
    if (!layout.transposed || i == 2) continue;
    check_status(api_.operation_set(operation.get(), i == 0 ? cublaslt::kTransposeA : cublaslt::kTransposeB,
                                    &cublaslt::kTransposed, sizeof cublaslt::kTransposed),
                 "describe a product");
  }
  Descriptor preference(api_.preference_destroy);
  check_status(api_.preference_create(preference.address()), "describe a preference");
  const std::size_t most = kWorkspaceBytes;
  check_status(api_.preference_set(preference.get(), cublaslt::kMostWorkspace, &most, sizeof most),
               "describe a preference");
  for (const auto& [attribute, data] :
       {std::pair(cublaslt::kAlignmentA, right.data), std::pair(cublaslt::kAlignmentB, left.data),
        std::pair(cublaslt::kAlignmentC, result.data), std::pair(cublaslt::kAlignmentD, result.data)}) {
    const std::uint32_t alignment = alignment_of(data);
    check_status(api_.preference_set(preference.get(), attribute, &alignment, sizeof alignment),
                 "describe a preference");
  }
  cublaslt::Heuristic chosen{};
  int found = 0;
  const int status = api_.heuristic(handle_, operation.get(), layouts[0].get(), layouts[1].get(), layouts[2].get(),
                                    layouts[2].get(), preference.get(), 1, &chosen, &found);
  if (status != cublaslt::kSuccess || found == 0) {
    fail(unsupported,
         "cuBLASLt has no kernel for the product of {}{} and {}{} (strides {} and {}); 8-bit types take a right factor "
         "whose depth is contiguous, as linear's weight, and extents that are multiples of 16",
         to_string(left.dtype), to_string(left.shape), to_string(right.dtype), to_string(right.shape),
         to_string(left.strides), to_string(right.strides));
  }
  const double one_f64 = 1, zero_f64 = 0;
  const float one_f32 = 1, zero_f32 = 0;
  const std::int32_t one_i32 = 1, zero_i32 = 0;
  const void* const one = is_f64  ? static_cast<const void*>(&one_f64)
                          : is_i8 ? static_cast<const void*>(&one_i32)
                                  : &one_f32;
  const void* const zero = is_f64  ? static_cast<const void*>(&zero_f64)
                           : is_i8 ? static_cast<const void*>(&zero_i32)
                                   : &zero_f32;
  check_status(api_.matmul(handle_, operation.get(), one, right.data, layouts[0].get(), left.data, layouts[1].get(),
                           zero, result.data, layouts[2].get(), result.writable(), layouts[2].get(), &chosen.algorithm,
                           workspace, kWorkspaceBytes, stream),
               "compute a product");
}

}  // namespace epifuse::runtime
