// Writing .npy files; npy.cpp reads them.
#include "convert.hpp"
#include "npy.hpp"

namespace epifuse::tool {

StagedFile stage_npy(const std::filesystem::path& path, const TensorView& view) {
  const bool column_major = is_column_major(view) && !is_row_major(view);
  if (!column_major && !is_row_major(view)) return stage_npy(path, densified(view).view());
  if (!has_npy_type(view.dtype)) {
    const HostTensor converted = HostTensor::uninitialised({"result", DType::f32, view.shape, view.strides, 0});
    convert_elements(converted.view(), view);
    return stage_npy(path, converted.view());
  }
  StagedFile file(path);
  file.write(format_npy_header(view.dtype, view.shape, column_major));
  const auto bytes = static_cast<std::size_t>(element_count(view.shape)) * size_of(view.dtype);
  file.write({static_cast<const char*>(view.data), bytes});
  return file;
}

}  // namespace epifuse::tool
