// Naive index arithmetic on shape and strides: nothing here is merged, sorted or classified.
#include "support/operand.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <optional>

#include "support/storage.hpp"

namespace epifuse::test {

std::int64_t Operand::elements() const noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

std::string Operand::str() const {
  std::string out = std::string(to_string(dtype)) + to_string(shape);
  if (strides != row_major(shape)) out += " strides " + to_string(strides);
  if (lead != 0) out += " + " + std::to_string(lead) + " elements";
  return out;
}

Image::Image(const Operand& operand) {
  const auto size = static_cast<std::int64_t>(size_of(operand.dtype));
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (int i = 0; i < operand.shape.size(); ++i) {
    const std::int64_t reach = (operand.shape[i] - 1) * operand.strides[i];
    (reach < 0 ? lowest : highest) += reach;
  }
  const std::int64_t span = operand.elements() == 0 ? 0 : highest - lowest + 1;
  lead = static_cast<std::size_t>(operand.lead * size);
  first = operand.elements() == 0 ? lead : static_cast<std::size_t>((operand.lead - lowest) * size);
  bytes.assign(static_cast<std::size_t>((operand.lead + span) * size), 0);
}

std::vector<double> special_values() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {std::numeric_limits<double>::quiet_NaN()};
  const std::vector<double> magnitudes = {0,          kInf,       0x1p-149,
                                          0x1p-126,   0x1p-1074,  0x1p-1022,
                                          0x1p-24,    0x1p-14,    0x1p-9,
                                          0x1p-6,     0x1p-30,    1e-20,
                                          0.1,        0.25,       0.5,
                                          0.75,       1,          1.4,
                                          1.5,        2,          2.5,
                                          3,          3.5,        4,
                                          5.5,        6,          6.5,
                                          7,          10,         11,
                                          14.5,       19.5,       20,
                                          20.5,       40,         87,
                                          88,         88.75,      89,
                                          103,        104,        127,
                                          127.5,      128,        128.5,
                                          149,        150,        254.5,
                                          255,        255.5,      256,
                                          448,        464,        465,
                                          57344,      61440,      65504,
                                          65520,      1e6,        16777216,
                                          16777217,   2147483520, 2147483647,
                                          2147483648, 9.2e18,     9223372036854775808.0,
                                          1e20,       1e30,       0x1.fffffep+127,
                                          0x1p+128,   1e300,      0x1.fffffffffffffp+1023};
  for (const double magnitude : magnitudes) {
    values.push_back(magnitude);
    values.push_back(-magnitude);
  }
  return values;
}

namespace {

// Lower bits for the upper 16 of `code`: none, all, and what lies on and beside the halfway points of narrower types.
std::uint64_t code_of(std::size_t code, std::size_t size) {
  if (size <= 2) return code;
  static constexpr std::uint64_t kLow32[] = {0, 1, 0x0fff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff};
  static constexpr std::uint64_t kLow64[] = {0,
                                             1,
                                             0x1000'0000,
                                             0x0fff'ffff,
                                             0x1000'0001,
                                             0x2000'0000'0000,
                                             0x8000'0000'0000 - 1,
                                             0x0200'0000'0000,
                                             0x0200'0000'0001,
                                             0xffff'ffff'ffff};
  const std::size_t which = code * 0x9e3779b9u >> 7;
  return size == 4 ? (code << 16 | kLow32[which % std::size(kLow32)])
                   : (std::uint64_t{code} << 48 | kLow64[which % std::size(kLow64)]);
}

}  // namespace

