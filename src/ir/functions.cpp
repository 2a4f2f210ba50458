// The table of functions, built once: signatures are text, since that is what people read, and are taken apart here.
#include "ir/functions.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/composites.hpp"
#include "ir/indices.hpp"
#include "ir/pooling.hpp"
#include "ir/result_types.hpp"

namespace epifuse::ir {
namespace {

using Arguments = std::span<const Argument>;

// Functions that are not one row of ops.def or reductions.def. Types, one letter per parameter: v value, o optional
// value, n number, i integer, a axes, f flag, s sizes, t dtype, w word, r seed, l list, m values,
// k list in which none keeps a dimension.
struct Row {
  std::string_view signature;
  std::string_view types;
  std::string_view group;
  std::string_view formula;
  Value (*build)(Builder&, Arguments);
};

bool flag(const Argument& argument) { return argument.number != 0; }
std::int64_t whole(const Argument& argument) { return static_cast<std::int64_t>(argument.number); }

// gelu(input, approximate="none"): two rows of ops.def behind one name, as in PyTorch.
Value build_gelu(Builder& b, Arguments a) {
  if (a[1].word != "none" && a[1].word != "tanh") {
    base::fail(ErrorCode::invalid_expression, R"('approximate' of 'gelu' is "none" or "tanh", found '{}')",
               base::shown(a[1].word));
  }
  return b.apply(a[1].word == "tanh" ? Op::gelu_tanh : Op::gelu, {a[0].value, kNone, kNone});
}

// What a view's arguments are, in the order of View::numbers.
template <View::Kind kKind>
Value view_of(Builder& b, Arguments a) {
  std::vector<std::int64_t> numbers;
  for (const Argument& argument : a.subspan(1)) numbers.push_back(whole(argument));
  return b.view(a[0].value, numbered_view(kKind, std::move(numbers)));
}
template <View::Kind kKind>
Value listed_view_of(Builder& b, Arguments a) {
  return b.view(a[0].value, numbered_view(kKind, a[1].list));
}

// Pieces of one size, or one of each of some sizes.
Value build_split(Builder& b, Arguments a) {
  const std::vector<std::int64_t>& sizes = a[1].list;
  const std::int64_t index = whole(a[3]);
  if (sizes.size() == 1) return b.view(a[0].value, numbered_view(View::Kind::split, {sizes[0], whole(a[2]), index}));
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < 0; }) || index < 0 || index >= std::ssize(sizes))
    base::fail(ErrorCode::invalid_expression,
               "'split' takes a size, or sizes of 0 or more, and gives as many pieces; found ({}) and [{}]",
               fmt::join(sizes, ", "), index);
  const std::int64_t start = std::accumulate(sizes.begin(), sizes.begin() + index, std::int64_t{0});
  return b.view(a[0].value,
                numbered_view(View::Kind::narrow, {whole(a[2]), start, sizes[static_cast<std::size_t>(index)]}));
}

template <int kRank>
Value upsample_of(Builder& b, Arguments a) {
  return upsample_nearest(b, a[0].value, kRank, a[1].list);
}
template <int kRank>
Value max_pool_of(Builder& b, Arguments a) {
  return max_pool(b, a[0].value, kRank, {a[1].list, a[2].list, a[4].list, a[3].list, flag(a[5])});
}
template <int kRank>
Value avg_pool_of(Builder& b, Arguments a) {
  return avg_pool(b, a[0].value, kRank, {a[1].list, a[2].list, {1}, a[3].list, flag(a[4])},
                  {a.size() > 6 ? a[6].list : std::vector<std::int64_t>(), flag(a[5])});
}
template <int kRank>
Value lp_pool_of(Builder& b, Arguments a) {
  return lp_pool(b, a[0].value, kRank, a[1].number, {a[2].list, a[3].list, {1}, {0}, flag(a[4])});
}
template <int kRank, Op kOp>
Value adaptive_pool_of(Builder& b, Arguments a) {
  return adaptive_pool(b, kOp, a[0].value, kRank, a[1].list);
}

// The values, or the scale.
Value one_of(const Quantized& both, std::string_view function, std::int64_t index) {
  if (index != 0 && index != 1) {
    base::fail(ErrorCode::invalid_expression, "'{}' gives the values [0] and the scale [1], so there is no [{}]",
               function, index);
  }
  return index == 0 ? both.values : both.scale;
}

Value build_quantize(Builder& b, Arguments a) {
  const Quantized both = quantize(
      b, a[0].value, {.dtype = a[1].dtype, .block = whole(a[2]), .power_of_two = flag(a[3]), .eps = a[4].number});
  return one_of(both, "quantize", whole(a[5]));
}

