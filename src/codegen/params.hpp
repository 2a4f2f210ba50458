// The kernel's parameter struct, described once: the same list of fields is printed into the source and becomes the
// layout by which launches pack it, so that the two cannot disagree.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::codegen {

/// What a field holds; who fills it in knows its size from here.
enum class FieldKind : std::uint8_t {
  input_pointer,
  output_pointer,
  strides,
  scalar,
  random,
  count,
  index,
  divisor,
  extents_and_divisors,
  written_extents,  // the same of what is written in place of rows' elements
  workspace,
  origin,        // of an operand that is bounded
  distance,      // of a run from its base
  place_in_row,  // of the first element that is read of a row in shared memory
  inside,        // which positions exist: the first, and how many
  wraps,         // of an operand that is rolled: what is added to offsets behind the end of each dimension
  gathers  // of an operand that is read at indices: stride, extent, and what is added to negative indices, for each index
};

/// The numbers of templates/index.cuh's Divisor of 32 bits: multiplier and shift.
std::array<std::uint32_t, 2> divisor32(std::int64_t divisor);

/// A number that a plan has for a kernel.
using Number = std::int64_t (*)(const plan::Plan& plan);

struct Field {
  FieldKind kind;
  std::string type;  ///< as in C, for example "const f16*"
  std::string name;  ///< with array bounds, for example "strides_in_x[3]"
  std::string comment;
  std::size_t operand = 0;  ///< which input, output or scalar; of count and random: which value
  bool of_output = false;   ///< of strides
  Number number = nullptr;  ///< of index and divisor
  plan::Workspace::Use use = plan::Workspace::Use::signals;  ///< of workspace
  int stage = 0;                                             ///< of workspace
};

/// Names of operands in the source. User names get a prefix: whatever they are, they meet no keyword, macro or name of
/// the prelude.
std::string input_name(const ir::Program& program, std::size_t i);
std::string output_name(const ir::Program& program, std::size_t i);
std::string scalar_name(const ir::Program& program, std::size_t i);
std::string count_name(ir::Value value);
/// The values that are numbers of elements: parameters that the plan fills in.
std::vector<ir::Value> counts_of(const ir::Program& program);
/// Whether scalars or counts are among the kernel's parameters.
bool takes_numbers(const ir::Program& program);
/// Whether the kernel reads or writes elements of 8 bits.
bool has_bytes(const plan::KernelClass& kernel);

/// Whether offsets are made of quotients (plan::Flat::by_quotients).
bool goes_by_quotients(const plan::KernelClass& kernel);
/// Of such a kernel, whether the numbers of tiles count elements: each thread has one vector, and a grid has all tiles.
bool counts_tiles_in_elements(const plan::KernelClass& kernel);
/// Whether the kernel asks where its elements lie along the dimensions, or a number is enough for all operands.
bool has_coordinates(const plan::KernelClass& kernel);
/// Fields in the order of the struct.
std::vector<Field> parameter_fields(const ir::Program& program, const plan::KernelClass& kernel_class);

/// Where the fields lie, and how they are filled in: in two steps, since most launches of a kernel differ from one
/// before only in addresses and scalars. Made once per kernel.
class ParameterLayout {
 public:
  ParameterLayout(const ir::Program& program, const plan::KernelClass& kernel_class);

  /// Of the whole struct.
  std::size_t bytes() const noexcept { return bytes_; }
  /// Fills `params`, of bytes(), with what the plan alone says. Addresses are 0, those in the workspace offsets from
  /// its beginning.
  void pack_plan(const plan::Plan& plan, std::byte* params) const;

  /// An address or a scalar.
  struct Slot {
    FieldKind kind;
    std::uint32_t operand;
    std::uint32_t offset;
  };
  std::span<const Slot> slots() const noexcept { return slots_; }
  /// Adds what pack_plan() left out. `inputs` and `outputs` are sequences of whatever has a member `data`.
  template <class Outputs, class Inputs>
  void pack_operands(const Outputs& outputs, const Inputs& inputs, std::span<const double> scalars,
                     const void* workspace, std::byte* params) const {
    for (const Slot& slot : slots_) {
      std::byte* const at = params + slot.offset;
      switch (slot.kind) {
        case FieldKind::input_pointer:
          put(at, static_cast<const void*>(inputs[slot.operand].data));
          break;
        case FieldKind::output_pointer:
          put(at, static_cast<const void*>(outputs[slot.operand].data));
          break;
        case FieldKind::scalar:
          f64_ ? put(at, scalars[slot.operand]) : put(at, static_cast<float>(scalars[slot.operand]));
          break;
        case FieldKind::random:
          put(at, static_cast<std::uint64_t>(scalars[slot.operand]));
          break;
        default: {  // in the workspace
          std::uintptr_t address = 0;
          std::memcpy(&address, at, sizeof address);
          put(at, address + reinterpret_cast<std::uintptr_t>(workspace));
        }
      }
    }
  }

 private:
  struct Place {
    FieldKind kind;
    bool of_output;
    plan::Workspace::Use use;
    int stage;
    std::uint32_t operand;
    std::uint32_t offset;
    Number number;
  };

  template <class T>
  static void put(std::byte* at, T value) noexcept {
    std::memcpy(at, &value, sizeof value);
  }
  void put_index(std::byte*& at, std::int64_t value) const noexcept;
  void put_divisor(std::byte*& at, std::int64_t value) const noexcept;

  // A seed or an offset of random numbers that the chain gives.
  struct Word {
    std::uint64_t value;
    std::uint32_t offset;
  };
  void add_random(const ir::Program& program, const ir::Node& node);

  std::vector<Place> places_;
  std::vector<Word> words_;
  std::vector<Slot> slots_;
  std::size_t bytes_ = 0;
  int coordinates_;
  bool by_quotients_;
  bool wide_;
  bool f64_;
};

}  // namespace epifuse::codegen