void fill(Image& image, const Operand& operand, Fill kind, Random& random) {
  static const std::vector<double> specials = special_values();
  const std::size_t size = size_of(operand.dtype);
  const bool integer = !is_floating(operand.dtype);
  for (std::size_t at = 0; at + size <= image.bytes.size(); at += size) {
    unsigned char* element = image.bytes.data() + at;
    const std::size_t slot = (at - std::min(at, image.lead)) / size;
    if (kind == Fill::codes) {
      const std::uint64_t code = code_of(slot % 65536, size);
      std::memcpy(element, &code, size);  // the lowest bytes: tests run on little-endian machines, as GPUs are
    } else if (kind == Fill::listed) {
      encode(operand.dtype, specials[slot % specials.size()], element);
    } else if (kind == Fill::bits) {
      for (std::size_t i = 0; i < size; ++i) element[i] = static_cast<unsigned char>(random.bits() >> 40);
    } else if (kind == Fill::specials) {
      encode(operand.dtype, random.pick(std::span<const double>(specials)), element);
    } else if (operand.dtype == DType::boolean) {
      encode(operand.dtype, random.percent(50) ? 1 : 0, element);
    } else {
      const double value = integer ? random.uniform(-100, 100) : random.uniform(-4, 4);
      encode(operand.dtype, operand.dtype == DType::f8e8m0 ? std::fabs(value) : value, element);
    }
    // What C's functions make of a signalling NaN is nobody's promise: pow(1, it) is 1 in one library and NaN in the
    // next. Codes meet no function of f64, only conversions.
    if (operand.dtype == DType::f64 && kind != Fill::codes && std::isnan(decode(operand.dtype, element))) {
      encode(operand.dtype, std::numeric_limits<double>::quiet_NaN(), element);
    }
  }
}

namespace {

// One element of a hard row of that kind; nothing for kinds that leave the row plain. One element of some rows is
// special.
std::optional<double> hard_element(std::uint64_t kind, bool chosen, Random& random) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  switch (kind % 20) {
    case 0:
      return -kInf;
    case 1:
      return chosen ? std::nullopt : std::optional(-kInf);
    case 2:
      return chosen ? std::optional(kNaN) : std::nullopt;
    case 3:
      return chosen ? std::optional(kInf) : std::nullopt;
    case 4:
      return chosen ? std::optional(-kInf) : std::nullopt;
    case 5:
      return random.uniform(-1, 1) * 1e30;
    case 6:
      return random.uniform(-1, 1) * 3e38;
    case 7:
    case 8:
      return 10000 + random.uniform(-1, 1);
    case 9:
      return random.percent(50) ? 1e4 : -1e4;
    case 10:
      return 0.1;
    case 11:
      return random.percent(50) ? 0.0 : -0.0;
    case 12:
      return std::round(random.uniform(-5, 5));
    case 13:
      return random.uniform(-1, 1) * 1e-38;
    default:
      return std::nullopt;
  }
}

}  // namespace

void fill_rows(Image& image, const Operand& operand, unsigned row_dims, Random& random) {
  if (operand.elements() == 0) return;
  const std::uint64_t salt = random.bits();
  Walker walker(operand.shape);
  do {
    std::uint64_t row = salt;
    std::int64_t within = 0;
    for (int d = 0; d < operand.shape.size(); ++d) {
      const bool tells = ((row_dims >> (operand.shape.size() - 1 - d)) & 1u) != 0;
      if (tells) row = Random(row + static_cast<std::uint64_t>(walker.at()[d])).bits();
      if (!tells) within = within * operand.shape[d] + walker.at()[d];
    }
    const bool chosen = within == static_cast<std::int64_t>(row >> 32) % 3;
    const std::optional<double> value = hard_element(row, chosen, random);
    if (value) encode(operand.dtype, *value, image.bytes.data() + walker.offset(operand, image));
  } while (walker.next());
}

bool Walker::next() noexcept {
  for (int i = shape_.size(); i-- > 0;) {
    if (++at_[i] < shape_[i]) return true;
    at_[i] = 0;
  }
  return false;
}

std::size_t Walker::offset(const Operand& operand, const Image& image) const noexcept {
  std::int64_t elements = 0;
  const int missing = at_.size() - operand.shape.size();
  for (int i = 0; i < operand.shape.size(); ++i) {
    if (operand.shape[i] != 1) elements += at_[i + missing] * operand.strides[i];
  }
  return static_cast<std::size_t>(static_cast<std::int64_t>(image.first) +
                                  elements * static_cast<std::int64_t>(size_of(operand.dtype)));
}

}  // namespace epifuse::test
