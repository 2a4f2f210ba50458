#include "support/copy_cases.hpp"
#include "support/as_written.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "support/storage.hpp"

namespace epifuse::test {

const std::vector<std::string>& CopyCase::kinds() {
  static const std::vector<std::string> kinds = {"pointwise", "joined",   "rows",    "row results",
                                                 "columns",   "segments", "flipped", "beside"};
  return kinds;
}

std::int64_t CopyCase::between(std::int64_t low, std::int64_t high) {
  return random_.between(static_cast<int>(low), static_cast<int>(high));
}

// Layouts: 0 dense, 1 gaps behind rows, 2 the first dimension innermost.
CopyCase::Tensor& CopyCase::add(std::string name, DType type, const Place& shape, int layout) {
  auto tensor = std::make_unique<Tensor>();
  tensor->name = std::move(name);
  tensor->type = type;
  for (const std::int64_t extent : shape) tensor->shape.push_back(extent);
  tensor->strides = row_major(tensor->shape);
  const int rank = tensor->shape.size();
  std::int64_t elements = count_of(shape);
  if (layout == 1 && rank > 1) {
    const std::int64_t gap = random_.percent(50) ? 16 : between(1, 5);
    for (int d = 0; d + 1 < rank; ++d) tensor->strides[d] += gap * (tensor->strides[d] / shape.back());
    elements += gap * (elements / shape.back());
  }
  if (layout == 2) {
    std::int64_t step = 1;
    for (int d = 0; d < rank; ++d) {
      tensor->strides[d] = step;
      step *= tensor->shape[d];
    }
  }
  tensor->bytes = static_cast<std::size_t>(elements) * size_of(type);
  tensor->memory = std::make_unique<unsigned char[]>(tensor->bytes);
  for (std::int64_t i = 0; i < elements; ++i)
    encode(type, static_cast<double>(between(-9, 9)),
           tensor->memory.get() + static_cast<std::size_t>(i) * size_of(type));
  tensors_.push_back(std::move(tensor));
  return *tensors_.back();
}

std::int64_t CopyCase::offset(const Tensor& tensor, const Place& at) const {
  std::int64_t offset = 0;
  for (std::size_t d = 0; d < at.size(); ++d) offset += at[d] * tensor.strides[static_cast<int>(d)];
  return offset * static_cast<std::int64_t>(size_of(tensor.type));
}

void CopyCase::fill(Tensor& tensor, const At& value) {
  const Place shape(tensor.shape.begin(), tensor.shape.end());
  each_place(shape, [&](const Place& at) { encode(tensor.type, value(at), tensor.memory.get() + offset(tensor, at)); });
}

// Whole numbers so small that every type holds them and what is computed of them.
std::vector<CopyCase::Source> CopyCase::draw_sources() {
  const std::int64_t segment = between(2, 4);
  Place shape;
  if (random_.percent(60)) shape.push_back(between(1, 5));
  // Tiles have 128 rows.
  shape.push_back(random_.percent(20) ? between(20, 70) : random_.percent(8) ? between(120, 300) : between(1, 9));
  const bool is_joined = kind_ == "joined";
  const std::int64_t unit = is_joined ? 2 : kind_ == "segments" ? segment : 1;
  shape.push_back(random_.percent(60) ? 8 * unit * between(1, 6) : unit * between(1, 9));
  const IntegerArray x = made(shape, [&](const Place&) { return static_cast<double>(between(-4, 4)); });
  fill(add("x", random_.pick({DType::f32, DType::f16, DType::bf16}), shape),
       [&](const Place& at) { return value_at(x, at); });
  const auto last = static_cast<std::size_t>(shape.size()) - 1;
  const std::int64_t width = shape[last];
  // The largest element of those that share all coordinates but d, and there the same run of so many.
  const auto largest = [x, shape](const Place& at, std::size_t d, std::int64_t run) {
    double most = -1e9;
    Place place = at;
    for (std::int64_t k = at[d] / run * run; k < at[d] / run * run + run; ++k) {
      place[d] = k;
      most = std::max(most, value_at(x, place));
    }
    return most;
  };
  const auto centred = [=](const Place& at) { return value_at(x, at) - largest(at, last, width); };
  if (is_joined) {
    const std::string half = std::to_string(width / 2);
    return {{"cat((x[..., " + half + ":], x[..., :" + half + "]), -1)", shape, [=](Place at) {
               at[last] = (at[last] + width / 2) % width;
               return value_at(x, at);
             }}};
  }
  if (kind_ == "rows" || kind_ == "row results") {
    std::vector<Source> all = {{"x - amax(x, -1, keepdim=true)", shape, centred}};
    if (kind_ == "row results") {
      const Place rows(shape.begin(), shape.end() - 1);
      all.push_back({"amax(x, -1)", rows, [=](Place at) {
                       at.push_back(0);
                       return largest(at, last, width);
                     }});
    }
    return all;
  }
  if (kind_ == "columns") {
    return {{"x - amax(x, 0, keepdim=true)", shape,
             [=](const Place& at) { return value_at(x, at) - largest(at, 0, shape[0]); }}};
  }
  if (kind_ == "segments") {
    const std::string u = "unflatten(x, -1, (-1, " + std::to_string(segment) + "))";
    Place scales = shape;
    scales[last] /= segment;
    return {{"flatten(" + u + " - amax(" + u + ", -1, keepdim=true), -2, -1)", shape,
             [=](const Place& at) { return value_at(x, at) - largest(at, last, segment); }},
            {"amax(" + u + ", -1)", scales, [=](Place at) {
               at[last] *= segment;
               return largest(at, last, segment);
             }}};
  }
  if (kind_ == "flipped") {
    return {
        {"(x - amax(x, -1, keepdim=true)) + flip(x - amax(x, -1, keepdim=true), (-1,))", shape, [=](const Place& at) {
           Place other = at;
           other[last] = width - 1 - at[last];
           return centred(at) + centred(other);
         }}};
  }
  const IntegerArray b = made({width}, [&](const Place&) { return static_cast<double>(between(-4, 4)); });
  fill(add("b", DType::f32, {width}), [&](const Place& at) { return value_at(b, at); });
  return {{"x * 2 + b", shape, [=](const Place& at) { return 2 * value_at(x, at) + value_at(b, {at[last]}); }}};
}

// An 'index_copy' of the source into a cache of its own. About one index in eight is out of range.
std::string CopyCase::copy(const Source& source) {
  const std::string number = std::to_string(results_.size());
  const auto d = static_cast<std::size_t>(between(0, static_cast<std::int64_t>(source.shape.size()) - 1));
  const std::int64_t count = source.shape[d];
  Place shape = source.shape;
  shape[d] = count + between(0, 6);
  std::vector<std::int64_t> slots(static_cast<std::size_t>(shape[d]));
  std::iota(slots.begin(), slots.end(), 0);
  for (std::size_t i = slots.size(); i > 1; --i)
    std::swap(slots[i - 1], slots[static_cast<std::size_t>(random_.below(static_cast<int>(i)))]);
  for (std::int64_t& slot : slots) {
    if (random_.percent(12)) slot = random_.pick({std::int64_t{-1}, shape[d], std::int64_t{-7}, shape[d] + 1000});
  }
  fill(add("i" + number, random_.percent(50) ? DType::i32 : DType::i64, {count}),
       [&](const Place& at) { return static_cast<double>(slots[static_cast<std::size_t>(at[0])]); });
  Tensor& cache = add("c" + number, random_.pick({DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::i8}),
                      shape, random_.percent(50) ? 0 : random_.between(1, 2));
  cache.expected.assign(cache.memory.get(), cache.memory.get() + cache.bytes);
  each_place(source.shape, [&](Place at) {
    const double value = source.value(at);
    at[d] = slots[static_cast<std::size_t>(at[d])];
    if (at[d] >= 0 && at[d] < shape[d]) encode(cache.type, value, cache.expected.data() + offset(cache, at));
  });
  results_.push_back(&cache);
  const std::int64_t dim =
      static_cast<std::int64_t>(d) - (random_.percent(50) ? 0 : static_cast<std::int64_t>(shape.size()));
  return "index_copy(c" + number + ", " + std::to_string(dim) + ", i" + number + ", " + source.text + ")";
}

// The source in tiles of 128×4, with 0 where it has no element.
std::string CopyCase::tiled(const Source& source) {
  const std::int64_t rows = source.shape[0], blocks = source.shape[1];
  Tensor& tiles = add("t", random_.pick({DType::f32, DType::f16, DType::f8e4m3, DType::i8}),
                      {(rows + 127) / 128, (blocks + 3) / 4, 32, 4, 4}, random_.percent(70) ? 0 : 2);
  tiles.expected.assign(tiles.memory.get(), tiles.memory.get() + tiles.bytes);
  each_place({(rows + 127) / 128 * 128, (blocks + 3) / 4 * 4}, [&](const Place& at) {
    const double value = at[0] < rows && at[1] < blocks ? source.value(at) : 0;
    const Place place = {at[0] / 128, at[1] / 4, at[0] % 32, at[0] % 128 / 32, at[1] % 4};
    encode(tiles.type, value, tiles.expected.data() + offset(tiles, place));
  });
  results_.push_back(&tiles);
  return "scale_tiles(" + source.text + ")";
}

std::string CopyCase::placed(const Source& source) {
  return source.shape.size() == 2 && random_.percent(40) ? tiled(source) : copy(source);
}

// A result with memory of its own.
std::string CopyCase::plain(const Source& source) {
  Tensor& tensor = add("y", DType::f32, source.shape);
  tensor.expected.assign(tensor.memory.get(), tensor.memory.get() + tensor.bytes);
  each_place(source.shape, [&](const Place& at) {
    encode(tensor.type, source.value(at), tensor.expected.data() + offset(tensor, at));
  });
  results_.push_back(&tensor);
  return source.text;
}

CopyCase::CopyCase(std::uint64_t seed) : random_(seed) {
  kind_ = random_.pick(std::span<const std::string>(kinds()));
  const std::vector<Source> sources = draw_sources();
  const bool is_beside = kind_ == "beside" || random_.percent(25);
  text_ = "return " + (is_beside ? plain(sources[0]) + ", " : "");
  for (const Source& source : sources) text_ += (&source == sources.data() ? "" : ", ") + placed(source);
  tail_ = as_written(text_);
}

std::vector<TensorView> CopyCase::inputs() const {
  std::vector<TensorView> views;
  for (const std::string& name : tail_->inputs())
    views.push_back((*std::ranges::find(tensors_, name, [](const auto& tensor) { return tensor->name; }))->view());
  return views;
}

std::vector<OutputView> CopyCase::outputs() const {
  std::vector<OutputView> views;
  for (const Tensor* tensor : results_) views.push_back(tensor->view());
  return views;
}

std::string CopyCase::judge() const {
  for (const Tensor* tensor : results_) {
    for (std::size_t i = 0; i < tensor->bytes; ++i) {
      if (tensor->memory[i] == tensor->expected[i]) continue;
      const std::size_t element = i / size_of(tensor->type) * size_of(tensor->type);
      return tensor->name + ": the element " + std::to_string(element / size_of(tensor->type)) + " of its memory is " +
             std::to_string(static_cast<double>(decode(tensor->type, tensor->memory.get() + element))) + ", expected " +
             std::to_string(static_cast<double>(decode(tensor->type, tensor->expected.data() + element)));
    }
  }
  return "";
}

}  // namespace epifuse::test