Value build_mx_quantize(Builder& b, Arguments a) {
  if (a[2].word != "up" && a[2].word != "floor") {
    base::fail(ErrorCode::invalid_expression, "'rounding' of 'mx_quantize' is \"up\" or \"floor\", found \"{}\"",
               base::shown(a[2].word));
  }
  return one_of(mx_quantize(b, a[0].value, a[1].dtype, a[2].word == "up"), "mx_quantize", whole(a[3]));
}

Value build_nv_quantize(Builder& b, Arguments a) {
  return one_of(nv_quantize(b, a[0].value, a[1].value), "nv_quantize", whole(a[2]));
}

constexpr std::string_view kReductions = "reductions", kNorms = "normalisation", kQuantisation = "quantisation",
                           kShapes = "shape", kViews = "views", kIndices = "indices", kPools = "pooling",
                           kPositions = "positions", kRandom = "random numbers", kMatrices = "matrix products";

// clang-format off
constexpr std::array kRows = {
    Row{"cast(input, dtype)", "vt", "", "", [](Builder& b, Arguments a) { return b.cast(a[0].value, a[1].dtype); }},
    Row{"gelu(input, approximate=\"none\")", "vw", "", "", build_gelu},

    Row{"std(input, axis=none, *, correction=1, keepdim=false)", "vanf", kReductions, "sqrt(var(input, axis, correction, keepdim))",
        [](Builder& b, Arguments a) { return std_deviation(b, a[0].value, a[1].axes, a[2].number, flag(a[3])); }},
    Row{"norm(input, p=2, axis=none, keepdim=false)", "vnaf", kReductions,
        "sum(|input| ** p) ** (1 / p); the largest or smallest |input| for p of inf or -inf; how many are not 0 for p of 0",
        [](Builder& b, Arguments a) { return norm(b, a[0].value, a[1].number, a[2].axes, flag(a[3])); }},
    Row{"logsumexp(input, axis=none, keepdim=false)", "vaf", kReductions,
        "log(sum(exp(input - m))) + m, m = amax(input), 0 where that is infinite",
        [](Builder& b, Arguments a) { return logsumexp(b, a[0].value, a[1].axes, flag(a[2])); }},
    Row{"var_mean(input, axis=none, *, correction=1, keepdim=false)[index]", "vanfi", kReductions, "[0] is var(input, axis, correction, keepdim), [1] is mean(input, axis, keepdim)",
        [](Builder& b, Arguments a) { return var_mean(b, a[0].value, a[1].axes, a[2].number, flag(a[3]), whole(a[4])); }},
    Row{"count_nonzero(input, axis=none)", "va", kReductions, "sum(input != 0, axis)",
        [](Builder& b, Arguments a) { return count_nonzero(b, a[0].value, a[1].axes); }},

    Row{"softmax(input, axis)", "va", kNorms, "e / sum(e), e = exp(input - amax(input))",
        [](Builder& b, Arguments a) { return softmax(b, a[0].value, a[1].axes); }},
    Row{"log_softmax(input, axis)", "va", kNorms, "d - log(sum(exp(d))), d = input - amax(input)",
        [](Builder& b, Arguments a) { return log_softmax(b, a[0].value, a[1].axes); }},
    Row{"layer_norm(input, weight=none, bias=none, eps=1e-5, axis=-1)", "voona", kNorms,
        "(input - mean(input)) * rsqrt(var(input, correction=0) + eps) * weight + bias",
        [](Builder& b, Arguments a) { return layer_norm(b, a[0].value, a[1].value, a[2].value, a[3].number, a[4].axes); }},
    Row{"rms_norm(input, weight=none, eps=1.1920928955078125e-07, axis=-1)", "vona", kNorms,
        "input * rsqrt(mean(square(input)) + eps) * weight",
        [](Builder& b, Arguments a) { return rms_norm(b, a[0].value, a[1].value, a[2].number, a[3].axes); }},
    Row{"group_norm(input, groups, weight=none, bias=none, eps=1e-5)", "vioon", kNorms,
        "layer_norm of each group of channels and all behind them; weight and bias by channel",
        [](Builder& b, Arguments a) { return group_norm(b, a[0].value, whole(a[1]), a[2].value, a[3].value, a[4].number); }},
    Row{"instance_norm(input, weight=none, bias=none, eps=1e-5)", "voon", kNorms,
        "layer_norm of each channel and all behind it; weight and bias by channel",
        [](Builder& b, Arguments a) { return instance_norm(b, a[0].value, a[1].value, a[2].value, a[3].number); }},
    Row{"batch_norm(input, weight=none, bias=none, eps=1e-5)", "voon", kNorms,
        "in training: layer_norm of each channel over all but dimension 1; weight and bias by channel",
        [](Builder& b, Arguments a) { return batch_norm(b, a[0].value, a[1].value, a[2].value, a[3].number); }},
    Row{"normalize(input, p=2, axis=1, eps=1e-12)", "vnan", kNorms, "input / maximum(norm(input, p), eps)",
        [](Builder& b, Arguments a) { return normalize(b, a[0].value, a[1].number, a[2].axes, a[3].number); }},

    Row{"matmul(input, other, *, tf32=false)", "vvf", kMatrices, "input @ other: sums of products over the last dimension of input and the last but one of other; tf32: factors of f32 are rounded to TF32",
        [](Builder& b, Arguments a) { return b.matmul(a[0].value, a[1].value, flag(a[2])); }},
    Row{"linear(input, weight, bias=none, *, tf32=false)", "vvof", kMatrices, "input @ transpose(weight, -2, -1) + bias; tf32 as of matmul",
        [](Builder& b, Arguments a) { return linear(b, a[0].value, a[1].value, a[2].value, flag(a[3])); }},
    Row{"scaled_mm(input, mat2, scale_a, scale_b)", "vvvv", kMatrices, "block_scaled(input, scale_a) @ block_scaled(mat2, scale_b)",
        [](Builder& b, Arguments a) { return scaled_mm(b, a[0].value, a[1].value, a[2].value, a[3].value); }},
    Row{"block_scaled(input, scale)", "vv", kMatrices, "a factor of a product, and nothing else: a float8 matrix, each block of 128 numbers along the depth times its scale",
        [](Builder& b, Arguments a) { return b.block_scaled(a[0].value, a[1].value); }},
    Row{"conv2d(input, weight, bias=none, stride=1, padding=0, dilation=1)", "vvolll", kMatrices,
        "sums of products of windows of images [N, C, H, W] with each of the filters [K, C, R, S], and bias by channel: [N, K, OH, OW]",
        [](Builder& b, Arguments a) { return conv2d(b, a[0].value, a[1].value, a[2].value, {a[3].list, a[4].list, a[5].list}); }},

    Row{"quantize(input, dtype, block=0, power_of_two=false, eps=1e-4)[index]", "vtifni", kQuantisation,
        "[0]: cast(input * (1 / s), dtype), [1]: s = maximum(amax(|input|), eps) / m over each block of the last dimension (0: all of it); "
        "m is the largest value of dtype", build_quantize},
    Row{"mx_quantize(input, dtype, rounding=\"up\")[index]", "vtwi", kQuantisation,
        "OCP MX blocks of 32: [0]: cast(input / s, dtype), [1]: s in f8e8m0, the least power of two with s * m >= amax(|input|), or rounded down: 2 ** (floor(log2(amax(|input|))) - log2(p)); "
        "m is the largest value of dtype, p the largest power of two", build_mx_quantize},
    Row{"nv_quantize(input, global_scale)[index]", "vvi", kQuantisation,
        "NVFP4 blocks of 16: [1]: s = cast(amax(|input|) / 6 * global_scale, f8e4m3), [0]: cast(input * (global_scale / s), f4e2m1), 0 where s is 0",
        build_nv_quantize},
    Row{"dequantize(values, scale, block=0)", "vvi", kQuantisation, "values * scale, one scale for each block of the last dimension",
        [](Builder& b, Arguments a) { return dequantize(b, a[0].value, a[1].value, whole(a[2])); }},

    Row{"scale_tiles(scales)", "v", kQuantisation, "a result alone: scales [rows, blocks] in the 128×4 tiles of cuBLASLt and CUTLASS, [⌈rows / 128⌉, ⌈blocks / 4⌉, 32, 4, 4]; bytes of 0 pad them",
        [](Builder& b, Arguments a) { return b.scale_tiles(a[0].value); }},

    Row{"unflatten(input, dim, sizes)", "vis", kShapes, "dimension dim as two of these sizes, one of which may be -1",
        [](Builder& b, Arguments a) { return b.unflatten(a[0].value, dimension_of("unflatten", whole(a[1])), a[2].sizes); }},
    Row{"flatten(input, start_dim=0, end_dim=-1)", "vii", kShapes, "dimensions start_dim … end_dim as one",
        [](Builder& b, Arguments a) {
          return b.flatten(a[0].value, dimension_of("flatten", whole(a[1])), dimension_of("flatten", whole(a[2])));
        }},
    Row{"along(vector, other, dim)", "vvi", kShapes, "the vector laid along dimension dim of values shaped like other",
        [](Builder& b, Arguments a) { return b.along(a[0].value, a[1].value, dimension_of("along", whole(a[2]))); }},
    Row{"expand_as(input, other)", "vv", kShapes, "input broadcast to the shape of other",
        [](Builder& b, Arguments a) { return b.expand_as(a[0].value, a[1].value); }},
    Row{"sum_to(input, other)", "vv", kShapes, "the sum of input over the dimensions that other lacks, or has one element in",
        [](Builder& b, Arguments a) { return b.sum_to(a[0].value, a[1].value); }},
    Row{"reshape_as(input, other)", "vv", kShapes, "input in the shape of other, which has as many elements, in row-major order",
        [](Builder& b, Arguments a) { return b.reshape_as(a[0].value, a[1].value); }},
    Row{"unsqueeze_as(input, other, axis)", "vva", kShapes, "a reduction of other over axis, with keepdim=true from now on",
        [](Builder& b, Arguments a) { return b.unsqueeze_as(a[0].value, a[1].value, a[2].axes); }},
    Row{"repeat_as(input, other, dim, times, shift=0)", "vviii", kShapes, "input[(i + shift) // times] at each place i along dimension dim of other, and 0 where there is none",
        [](Builder& b, Arguments a) {
          return b.repeat_as(a[0].value, a[1].value, dimension_of("repeat_as", whole(a[2])), whole(a[3]), whole(a[4]));
        }},
    Row{"count(input, axis=none)", "va", kShapes, "how many elements of input a reduction over axis makes one of",
        [](Builder& b, Arguments a) { return b.count(a[0].value, a[1].axes); }},

    Row{"iota(input, dim)", "vi", kPositions, "for each element of input where it stands along dimension dim: 0, 1, …",
        [](Builder& b, Arguments a) { return b.iota(a[0].value, dimension_of("iota", whole(a[1]))); }},
    Row{"tril(input, diagonal=0)", "vi", kPositions, "input where column - row <= diagonal, else 0, in the last two dimensions",
        [](Builder& b, Arguments a) { return triangle(b, Op::le, a[0].value, whole(a[1])); }},
    Row{"triu(input, diagonal=0)", "vi", kPositions, "input where column - row >= diagonal, else 0, in the last two dimensions",
        [](Builder& b, Arguments a) { return triangle(b, Op::ge, a[0].value, whole(a[1])); }},
    Row{"argmax(input, axis=none, keepdim=false)", "vaf", kPositions, "where the largest stands along an axis, or among all elements in row-major order: the first of equals; a NaN counts as the largest",
        [](Builder& b, Arguments a) { return arg_extreme(b, Op::amax, a[0].value, a[1].axes, flag(a[2])); }},
    Row{"argmin(input, axis=none, keepdim=false)", "vaf", kPositions, "where the smallest stands along an axis, or among all elements in row-major order: the first of equals; a NaN counts as the smallest",
        [](Builder& b, Arguments a) { return arg_extreme(b, Op::amin, a[0].value, a[1].axes, flag(a[2])); }},

    Row{"rand_like(input, seed, offset)", "vrr", kRandom, "uniform in [0, 1), a number for each element of input: Philox4x32-10 of (seed, offset, its index)",
        [](Builder& b, Arguments a) { return b.rand_like(a[0].value, a[1].value, a[2].value); }},
    Row{"dropout(input, p, seed, offset)", "vvrr", kRandom, "input / (1 - p) where rand_like(input, seed, offset) >= p, else 0; all 0 for p of 1",
        [](Builder& b, Arguments a) { return dropout(b, a[0].value, a[1].value, a[2].value, a[3].value); }},
    Row{"narrow(input, dim, start, length)", "viii", kViews, "input[start : start + length] along dimension dim",
        view_of<View::Kind::narrow>},
    Row{"select(input, dim, index)", "vii", kViews, "input[index] along dimension dim, which goes",
        [](Builder& b, Arguments a) { return b.view(a[0].value, select_view(whole(a[1]), whole(a[2]))); }},
    Row{"chunk(input, chunks, dim=0)[index]", "viii", kViews, "one of so many pieces of dimension dim, the last of which may be smaller",
        view_of<View::Kind::chunk>},
    Row{"split(input, split_size, dim=0)[index]", "vlii", kViews, "one of the pieces of that size of dimension dim, the last of which may be smaller; or of these sizes", build_split},
    Row{"flip(input, dims)", "vl", kViews, "input in reverse order along these dimensions",
        [](Builder& b, Arguments a) { return b.view(a[0].value, flip_view(a[1].list)); }},
    Row{"permute(input, dims)", "vl", kViews, "dimension i is dimension dims[i] of input", listed_view_of<View::Kind::permute>},
    Row{"transpose(input, dim0, dim1)", "vii", kViews, "input with these two dimensions exchanged", view_of<View::Kind::transpose>},
    Row{"unsqueeze(input, dim)", "vi", kViews, "input with a dimension of one element at place dim",
        [](Builder& b, Arguments a) { return b.view(a[0].value, unsqueeze_view(whole(a[1]))); }},
    Row{"squeeze(input, dim)", "vi", kViews, "input without dimension dim, which has one element", view_of<View::Kind::squeeze>},
    Row{"expand(input, sizes)", "vl", kViews, "input broadcast to these sizes; -1 keeps one", listed_view_of<View::Kind::expand>},
    Row{"reshape(input, sizes)", "vl", kViews, "input in these sizes, one of which may be -1, in row-major order",
        listed_view_of<View::Kind::reshape>},
    Row{"window(input, dim, size, stride, dilation=1, padding=0, ceil_mode=false, value=0)[index]", "viiiiifni", kViews,
        "one element of each window of so many elements along dimension dim; value in the padding",
        [](Builder& b, Arguments a) {
          const Windows windows = {{whole(a[2])}, {whole(a[3])}, {whole(a[4])}, {whole(a[5])}, flag(a[6])};
          return window(b, a[0].value, whole(a[1]), windows, whole(a[8]), a[7].number);
        }},
    Row{"unfold(input, dimension, size, step, padding=0, ceil_mode=false, value=0)", "viiiifn", kViews,
        "windows of so many elements along a dimension, step apart; a dimension behind all others has their elements; value in the padding",
        [](Builder& b, Arguments a) {
          return b.view(a[0].value, unfold_view(whole(a[1]), whole(a[2]), whole(a[3]), whole(a[4]), flag(a[5]), a[6].number));
        }},
    Row{"pad(input, pad, mode=\"constant\", value=0)", "vlwn", kViews,
        "value before and behind the last dimension, the one before it, …; a negative size takes elements away",
        [](Builder& b, Arguments a) { return pad(b, a[0].value, a[1].list, a[2].word, a[3].number); }},
    Row{"roll(input, shifts, dims)", "vll", kViews, "elements that leave a dimension at its end come in at its beginning",
        [](Builder& b, Arguments a) { return roll(b, a[0].value, a[1].list, a[2].list); }},
    Row{"roll_parts(input, shift, dim)[index]", "viii", kViews, "[0]: what comes in at the beginning in roll, [1]: the rest",
        [](Builder& b, Arguments a) {
          return b.view(a[0].value, numbered_view(View::Kind::roll, {whole(a[2]), whole(a[1]), whole(a[3])}));
        }},
    Row{"cat(tensors, dim=0)", "mi", kViews, "tensors one behind the other along dimension dim",
        [](Builder& b, Arguments a) { return cat(b, a[0].values, whole(a[1])); }},
    Row{"stack(tensors, dim=0)", "mi", kViews, "tensors side by side, in a new dimension at place dim",
        [](Builder& b, Arguments a) { return stack(b, a[0].values, whole(a[1])); }},
    Row{"pixel_shuffle(input, upscale_factor)", "vi", kViews, "[n, c * r * r, h, w] as [n, c, h * r, w * r]",
        [](Builder& b, Arguments a) { return pixel_shuffle(b, a[0].value, whole(a[1])); }},
    Row{"pixel_unshuffle(input, downscale_factor)", "vi", kViews, "[n, c, h * r, w * r] as [n, c * r * r, h, w]",
        [](Builder& b, Arguments a) { return pixel_unshuffle(b, a[0].value, whole(a[1])); }},
    Row{"upsample_nearest1d(input, scale_factor)", "vl", kViews, "each element so often along dimension 2", upsample_of<1>},
    Row{"upsample_nearest2d(input, scale_factor)", "vl", kViews, "the same of dimensions 2 and 3", upsample_of<2>},
    Row{"upsample_nearest3d(input, scale_factor)", "vl", kViews, "the same of dimensions 2 to 4", upsample_of<3>},
    Row{"rope(input, cos, sin, positions=none, interleaved=false)", "vvvof", kViews, "rotary embedding: halves (or, interleaved, pairs) (a, b) of the last dimension as (fma(a, cos, -(b * sin)), fma(b, cos, a * sin)); with positions, of the tables' rows there",
        [](Builder& b, Arguments a) {
          if (a[3].value == kNone) return rope(b, a[0].value, a[1].value, a[2].value, flag(a[4]));
          return rope_at(b, a[0].value, a[1].value, a[2].value, a[3].value, flag(a[4]));
        }},

    Row{"take(input, indices, axis=0)", "vvi", kIndices, "input at these indices along a dimension, whose place the indices' dimensions take; negative ones count from the end",
        [](Builder& b, Arguments a) { return b.indexed(Op::take, a[0].value, a[1].value, dimension_of("take", whole(a[2]))); }},
    Row{"index_select(input, dim, index)", "viv", kIndices, "the same; negative indices are out of range",
        [](Builder& b, Arguments a) { return b.indexed(Op::index_select, a[0].value, a[2].value, dimension_of("index_select", whole(a[1]))); }},
    Row{"embedding(input, weight)", "vv", kIndices, "index_select(weight, 0, input)",
        [](Builder& b, Arguments a) { return b.indexed(Op::index_select, a[1].value, a[0].value, 0); }},
    Row{"gather(input, dim, index)", "viv", kIndices, "for each element of index the one of input that it names along dimension dim; negative indices are out of range",
        [](Builder& b, Arguments a) { return b.indexed(Op::gather, a[0].value, a[2].value, dimension_of("gather", whole(a[1]))); }},
    Row{"index_copy(input, dim, index, source)", "vivv", kIndices, "a result alone: source in the memory of the operand input, along dimension dim at the positions in index; where one is out of range nothing is written",
        [](Builder& b, Arguments a) { return b.index_copy(a[0].value, dimension_of("index_copy", whole(a[1])), a[2].value, a[3].value); }},
    Row{"one_hot(input, num_classes)", "vi", kIndices, "1 where a new last dimension stands at the class that input names, else 0",
        [](Builder& b, Arguments a) { return one_hot(b, a[0].value, whole(a[1])); }},

    Row{"max_pool1d(input, kernel_size, stride=none, padding=0, dilation=1, ceil_mode=false)", "vllllf", kPools, "the largest of each window of the last dimension; stride=none: kernel_size", max_pool_of<1>},
    Row{"max_pool2d(input, kernel_size, stride=none, padding=0, dilation=1, ceil_mode=false)", "vllllf", kPools, "the same of the last two dimensions", max_pool_of<2>},
    Row{"max_pool3d(input, kernel_size, stride=none, padding=0, dilation=1, ceil_mode=false)", "vllllf", kPools, "the same of the last three dimensions", max_pool_of<3>},
    Row{"avg_pool1d(input, kernel_size, stride=none, padding=0, ceil_mode=false, count_include_pad=true)", "vlllff", kPools, "the mean of each window of the last dimension", avg_pool_of<1>},
    Row{"avg_pool2d(input, kernel_size, stride=none, padding=0, ceil_mode=false, count_include_pad=true, divisor_override=none)", "vlllffl", kPools, "the same of the last two dimensions", avg_pool_of<2>},
    Row{"avg_pool3d(input, kernel_size, stride=none, padding=0, ceil_mode=false, count_include_pad=true, divisor_override=none)", "vlllffl", kPools, "the same of the last three dimensions", avg_pool_of<3>},
    Row{"lp_pool1d(input, norm_type, kernel_size, stride=none, ceil_mode=false)", "vnllf", kPools, "sum(input ** norm_type) ** (1 / norm_type) of each window of the last dimension", lp_pool_of<1>},
    Row{"lp_pool2d(input, norm_type, kernel_size, stride=none, ceil_mode=false)", "vnllf", kPools, "the same of the last two dimensions", lp_pool_of<2>},
    Row{"lp_pool3d(input, norm_type, kernel_size, stride=none, ceil_mode=false)", "vnllf", kPools, "the same of the last three dimensions", lp_pool_of<3>},
    Row{"adaptive_avg_pool1d(input, output_size)", "vk", kPools, "the mean of each of so many equal parts of the last dimension; none: as many as elements", adaptive_pool_of<1, Op::mean>},
    Row{"adaptive_avg_pool2d(input, output_size)", "vk", kPools, "the same of the last two dimensions", adaptive_pool_of<2, Op::mean>},
    Row{"adaptive_avg_pool3d(input, output_size)", "vk", kPools, "the same of the last three dimensions", adaptive_pool_of<3, Op::mean>},
    Row{"adaptive_max_pool1d(input, output_size)", "vk", kPools, "the largest of each of so many equal parts of the last dimension; none: as many as elements", adaptive_pool_of<1, Op::amax>},
    Row{"adaptive_max_pool2d(input, output_size)", "vk", kPools, "the same of the last two dimensions", adaptive_pool_of<2, Op::amax>},
    Row{"adaptive_max_pool3d(input, output_size)", "vk", kPools, "the same of the last three dimensions", adaptive_pool_of<3, Op::amax>},
};
// clang-format on

