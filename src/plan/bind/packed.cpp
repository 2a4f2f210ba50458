// What a tensor of packed elements may look like, and its bytes.
#include "plan/bind/packed.hpp"

#include "base/text.hpp"

namespace epifuse::plan {

TensorView as_bytes(const TensorView& view) noexcept {
  if (!is_packed(view.dtype) || view.shape.size() == 0) return view;
  TensorView bytes = view;
  bytes.dtype = DType::u8;
  const int inner = view.shape.size() - 1;
  bytes.shape[inner] /= 2;
  for (int d = 0; d < inner; ++d) bytes.strides[d] /= 2;
  return bytes;
}

void check_packed(const std::string& who, const TensorView& view) {
  const int inner = view.shape.size() - 1;
  if (inner < 0 || view.shape[inner] % kPackedRun != 0) {
    base::fail(ErrorCode::invalid_argument,
               "{} has the type {}, of which a byte holds two: its innermost dimension must be a multiple of {}, found "
               "the shape {}",
               who, to_string(view.dtype), kPackedRun, to_string(view.shape));
  }
  std::int64_t dense = 1;
  for (int d = inner; d >= 0; --d) {
    if (view.shape[d] > 1 && view.strides[d] != dense) {
      base::fail(
          ErrorCode::invalid_argument,
          "{} has the type {}, of which a byte holds two: it must be dense in row-major order, found the shape {} "
          "with the strides {}",
          who, to_string(view.dtype), to_string(view.shape), to_string(view.strides));
    }
    dense *= view.shape[d];
  }
}

}  // namespace epifuse::plan
