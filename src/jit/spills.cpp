// The bounds stand in the source as text, and are changed there: plan and class stay what they are.
// Called through spills.hpp.
#include "jit/spills.hpp"

#include <charconv>
#include <optional>
#include <utility>

#include "base/log.hpp"

namespace epifuse::jit {
namespace {

// Of the benchmarks, 14 kernels spill 4 to 48 bytes and keep their blocks; 76 bytes are the fewest of which wrong
// code is known.
constexpr int kMostSpilledBytes = 48;

// Where a source says how many blocks of its kernel a multiprocessor shall hold.
struct AskedBlocks {
  std::size_t at, length;
  int blocks;
};

std::optional<AskedBlocks> asked_blocks(const std::string& source) {
  constexpr std::string_view kBounds = "__launch_bounds__(";
  const std::size_t bounds = source.find(kBounds);
  if (bounds == source.npos) return std::nullopt;
  const std::size_t end = source.find(')', bounds);
  const std::size_t comma = source.find(", ", bounds);
  if (end == source.npos || comma > end) return std::nullopt;
  AskedBlocks asked{comma + 2, end - comma - 2, 0};
  std::from_chars(source.data() + asked.at, source.data() + end, asked.blocks);
  return asked;
}

// Of few blocks each one lost counts: a kernel of 256 threads that spilled 116 bytes under a bound of three blocks
// spills none under one of two.
int fewer(int blocks) {
  constexpr int kFew = 4;
  return blocks <= kFew ? blocks - 1 : blocks / 2;
}

}  // namespace

Compiled compile_with_few_spills(const Nvrtc& nvrtc, std::string source, const std::string& name, const Target& target,
                                 std::vector<std::string> options) {
  options.emplace_back(kTellResources);
  Compiled compiled{.source = std::move(source), .image = {}, .resources = {}};
  while (true) {
    std::string log;
    compiled.image = nvrtc.compile(compiled.source, name, target, options, &log);
    if (target.kind == ImageKind::ptx) return compiled;
    compiled.resources = resources_of(log);
    const auto asked = asked_blocks(compiled.source);
    if (compiled.resources.spilled_bytes <= kMostSpilledBytes || !asked || asked->blocks < 2) return compiled;
    compiled.resident_blocks = fewer(asked->blocks);
    base::log().debug("{} spills {} bytes with {} resident blocks, and is compiled for {}", name,
                      compiled.resources.spilled_bytes, asked->blocks, compiled.resident_blocks);
    compiled.source.replace(asked->at, asked->length, std::to_string(compiled.resident_blocks));
  }
}

}  // namespace epifuse::jit
