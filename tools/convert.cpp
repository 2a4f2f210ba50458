// Conversions by the CPU device: the only part of the tensors in host memory that needs an engine.
#include "convert.hpp"

#include <cstring>

#include <epifuse/engine.hpp>

#include "host_tensor.hpp"

namespace epifuse::tool {
namespace {

template <class Element>
void decode(std::vector<double>& values, const void* data) {
  const auto* bytes = static_cast<const std::byte*>(data);
  for (std::size_t i = 0; i < values.size(); ++i) {
    Element element;
    std::memcpy(&element, bytes + i * sizeof(Element), sizeof(Element));
    values[i] = static_cast<double>(element);
  }
}

Engine& cpu_engine() {
  static Engine engine(Device::cpu());
  return engine;
}

}  // namespace

void convert_elements(const OutputView& to, const TensorView& from) {
  // Computing in f64 where f32 would lose digits on the way.
  static const Epilogue narrow = Epilogue::parse("x");
  static const Epilogue wide = Epilogue::parse("cast(x, f64)");
  const bool has_wide = from.dtype == DType::i32 || from.dtype == DType::u32 || from.dtype == DType::i64;
  cpu_engine().launch(has_wide ? wide : narrow, nullptr, to, {from});
}

std::vector<double> to_doubles(const TensorView& view) {
  if (!is_row_major(view)) return to_doubles(densified(view).view());
  std::vector<double> values(static_cast<std::size_t>(element_count(view.shape)));
  switch (view.dtype) {
    case DType::f64:
      decode<double>(values, view.data);
      break;
    case DType::f32:
      decode<float>(values, view.data);
      break;
    case DType::i64:
      decode<std::int64_t>(values, view.data);
      break;
    case DType::i32:
      decode<std::int32_t>(values, view.data);
      break;
    case DType::u32:
      decode<std::uint32_t>(values, view.data);
      break;
    case DType::i16:
      decode<std::int16_t>(values, view.data);
      break;
    case DType::u16:
      decode<std::uint16_t>(values, view.data);
      break;
    case DType::i8:
      decode<std::int8_t>(values, view.data);
      break;
    case DType::u8:
    case DType::boolean:
      decode<std::uint8_t>(values, view.data);
      break;
    default:  // the small floats: every value of theirs is an f32 and an f64
      convert_elements(OutputView(values.data(), DType::f64, view.shape), view);
  }
  return values;
}

}  // namespace epifuse::tool