ArgumentType type_of(char letter) {
  constexpr std::string_view kLetters = "voniafstwrlmk";  // in the order of ArgumentType
  return static_cast<ArgumentType>(kLetters.find(letter));
}

// "norm(input, p=2, *, keepdim=false)" and "vnf"
std::vector<FunctionParameter> parse_signature(std::string_view signature, std::string_view types) {
  const auto open = signature.find('(');
  std::string_view list = signature.substr(open + 1, signature.find(')') - open - 1);
  std::vector<FunctionParameter> parameters;
  bool keyword_only = false;
  while (!list.empty()) {
    const auto comma = std::min(list.find(','), list.size());
    const std::string_view item = base::trim(list.substr(0, comma));
    list.remove_prefix(std::min(comma + 1, list.size()));
    if (item == "*") {
      keyword_only = true;
      continue;
    }
    const auto equals = item.find('=');
    FunctionParameter parameter{item.substr(0, equals), type_of(types[parameters.size()]), std::nullopt, keyword_only};
    if (equals != item.npos) parameter.default_text = item.substr(equals + 1);
    parameters.push_back(parameter);
  }
  if (signature.ends_with("[index]")) parameters.push_back({"index", ArgumentType::integer, std::nullopt, true, true});
  return parameters;
}

Function function_of(const Row& row) {
  return {row.signature.substr(0, row.signature.find('(')),
          std::string(row.signature),
          parse_signature(row.signature, row.types),
          row.group,
          row.formula,
          row.build};
}

