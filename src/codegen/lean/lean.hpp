// Makes an emitted source lean: it holds what its kernel uses, and nothing that is known when it is emitted is left to
// be found out.
#pragma once

#include <string>
#include <string_view>

namespace epifuse::codegen {

/// Who compiles the text. With `both` it keeps what an ordinary C++ compiler takes in the place of what only CUDA's
/// understands: for the tests, which run emitted text on the CPU.
enum class Compilers { cuda, both };

/// How much changes: what is not used goes; or also what is known is written out, in expressions, parameters and places
/// of calls. With `known` loops and branches stay where they are, so that the compiler makes the same instructions of
/// it; `all` leaves no loop of one turn, and puts functions that branch in the place of their only call.
enum class Leanness { used, known, all };

/// The units of `text` that the function `entry` reaches, in reading order: what a reader needs first, the kernel last.
/// A text of more than 1 MiB stays as it is.
std::string made_lean(std::string_view text, std::string_view entry, Compilers compilers,
                      Leanness leanness = Leanness::all);

/// Differs where the passes do: a digest of this folder. For keys of what was compiled from a lean text.
std::string_view lean_passes();

}  // namespace epifuse::codegen
