// .npy files on disk: read whole and checked, written aside and renamed.
#pragma once

#include <filesystem>
#include <string_view>

#include "host_tensor.hpp"
#include "npy_header.hpp"
#include "staged_file.hpp"

namespace epifuse::tool {

/// `-` is standard input, which is read to its end the first time. Another file of that name is `./-`.
/// Reads the header and checks that the file is as long as it says. Error(invalid_argument): the user named the file.
NpyHeader inspect_npy(const std::filesystem::path& path, std::string_view operand);
/// The tensor, of the file's type, in the file's order.
TensorInfo npy_tensor_info(const NpyHeader& header, std::string_view operand);
HostTensor read_npy(const std::filesystem::path& path, std::string_view operand);

/// Stages `view` as a .npy file; types that NumPy lacks become f32. Column-major tensors keep their order, others
/// become row-major.
StagedFile stage_npy(const std::filesystem::path& path, const TensorView& view);

}  // namespace epifuse::tool