Function function_of(const OpRow& row) {
  const auto build = [op = row.op](Builder& b, Arguments a) {
    std::array<Value, kMaxArity> values = {kNone, kNone, kNone};
    std::ranges::transform(a, values.begin(), &Argument::value);
    return b.apply(op, values);
  };
  const std::string types(static_cast<std::size_t>(row.arity()), 'v');
  return {row.name, std::string(row.signature), parse_signature(row.signature, types), row.group, row.formula, build};
}

Ties ties_of(std::string_view function, std::string_view word) {
  for (const Ties ties : {Ties::share, Ties::first, Ties::pool})
    if (word == name_of(ties)) return ties;
  base::fail(ErrorCode::invalid_expression, "'ties' of '{}' is \"share\", \"first\" or \"pool\", found '{}'", function,
             base::shown(word));
}

Function function_of(const ReductionRow& row) {
  // As in PyTorch: there the third argument of var by position was once something else.
  constexpr std::string_view kPlain = "(input, axis=none, keepdim=false)";
  constexpr std::string_view kVar = "(input, axis=none, *, correction=1, keepdim=false)";
  constexpr std::string_view kExtreme = "(input, axis=none, keepdim=false, *, ties=\"share\")";
  if (row.op == Op::var) {
    const auto build = [](Builder& b, Arguments a) {
      return b.reduce(Op::var, a[0].value, a[1].axes, flag(a[3]), a[2].number);
    };
    return {row.name, fmt::format("{}{}", row.name, kVar), parse_signature(kVar, "vanf"), kReductions, row.formula,
            build};
  }
  if (is_extreme(row.op)) {
    const auto build = [op = row.op](Builder& b, Arguments a) {
      return b.extreme(op, a[0].value, a[1].axes, flag(a[2]), ties_of(reduction_row(op).name, a[3].word));
    };
    return {
        row.name, fmt::format("{}{}", row.name, kExtreme), parse_signature(kExtreme, "vafw"), kReductions, row.formula,
        build};
  }
  const auto build = [op = row.op](Builder& b, Arguments a) { return b.reduce(op, a[0].value, a[1].axes, flag(a[2])); };
  return {row.name, fmt::format("{}{}", row.name, kPlain), parse_signature(kPlain, "vaf"), kReductions, row.formula,
          build};
}

