// The fuzz targets: each eats any bytes. What they check holds for every input; a broken promise ends the process, so
// that libFuzzer (main.cpp) and the corpus test (corpus_test.cpp) both see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string_view>

namespace epifuse::fuzz {

using Bytes = std::span<const std::uint8_t>;

/// Text becomes a program that prints and parses back to itself, or an Error that is the user's.
void parser(Bytes bytes);
/// A .npy file is read, and its header is written and read back, or an Error names what is wrong.
void npy(Bytes bytes);
/// Only the bytes that entry_header() and the payload make are an entry; whatever differs is refused.
void cache_entry(Bytes bytes);
/// Only bytes that write_bundle() gives are a bundle, image by image; whatever differs is refused, and nothing outside
/// of them is read.
void bundle(Bytes bytes);
/// A chain with tensors of any shape, stride, type and address gets a plan whose parameters can be packed, or an Error.
void plan(Bytes bytes);

struct Target {
  std::string_view name;
  void (*run)(Bytes);
};
inline constexpr Target kTargets[] = {
    {"parser", parser}, {"npy", npy}, {"cache_entry", cache_entry}, {"bundle", bundle}, {"plan", plan}};

/// Ends the process unless the promise holds.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

}  // namespace epifuse::fuzz
