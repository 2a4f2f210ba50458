// The grammar of the command line's operands and results (docs/guide/cli.md):
//
//   NAME=NUMBER                        a run-time scalar
//   NAME=TYPE[EXTENT,…]LAYOUT…         random data of that shape
//   NAME=@FILE   NAME=TYPE@FILE        a .npy file, converted to TYPE if given
//   [TYPE]LAYOUT…                      a result, after --out
//   LAYOUT = :nhwc  :colmajor  :colmajor(LD)  :strides(S,…)  :offset(N)
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "host_tensor.hpp"

namespace epifuse::tool {

/// How a shape lies in memory.
struct Layout {
  enum class Order { row_major, column_major, channels_last, given };
  Order order = Order::row_major;
  std::vector<std::int64_t> strides;    ///< of `given`
  std::optional<std::int64_t> leading;  ///< of `column_major`: the distance of columns, if not dense
  std::int64_t offset = 0;              ///< elements from a 256-byte boundary to element 0
};

struct RandomSource {
  DType dtype;
  Dims shape;
  Layout layout;
};
struct FileSource {
  std::optional<DType> dtype;  ///< converted to this
  std::string path;
};
struct OperandSpec {
  std::string name;
  std::variant<double, RandomSource, FileSource> source;
};
struct ResultSpec {
  std::optional<DType> dtype;
  Layout layout;
};

/// Both throw Error(invalid_argument) with what was found and what was expected.
OperandSpec parse_operand(std::string_view text);
/// The comma-separated items of all occurrences of --out; an empty item leaves the default.
std::vector<ResultSpec> parse_results(std::span<const std::string> texts);

/// Strides of `shape` in that layout; `who` ("operand 'x'") is at fault if they do not fit together.
Dims strides_of(const Layout& layout, const Dims& shape, std::string_view who);

}  // namespace epifuse::tool