std::vector<Function> make_function_table() {
  std::vector<Function> table;
  const auto unlisted = std::ranges::find(kRows, kReductions, &Row::group);
  // gelu stands before the row of that name: it is found first.
  for (const Row& row : std::span(kRows.begin(), unlisted)) table.push_back(function_of(row));
  for (const OpRow& row : op_table()) table.push_back(function_of(row));
  for (const ReductionRow& row : reduction_table()) table.push_back(function_of(row));
  for (const Row& row : std::span(unlisted, kRows.end())) table.push_back(function_of(row));
  return table;
}

double parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  double value = std::numeric_limits<double>::infinity();
  if (text != "inf") std::from_chars(text.data(), text.data() + text.size(), value);
  return negative ? -value : value;
}

// PyTorch has both names of each pair.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kOtherNames = {{
    {"dim", "axis"},
    {"axis", "dim"},
    {"num_groups", "groups"},
}};

enum class Sample { required, all };

// The function on tensors (different ones, so that nothing is simplified away), with those that may be left out or
// without.
Program sample(const Function& function, Sample which = Sample::required) {
  Builder builder;
  std::vector<Argument> arguments;
  for (const FunctionParameter& parameter : function.parameters) {
    Argument argument{.number = parameter.in_brackets ? 0.0 : 1.0,
                      .axes = {{-1}, 1, false},
                      .sizes = {1, -1},
                      .dtype = DType::f8e4m3,
                      .list = {1}};
    if (parameter.name == "pad") argument.list = {1, 1};  // two sizes for a dimension
    const bool is_given = !parameter.default_text || which == Sample::all;
    if (parameter.default_text) argument = parameter.default_argument(builder);
    if (is_given && (parameter.type == ArgumentType::value || parameter.type == ArgumentType::optional_value))
      argument.value = builder.input(fmt::format("x{}", arguments.size()));
    if (parameter.type == ArgumentType::values) argument.values = {builder.input("x0"), builder.input("x1")};
    if (parameter.type == ArgumentType::seed) argument.value = builder.scalar(parameter.name);
    arguments.push_back(argument);
  }
  builder.result("", function.build(builder, arguments));
  return std::move(builder).finish();
}

}  // namespace

