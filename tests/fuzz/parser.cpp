// Text → Program → text → Program: both programs are the same, whatever the text.
#include <epifuse/error.hpp>

#include "fuzz/targets.hpp"
#include "ir/program.hpp"

namespace epifuse::fuzz {
namespace {

bool is_printable(std::string_view text) {
  for (const char c : text) {
    if (c != '\n' && (c < ' ' || c > '~')) return false;
  }
  return true;
}

}  // namespace

void parser(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ir::Program program;
  try {
    program = ir::parse(text, {});
  } catch (const Error& error) {
    require(error.is_bad_input(), "a chain's text is refused as the user's mistake");
    for (const char* c = error.what(); *c != '\0'; ++c)
      require(*c == '\n' || *c < 0 || (*c >= ' ' && *c != '\x7f'),
              "a message holds no control characters of the user's");
    return;
  }
  const std::string printed = ir::print(program);
  require(is_printable(printed) && printed.find('\n') == printed.npos, "a program prints as one line of plain text");
  require(is_printable(ir::print_ssa(program)) && is_printable(ir::print_dot(program)), "so do its other forms");
  const ir::Program again = ir::parse(printed, {});  // an Error from here ends the process
  if (ir::print(again) != printed || again.fingerprint() != program.fingerprint())
    std::fprintf(stderr, "first:  %s\nsecond: %s\n", printed.c_str(), ir::print(again).c_str());
  require(ir::print(again) == printed, "what was printed prints again as it is");
  require(again.fingerprint() == program.fingerprint(), "what was printed parses to the same program");
}

}  // namespace epifuse::fuzz
