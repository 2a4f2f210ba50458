// More elements than 31 and 32 bits count. Results are sampled: both ends, both sides of the powers of two, random
// places.
#include <cmath>

#include "gpu/device.hpp"
#include "support/as_written.hpp"
#include "support/random.hpp"

namespace epifuse::test {
namespace {

class Large : public OnGpu {
 protected:
  // Places worth a look in [0, count).
  static std::vector<std::int64_t> places(std::int64_t count) {
    std::vector<std::int64_t> out = {0, 1, 15, 16, 17, count - 17, count - 16, count - 2, count - 1};
    for (const std::int64_t power : {std::int64_t{1} << 30, std::int64_t{1} << 31, std::int64_t{1} << 32}) {
      for (std::int64_t d = -2; d <= 2; ++d) {
        if (power + d < count) out.push_back(power + d);
      }
    }
    Random random(31);
    for (int i = 0; i < 1500; ++i)
      out.push_back(static_cast<std::int64_t>(random.bits() % static_cast<std::uint64_t>(count)));
    return out;
  }

  static int i8_at(const Array& array, std::int64_t place) {
    std::int8_t value = 0;
    peek(&value, static_cast<const std::int8_t*>(array.view().data) + place, 1);
    return value;
  }

  static std::vector<std::int8_t> pattern(std::int64_t count, int period) {
    std::vector<std::int8_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(static_cast<std::int8_t>(i % period - period / 2));
    return values;
  }
};

// An outer sum makes the tensor, a second pass reads it as one line, a third one as a transposed view.
void check_outer_sum(Engine& engine, std::int64_t rows, std::int64_t columns, const std::vector<std::int8_t>& a,
                     const std::vector<std::int8_t>& b, const std::vector<std::int64_t>& places,
                     const std::function<int(const Array&, std::int64_t)>& read) {
  Array column = engine.array(DType::i8, {rows, 1}, a.data());
  Array row = engine.array(DType::i8, {columns}, b.data());
  Array sum = engine.empty(DType::i8, {rows, columns});
  engine.launch(as_written("a + b"), nullptr, sum, {column.view(), row.view()});
  engine.synchronize();
  const auto expected = [&](std::int64_t place) {
    return a[static_cast<std::size_t>(place / columns)] + b[static_cast<std::size_t>(place % columns)];
  };
  for (const std::int64_t place : places) ASSERT_EQ(read(sum, place), expected(place)) << "outer sum at " << place;

  Array line = engine.empty(DType::i8, {rows, columns});
  engine.launch(Epilogue::parse("-x + 1"), nullptr, line, {sum.view()});
  engine.synchronize();
  for (const std::int64_t place : places) ASSERT_EQ(read(line, place), 1 - expected(place)) << "line at " << place;

  const TensorView transposed(sum.view().data, DType::i8, {columns, rows}, {1, columns});
  const OutputView target(line.view().writable(), DType::i8, {columns, rows});
  engine.launch(Epilogue::parse("x + 2"), nullptr, target, {transposed});
  engine.synchronize();
  for (const std::int64_t place : places) {
    const std::int64_t c = place / rows;
    const std::int64_t r = place % rows;
    ASSERT_EQ(read(line, place), 2 + expected(r * columns + c)) << "transposed at " << place;
  }
}

TEST_F(Large, MoreThan31Bits) {
  const std::int64_t rows = 46'349, columns = 46'351;  // 2^31 + 839'451
  check_outer_sum(engine(), rows, columns, pattern(rows, 101), pattern(columns, 17), places(rows * columns), i8_at);
}

TEST_F(Large, MoreThan32Bits) {
  const std::int64_t rows = 65'539, columns = 65'551;  // 2^32 + 1'180'893
  check_outer_sum(engine(), rows, columns, pattern(rows, 97), pattern(columns, 23), places(rows * columns), i8_at);
}

TEST_F(Large, StridesBeyond32BitsForFewElements) {
  const std::int64_t step = (std::int64_t{1} << 32) + 5;
  Array memory = engine().empty(DType::i8, {step + 64});
  const std::vector<std::int8_t> first = pattern(64, 50), second = pattern(64, 31);
  auto* base = static_cast<std::int8_t*>(memory.view().writable());
  const auto address = [](const void* pointer) {
    return static_cast<runtime::DevicePointer>(reinterpret_cast<std::uintptr_t>(pointer));
  };
  runtime::check(runtime::driver().memcpy_htod_async(address(base), first.data(), 64, nullptr), "copy to the device");
  runtime::check(runtime::driver().memcpy_htod_async(address(base + step), second.data(), 64, nullptr),
                 "copy to the device");
  Array out = engine().empty(DType::i8, {2, 64});
  // Forwards, then in reverse order from the far row.
  for (const bool reverse_order : {false, true}) {
    const TensorView view(reverse_order ? base + step : base, DType::i8, {2, 64}, {reverse_order ? -step : step, 1});
    engine().launch(Epilogue::parse("x * 2"), nullptr, out, {view});
    engine().synchronize();
    const std::vector<std::int8_t> found = contents<std::int8_t>(out);
    for (std::size_t i = 0; i < 64; ++i) {
      EXPECT_EQ(found[i], 2 * (reverse_order ? second : first)[i]);
      EXPECT_EQ(found[64 + i], 2 * (reverse_order ? first : second)[i]);
    }
  }
}

}  // namespace
}  // namespace epifuse::test
