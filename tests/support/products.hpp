// Random matrix products with a chain, and what their results must be: sums that are computed element by element in
// f64, and share nothing with the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

namespace epifuse::test {

class ProductCase {
 public:
  enum class Drawn {
    any_layout,  ///< all types, gaps between elements, any extents
    for_tiles,  ///< types that tensor cores multiply, in rows that TMA copies, larger extents, one product or two of one left factor
  };
  ProductCase(std::uint64_t seed, Drawn drawn);
  ~ProductCase();
  ProductCase(const ProductCase&) = delete;
  ProductCase& operator=(const ProductCase&) = delete;

  /// Launches it on the engine's device; what is wrong with the result, or nothing. Throws what the launch throws.
  std::string judge(Engine& engine) const;
  /// The chain and its operands, for people.
  std::string text() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace epifuse::test
