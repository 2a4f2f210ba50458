// A .npy header is a Python dictionary literal with three keys. Files come from anywhere, so nothing in them is
// believed.
#include "npy_header.hpp"

#include <array>
#include <limits>
#include <optional>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "support.hpp"

namespace epifuse::tool {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

// NumPy's own headers are under a kilobyte; its reader refuses more than 10 000 bytes by default.
constexpr std::uint64_t kLongestHeader = 65'536;

struct Row {
  std::string_view code;
  DType dtype;
};
constexpr std::array<Row, 11> kTypes = {{{"f2", DType::f16},
                                         {"f4", DType::f32},
                                         {"f8", DType::f64},
                                         {"i1", DType::i8},
                                         {"u1", DType::u8},
                                         {"i2", DType::i16},
                                         {"u2", DType::u16},
                                         {"i4", DType::i32},
                                         {"u4", DType::u32},
                                         {"i8", DType::i64},
                                         {"b1", DType::boolean}}};

// What a file says may hold anything; errors show its printable part.
std::string shown(std::string_view text) {
  std::string out;
  for (const char c : text.substr(0, 60)) out += c >= ' ' && c <= '~' ? c : '?';
  return out;
}

class HeaderParser {
 public:
  HeaderParser(std::string_view text, std::string_view who) : cursor_(text), who_(who) {}

  NpyHeader parse() {
    expect('{');
    cursor_.skip_spaces();
    while (!cursor_.accept('}')) {
      entry();
      cursor_.skip_spaces();
      if (!cursor_.accept(',') && cursor_.peek() != '}') malformed("expected ',' or '}'");
      cursor_.skip_spaces();
    }
    cursor_.skip_spaces();
    if (!cursor_.done()) malformed("nothing may follow the closing '}'");
    if (!descr_ || !order_ || !shape_) {
      refuse("{}: the .npy header has no '{}'; expected 'descr', 'fortran_order' and 'shape'", who_,
             !descr_   ? "descr"
             : !order_ ? "fortran_order"
                       : "shape");
    }
    return finish();
  }

 private:
  [[noreturn]] void malformed(std::string_view what) {
    refuse("{}: the .npy header is malformed at byte {}: {}, found '{}'", who_, cursor_.position(), what,
           shown(cursor_.rest().substr(0, 20)));
  }
  void expect(char c) {
    cursor_.skip_spaces();
    if (!cursor_.accept(c)) malformed(fmt::format("expected '{}'", c));
  }

  std::string_view quoted() {
    cursor_.skip_spaces();
    const char quote = cursor_.peek();
    if (quote != '\'' && quote != '"') malformed("expected a quoted string");
    cursor_.accept(quote);
    const std::string_view rest = cursor_.rest();
    const auto size = rest.find(quote);
    if (size == rest.npos) malformed("this string has no closing quote");
    while (cursor_.peek() != quote) cursor_.accept(cursor_.peek());
    cursor_.accept(quote);
    return rest.substr(0, size);
  }

  void entry() {
    const std::string_view key = quoted();
    expect(':');
    cursor_.skip_spaces();
    if (key == "descr" && !descr_) {
      if (cursor_.peek() == '[') {
        refuse("{}: holds records (a structured dtype); expected one of {}", who_, supported());
      }
      descr_ = quoted();
    } else if (key == "fortran_order" && !order_) {
      const std::string_view word = cursor_.word();
      if (word != "True" && word != "False") malformed("expected True or False");
      order_ = word == "True";
    } else if (key == "shape" && !shape_) {
      shape_ = tuple();
    } else {
      refuse(
          "{}: the .npy header has an unknown or repeated key '{}'; expected 'descr', 'fortran_order' and 'shape', "
          "once each",
          who_, shown(key));
    }
  }

  // (), (3,), (3, 4); Python 2 wrote 3L.
  std::vector<std::int64_t> tuple() {
    std::vector<std::int64_t> values;
    expect('(');
    cursor_.skip_spaces();
    while (!cursor_.accept(')')) {
      const auto value = cursor_.integer();
      if (!value) malformed("expected an extent that fits 64 bits");
      if (*value < 0) refuse("{}: the .npy header has the negative extent {} in its shape", who_, *value);
      cursor_.accept('L');
      values.push_back(*value);
      cursor_.skip_spaces();
      if (!cursor_.accept(',') && cursor_.peek() != ')') malformed("expected ',' or ')'");
      cursor_.skip_spaces();
    }
    return values;
  }

