// What a commit makes of launches: plan, parameters, source, machine code. One program, built at both commits that
// ./dev same compares; it reads lines of JSON and writes one line for each, in the same order.
//
//   epifuse_describe launches                     a launch (launch.hpp) -> class, grid, workspace, parameters, source;
//                                                 or the error
//   epifuse_describe text                         a launch -> the plan as people read it
//   epifuse_describe code                         {"source", "architecture"} -> registers, shared memory, spills, and
//                                                 the cubin in hexadecimal
//   epifuse_describe draw --count N --seed S      writes random launches
//   epifuse_describe corpus FOLDER                writes the launches that the files of a fuzzer's corpus stand for
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

#include "codegen/emit.hpp"
#include "fuzz/drawn_launch.hpp"
#include "jit/spills.hpp"
#include "same/launch.hpp"
#include "support/as_written.hpp"
#include "support/random_case.hpp"
#include "support/reduction_case.hpp"

namespace epifuse::same {
namespace {

using nlohmann::json;

std::string hexadecimal(const void* data, std::size_t size) {
  static constexpr char kDigits[] = "0123456789abcdef";
  const auto* bytes = static_cast<const unsigned char*>(data);
  std::string text;
  text.reserve(2 * size);
  for (std::size_t i = 0; i < size; ++i) text += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return text;
}

// ---- launches

// Addresses that plans do not depend on beyond their alignment, but parameters hold.
constexpr std::uintptr_t kWorkspace = std::uintptr_t{1} << 44;

json describe(const Launch& launch) {
  const Epilogue tail = Epilogue::parse(launch.chain);
  const ir::Program& program = tail.program();
  const plan::Plan made = plan::make_plan(program, launch.outputs, launch.inputs, launch.views, launch.machine);
  json out = {{"class", plan::to_text(made.kernel_class)},
              {"blocks", made.blocks},
              {"threads", made.threads},
              {"shared", made.shared_bytes},
              {"workspace", made.workspace.bytes},
              {"zeroed", made.workspace.zeroed_bytes}};
  if (made.blocks == 0) return out;  // nothing is launched
  std::vector<double> scalars(program.scalars().size());
  for (std::size_t i = 0; i < scalars.size(); ++i) scalars[i] = 1.5 + static_cast<double>(i);
  const std::vector<std::byte> parameters =
      codegen::pack(program, made, scalars, reinterpret_cast<const void*>(kWorkspace));
  out["parameters"] = hexadecimal(parameters.data(), parameters.size());
  out["source"] = codegen::emit(program, made.kernel_class, made.space.input_kinds());
  return out;
}

json readable(const Launch& launch) {
  const Inspection inspection(test::as_written(launch.chain), launch.outputs, launch.inputs,
                              {launch.machine.architecture, launch.machine.multiprocessors});
  return {{"text", inspection.plan_text()}};
}

// ---- machine code

json compile(const json& request) {
  const jit::Target target{request.at("architecture"), jit::ImageKind::cubin};
  const jit::Compiled compiled = jit::compile_with_few_spills(jit::Nvrtc::get(), request.at("source"), "epifuse",
                                                              target, jit::compile_options(target));
  return {{"registers", compiled.resources.registers},
          {"shared", compiled.resources.shared_bytes},
          {"spilled", compiled.resources.spilled_bytes},
          {"cubin", hexadecimal(compiled.image.data(), compiled.image.size())}};
}

// ---- cases

Launch launch_of(const test::Case& test, std::string id, int architecture) {
  Launch launch;
  launch.id = std::move(id);
  launch.chain = test::to_text(test.chain);
  launch.machine.architecture = architecture;
  const Epilogue tail = Epilogue::parse(launch.chain);
  test::Memory memory(test);
  test::Views views = test::views_apart(test, tail, memory);
  launch.inputs = std::move(views.inputs);
  launch.outputs = std::move(views.outputs);
  return launch;
}

void draw(std::size_t count, std::uint64_t seed) {
  constexpr std::array kArchitectures = {90, 75, 80, 100, 120};
  constexpr std::array kElements = {300, 5'000, 200'000};
  test::Random seeds(seed);
  for (std::size_t i = 0; i < count; i += 2) {
    const int elements = kElements[i / 2 % kElements.size()];
    const int architecture = kArchitectures[i / 2 % kArchitectures.size()];
    test::Family family(seeds.bits());
    test::ReductionFamily reductions(seeds.bits());
    const std::string number = std::to_string(i / 2);
    std::cout << to_line(launch_of(family.next(elements), "random pointwise " + number, architecture)) << '\n'
              << to_line(launch_of(reductions.next(elements), "random reduction " + number, architecture)) << '\n';
  }
}

void read_corpus(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  std::ranges::sort(files);
  for (const std::filesystem::path& path : files) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes((std::istreambuf_iterator<char>(file)), {});
    try {
      fuzz::DrawnLaunch drawn = fuzz::draw_launch({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      const Launch launch{"corpus " + path.filename().string(),
                          drawn.chain,
                          std::move(drawn.inputs),
                          std::move(drawn.outputs),
                          drawn.views,
                          drawn.machine};
      std::cout << to_line(launch) << '\n';
    } catch (const Error&) {  // a chain that is none makes no launch
    }
  }
}

// ---- lines in, lines out

int answer(const std::function<json(const std::string&)>& make) {
  std::string line;
  while (std::getline(std::cin, line)) {
    json out;
    try {
      out = make(line);
    } catch (const Error& error) {
      out = {{"error", error.what()}};
    }
    std::cout << out.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
  }
  std::cout.flush();
  return std::cout ? 0 : 1;
}

int run(int argc, char** argv) {
  CLI::App app("What this commit makes of launches, for ./dev same");
  app.require_subcommand(1);
  std::size_t count = 10'000;
  std::uint64_t seed = 1;
  std::string folder;
  const CLI::App* launches = app.add_subcommand("launches", "plans and emits each launch of standard input");
  const CLI::App* text = app.add_subcommand("text", "explains the plan of each launch of standard input");
  const CLI::App* code = app.add_subcommand("code", "compiles each source of standard input");
  CLI::App* drawn = app.add_subcommand("draw", "writes random launches");
  drawn->add_option("--count", count, "how many");
  drawn->add_option("--seed", seed, "of the random numbers");
  CLI::App* corpus = app.add_subcommand("corpus", "writes the launches of a corpus of tests/fuzz/plan.cpp");
  corpus->add_option("FOLDER", folder, "of the corpus")->required();
  CLI11_PARSE(app, argc, argv);

  if (*launches) return answer([](const std::string& line) { return describe(from_line(line)); });
  if (*text) return answer([](const std::string& line) { return readable(from_line(line)); });
  if (*code) return answer([](const std::string& line) { return compile(json::parse(line)); });
  if (*drawn) draw(count, seed);
  if (*corpus) read_corpus(folder);
  return 0;
}

}  // namespace
}  // namespace epifuse::same

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  try {
    return epifuse::same::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "epifuse_describe: " << error.what() << '\n';
    return 2;
  }
}