Argument FunctionParameter::default_argument(Builder& builder) const {
  Argument argument;
  const std::string_view text = *default_text;
  switch (type) {
    case ArgumentType::value:
      argument.value = builder.constant(parse_number(text));
      break;
    case ArgumentType::number:
    case ArgumentType::integer:
      argument.number = parse_number(text);
      break;
    case ArgumentType::flag:
      argument.number = text == "true" ? 1 : 0;
      break;
    case ArgumentType::axes:
      if (text != "none")
        argument.axes = axes_of(name, std::array{static_cast<std::int64_t>(parse_number(text))}, false);
      break;
    case ArgumentType::word:
      argument.word = text.substr(1, text.size() - 2);  // without the quotes
      break;
    case ArgumentType::list:
      if (text != "none") argument.list = {static_cast<std::int64_t>(parse_number(text))};
      break;
    case ArgumentType::optional_value:
    case ArgumentType::sizes:
    case ArgumentType::dtype:
    case ArgumentType::seed:
    case ArgumentType::values:
    case ArgumentType::kept_list:
      break;
  }
  return argument;
}

std::size_t Function::position(std::string_view keyword) const {
  const auto named = [&](std::string_view word) {
    return static_cast<std::size_t>(std::ranges::find(parameters, word, &FunctionParameter::name) - parameters.begin());
  };
  const std::size_t exact = named(keyword);
  const auto other = std::ranges::find(kOtherNames, keyword, &std::pair<std::string_view, std::string_view>::first);
  return exact == parameters.size() && other != kOtherNames.end() ? named(other->second) : exact;
}

