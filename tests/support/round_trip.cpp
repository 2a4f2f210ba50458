// The promise of the text language, checked on every Program that a test makes: what print() writes, parse() reads back
// as the same Program. Linked into every test, it needs no call: Builder::finish() tells it. A broken promise ends the
// process.
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <epifuse/error.hpp>

#include "ir/program.hpp"

namespace epifuse::test {
namespace {

bool same_node(const ir::Node& a, const ir::Node& b) {
  return a.op == b.op && a.args == b.args && a.ordinal == b.ordinal && a.dtype == b.dtype && a.shaping == b.shaping &&
         std::bit_cast<std::uint64_t>(a.constant) == std::bit_cast<std::uint64_t>(b.constant);
}

// What differs; empty if nothing does.
std::string difference(const ir::Program& before, const ir::Program& after) {
  if (before.inputs() != after.inputs()) return "the inputs differ";
  if (before.scalars() != after.scalars()) return "the scalars differ";
  if (before.nodes().size() != after.nodes().size()) return "the numbers of values differ";
  for (std::size_t i = 0; i < before.nodes().size(); ++i) {
    if (!same_node(before.nodes()[i], after.nodes()[i])) return "value %" + std::to_string(i) + " differs";
  }
  if (before.results().size() != after.results().size()) return "the numbers of results differ";
  for (std::size_t i = 0; i < before.results().size(); ++i) {
    if (before.results()[i].value != after.results()[i].value) return "result " + std::to_string(i) + " differs";
    if (before.results()[i].name != after.results()[i].name)
      return "the name of result " + std::to_string(i) + " differs";
  }
  return before.fingerprint() == after.fingerprint() ? "" : "the fingerprints differ";
}

std::string broken_promise(const ir::Program& program, const std::string& text) {
  try {
    const ir::Program again = ir::parse(text, {}).with(program.math());
    const std::string why = difference(program, again);
    if (why.empty() && ir::print(again) != text) return "it prints again as " + ir::print(again);
    return why.empty() ? "" : why + "\n" + ir::print_ssa(again);
  } catch (const Error& error) {
    return error.what();
  }
}

void check(const ir::Program& program) {
  static thread_local bool checking = false;  // the Program that is read back is checked here, and not again
  if (checking) return;
  checking = true;
  const std::string text = ir::print(program);
  const std::string problem = broken_promise(program, text);
  checking = false;
  if (problem.empty()) return;
  std::fprintf(stderr, "broken promise: a Program does not survive its text\n%s\n%s%s\n", text.c_str(),
               ir::print_ssa(program).c_str(), problem.c_str());
  std::abort();
}

[[maybe_unused]] const bool kInstalled = (ir::on_finished_program = check, true);

}  // namespace
}  // namespace epifuse::test
