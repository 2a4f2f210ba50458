// One process of the generator: draws programs by number, checks them, shrinks what fails. Called by main.cpp and the
// soak.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "generator/check.hpp"
#include "generator/ledger.hpp"

namespace epifuse::test {

struct GeneratorOptions {
  std::uint64_t seed = 1;
  std::uint64_t first = 0;        ///< number of the first program
  std::uint64_t programs = 1000;  ///< that are drawn at most
  std::uint64_t compiled = 0;     ///< programs whose kernels compile, after which the run ends; 0: any number
  double seconds = 0;             ///< after which the run ends; 0: never
  int jobs = 0;
  std::uint64_t full_every = 400;   ///< one kernel in so many is compiled with the library's own options
  std::uint64_t emitted_every = 0;  ///< one program in so many runs as emitted text; 0: none
  int emitted_per_kind = 0;         ///< and so many of each kind of kernel
  std::string only;                 ///< small, medium, large or chain: programs of another size are passed over
  bool compile = true;
  bool shrink = true;
  std::string findings;  ///< file that gets a line of JSON per finding
  std::string json;
};

/// A finding as the lines that people read: message, program, and its line for tests/regressions/cases.inc.
std::string describe(std::uint64_t seed, std::uint64_t number, const Program& program, const Finding& finding);
/// Which findings are alike.
std::string signature_of(const Finding& finding);
/// A smaller program with the same stage of failure.
Program smaller(const Program& program, Stage stage);
/// The same where the process ends: each attempt is a child's.
Program smaller_crash(const Program& program);
/// Appends it to the file of findings.
void record(const GeneratorOptions& options, std::uint64_t number, const Program& program, const Finding& finding);

/// Takes numbers from the ledger until there are none. Returns at the end of the run.
void work(const GeneratorOptions& options, Ledger& ledger, Running& running);

}  // namespace epifuse::test
