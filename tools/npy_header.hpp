// The header of NumPy's .npy files, format versions 1, 2 and 3: text in, values out, nothing read from disk here.
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <epifuse/tensor.hpp>

namespace epifuse::tool {

struct NpyHeader {
  DType dtype = DType::f32;
  bool big_endian = false;
  bool column_major = false;
  Dims shape;
  std::uint64_t data_bytes = 0;
};

/// Magic, version and the length field: what one must read to know how much more to read.
inline constexpr std::size_t kNpyPreludeBytes = 12;
struct NpyPrelude {
  std::uint64_t header_at = 0;
  std::uint64_t header_bytes = 0;
};
/// `start` holds the first kNpyPreludeBytes of the file, or all of it if that is less. `who` opens every error.
NpyPrelude parse_npy_prelude(std::string_view start, std::string_view who);
/// The dictionary after the prelude.
NpyHeader parse_npy_header(std::string_view text, std::string_view who);

/// Prelude and dictionary of a version 1.0 file, padded to 64 bytes. Types that NumPy lacks are not for this function.
std::string format_npy_header(DType dtype, const Dims& shape, bool column_major);
/// True for the types that .npy files can hold.
bool has_npy_type(DType dtype) noexcept;

}  // namespace epifuse::tool
