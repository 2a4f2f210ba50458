// Launches from bytes: what each byte decides.
#include "fuzz/drawn_launch.hpp"

#include <algorithm>
#include <array>

#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::fuzz {
namespace {

constexpr std::string_view kChains[] = {
    "x",
    "x + bias",
    "sigmoid((x + bias) * scale)",
    "y = gelu(x + bias); return y, y > 0",
    "scalar a; a * x + r",
    "where(m, x, -inf)",
    "sum(x, axis=-1)",
    "mean(x)",
    "softmax(x, axis=1)",
    "softmax(where(m, x, -inf), axis=-1)",
    "layer_norm(x, (-1,), w, b)",
    "rms_norm(x + r, (-1,), w)",
    "group_norm(x, 4, w, b)",
    "group_norm(silu(x + bias), 2)",
    "instance_norm(x)",
    "y = rms_norm(x, (-1,)); return y, amax(abs(y))",
    "return mean(x, axis=(0, 2), keepdim=true), var(x, axis=(0, 2), keepdim=true)",
    "unflatten(x, 1, (2, -1)) * 2",
    "flatten(x, 0, 1) + bias",
    "logsumexp(x, axis=0)",
    "x - amax(x, axis=(1, ...), keepdim=true)",
    "cast(round(x * s), i8)",
};
constexpr std::int64_t kExtents[] = {1,  2,  3,   4,   5,   7,    8,    16,     31,      32,
                                     33, 64, 125, 128, 129, 1000, 4096, 65'537, 131'072, 0};
constexpr int kArchitectures[] = {75, 80, 86, 89, 90, 100, 120};
constexpr std::size_t kArena = 1 << 16;

// Takes the input apart; zeros after its end.
class Reader {
 public:
  explicit Reader(Bytes bytes) : bytes_(bytes) {}
  std::uint8_t byte() { return at_ < bytes_.size() ? bytes_[at_++] : std::uint8_t{0}; }
  std::int64_t word() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return static_cast<std::int64_t>(value);
  }
  std::string text(std::size_t size) {
    std::string out;
    while (size-- > 0 && at_ < bytes_.size()) out += static_cast<char>(byte());
    return out;
  }
  template <class T, std::size_t N>
  const T& pick(const T (&list)[N]) {
    return list[byte() % N];
  }

 private:
  Bytes bytes_;
  std::size_t at_ = 0;
};

std::int64_t draw_extent(Reader& in) {
  const std::uint8_t choice = in.byte();
  return choice == 0xff ? in.word() : choice >= 0xf0 ? choice - 0xf0 : kExtents[choice % std::size(kExtents)];
}

Dims draw_shape(Reader& in, const Dims& like) {
  const std::uint8_t how = in.byte();
  Dims shape;
  if (how < 0x80) {  // what broadcasts with `like`: some of its last dimensions, some of them 1
    const int rank = like.size() == 0 ? 0 : like.size() - how % (like.size() + 1);
    const std::uint8_t ones = how < 0x40 ? std::uint8_t{0} : in.byte();
    for (int i = like.size() - rank; i < like.size(); ++i) shape.push_back(((ones >> i) & 1) != 0 ? 1 : like[i]);
    return shape;
  }
  for (int i = how % (kMaxRank + 1); i > 0; --i) shape.push_back(draw_extent(in));
  return shape;
}

Dims draw_strides(Reader& in, const Dims& shape) {
  const std::uint8_t how = in.byte();
  Dims strides = row_major(shape);
  if (how < 0x80 || shape.empty()) return strides;
  if (how < 0xa0) {  // two dimensions change places in memory
    const int a = in.byte() % shape.size();
    const int b = in.byte() % shape.size();
    Dims swapped = shape;
    std::swap(swapped[a], swapped[b]);
    strides = row_major(swapped);
    std::swap(strides[a], strides[b]);
    return strides;
  }
  if (how == 0xff) strides.push_back(1);  // one too many; rank 8 refuses that itself
  for (int i = 0; i < shape.size(); ++i) {
    const std::uint8_t choice = in.byte();
    if (choice == 0xff) strides[i] = in.word();
    if (choice < 0x40) strides[i] = static_cast<std::int8_t>(choice << 2) / 4;  // small, zero, negative
    if (choice >= 0x40 && choice < 0x60)
      strides[i] = static_cast<std::int64_t>(static_cast<std::uint64_t>(strides[i]) * 2);
  }
  return strides;
}

void* draw_address(Reader& in, DType type, int operand) {
  alignas(256) static unsigned char arena[kArena];
  const std::uint8_t how = in.byte();
  if (how == 0xff) return reinterpret_cast<void*>(static_cast<std::uintptr_t>(in.word()));
  if (how == 0xfe) return nullptr;
  // Far apart, as memory of its own would be; or in the arena, where operands meet.
  if (how < 0xa0)
    return reinterpret_cast<void*>((static_cast<std::uintptr_t>(operand + 1) << 52) + (how % 16u) * size_of(type));
  return arena + (how - 0xa0u) * size_of(type);
}

}  // namespace

DrawnLaunch draw_launch(Bytes bytes) {
  Reader in(bytes);
  DrawnLaunch launch;
  const std::uint8_t choice = in.byte();
  launch.chain = choice == 0xff ? in.text(in.byte()) : std::string(kChains[choice % std::size(kChains)]);
  const std::uint8_t how = in.byte();
  const int architecture = in.pick(kArchitectures);
  launch.machine = plan::Machine(architecture, 1 + in.byte());
  launch.views = how % 4 == 3 ? plan::Views::abstract : plan::Views::real;
  launch.emit_too = how % 16 == 8;
  const ir::Program program = ir::parse(launch.chain, {});
  Dims like;
  for (std::size_t i = 0; i < program.inputs().size(); ++i) {
    TensorView view;
    view.dtype = how < 0x80 ? DType::f32 : kAllDTypes[in.byte() % kAllDTypes.size()];
    view.shape = draw_shape(in, like);
    view.strides = draw_strides(in, view.shape);
    view.data = draw_address(in, view.dtype, static_cast<int>(i));
    if (i == 0) like = view.shape;
    launch.inputs.push_back(view);
  }
  std::vector<Dims> shapes(program.results().size());
  if (how % 16 != 15) shapes = plan::result_shapes(program, launch.inputs);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const DType type = how < 0x80 ? DType::f32 : kAllDTypes[in.byte() % kAllDTypes.size()];
    const Dims shape = how % 16 == 15 ? draw_shape(in, like) : shapes[i];
    launch.outputs.emplace_back(draw_address(in, type, static_cast<int>(launch.inputs.size() + i)), type, shape,
                                draw_strides(in, shape));
  }
  return launch;
}

}  // namespace epifuse::fuzz