int Function::cost() const {
  const Program program = sample(*this);
  std::vector<bool> per_element;
  int cost = 0;
  for (const Node& node : program.nodes()) {
    const auto used = std::span(node.args).first(static_cast<std::size_t>(node.arity()));
    const bool runs = std::ranges::any_of(used, [&](Value arg) { return per_element[static_cast<std::size_t>(arg)]; });
    if (runs && is_elementwise(node.op)) cost += row(node.op).cost;
    if (runs && is_reduction(node.op)) cost += reduction_row(node.op).cost;
    if (node.op == Op::rand_like) cost += kRandomCost;
    per_element.push_back(is_operand(node.op) || (runs && !is_reduction(node.op)));
  }
  return cost;
}

bool Function::gives_truth() const {
  const Program program = sample(*this);
  return ir::gives_truth(program.node(program.results()[0].value));
}

std::string Function::type() const {
  if (std::ranges::find(parameters, ArgumentType::dtype, &FunctionParameter::type) != parameters.end()) return "dtype";
  const Program program = sample(*this, Sample::all);
  const auto with = [&](DType first, DType others) {
    std::vector<OperandType> operands(program.inputs().size(), {others, kMaxDimensions});
    operands[0].dtype = first;
    return result_types(program, operands)[0];
  };
  if (with(DType::f64, DType::f64) == DType::f32) return "f32";
  const DType of_floats = with(DType::f16, DType::f32);
  if (group == kIndices && with(DType::f32, DType::f16) == DType::f16) return fmt::format("of {}", parameters[1].name);
  if (category_of(of_floats) != Category::floating) return std::string(to_string(of_floats));
  const std::string base = of_floats == DType::f32 ? "promoted" : "of the input";
  const DType of_integers = with(DType::i8, DType::i8);
  if (of_integers != DType::i8) return fmt::format("{}, {} for integers", base, to_string(of_integers));
  const DType of_truths = with(DType::boolean, DType::boolean);
  return of_truths == DType::boolean ? base : fmt::format("{}, {} for bool", base, to_string(of_truths));
}

std::span<const Function> function_table() {
  // Leaked: used during static destruction.
  static const auto& functions = *new std::vector<Function>(make_function_table());
  return functions;
}

const Function* find_function(std::string_view name) {
  const auto it = std::ranges::find(function_table(), name, &Function::name);
  return it == function_table().end() ? nullptr : &*it;
}

}  // namespace epifuse::ir