  static std::string supported() { return "f2 f4 f8 i1 u1 i2 u2 i4 u4 i8 b1 (convert the array with NumPy's astype)"; }

  NpyHeader finish() const {
    NpyHeader header;
    header.column_major = *order_;
    const char endian = descr_->empty() ? '\0' : descr_->front();
    const std::string_view code = descr_->substr(descr_->empty() ? 0 : 1);
    const Row* row = nullptr;
    for (const Row& candidate : kTypes) {
      if (candidate.code == code) row = &candidate;
    }
    const bool one_byte = row != nullptr && size_of(row->dtype) == 1;
    const bool known_endian = endian == '<' || endian == '>' || endian == '=' || (endian == '|' && one_byte);
    if (row == nullptr || !known_endian) {
      refuse("{}: holds elements of the .npy type '{}'; expected one of {}", who_, shown(*descr_), supported());
    }
    header.dtype = row->dtype;
    header.big_endian = endian == '>' && !one_byte;
    if (shape_->size() > static_cast<std::size_t>(kMaxRank)) {
      refuse("{}: the array has {} dimensions; at most {} are supported", who_, shape_->size(), kMaxRank);
    }
    header.shape = Dims(std::span(*shape_));
    header.data_bytes = size_of(row->dtype);
    bool fits = true;
    for (const std::int64_t extent : header.shape) {
      fits = fits && !__builtin_mul_overflow(header.data_bytes, static_cast<std::uint64_t>(extent), &header.data_bytes);
    }
    if (!fits || header.data_bytes > std::numeric_limits<std::int64_t>::max()) {
      refuse("{}: an array of shape {} does not fit 64-bit addresses", who_, to_string(header.shape));
    }
    return header;
  }

  Cursor cursor_;
  std::string_view who_;
  std::optional<std::string_view> descr_;
  std::optional<bool> order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

NpyPrelude parse_npy_prelude(std::string_view start, std::string_view who) {
  if (!start.starts_with(kMagic)) {
    refuse("{}: is no .npy file: it does not begin with the bytes \\x93NUMPY (numpy.save writes such files)", who);
  }
  const int major = start.size() > 6 ? static_cast<unsigned char>(start[6]) : -1;
  if (major != -1 && (major < 1 || major > 3)) refuse("{}: is of .npy version {}; expected 1, 2 or 3", who, major);
  const std::size_t length_bytes = major == 1 ? 2 : 4;
  if (start.size() < 8 + length_bytes) refuse("{}: ends after {} bytes, inside the .npy header", who, start.size());
  const NpyPrelude prelude{8 + length_bytes, little_endian(start.substr(8, length_bytes))};
  if (prelude.header_bytes > kLongestHeader) {
    refuse("{}: claims a .npy header of {} bytes; at most {} are read", who, prelude.header_bytes, kLongestHeader);
  }
  return prelude;
}

NpyHeader parse_npy_header(std::string_view text, std::string_view who) { return HeaderParser(text, who).parse(); }

bool has_npy_type(DType dtype) noexcept { return std::ranges::find(kTypes, dtype, &Row::dtype) != kTypes.end(); }

std::string format_npy_header(DType dtype, const Dims& shape, bool column_major) {
  const Row& row = *std::ranges::find(kTypes, dtype, &Row::dtype);
  std::string extents = fmt::format("{}", fmt::join(shape.begin(), shape.end(), ", "));
  if (shape.size() == 1) extents += ',';
  std::string text = fmt::format("{{'descr': '{}{}', 'fortran_order': {}, 'shape': ({}), }}",
                                 size_of(dtype) == 1 ? '|' : '<', row.code, column_major ? "True" : "False", extents);
  // The data starts at a multiple of 64 and the header ends with a line feed.
  constexpr std::size_t kBefore = 10;
  const std::size_t total = (kBefore + text.size() + 1 + 63) / 64 * 64;
  text.append(total - kBefore - text.size() - 1, ' ');
  text += '\n';
  const auto length = text.size();
  return std::string(kMagic) +
         std::string{'\1', '\0', static_cast<char>(length & 0xff), static_cast<char>(length >> 8)} + text;
}

}  // namespace epifuse::tool
