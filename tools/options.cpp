// Options as text, and what they must be.
#include "options.hpp"

#include <charconv>
#include <limits>

#include "support.hpp"

namespace epifuse::tool {
namespace {

[[noreturn]] void refuse_value(const std::string& option, const std::string& found, const std::string& expected) {
  refuse("{}: found '{}'; expected {}", option, found, expected);
}

}  // namespace

CLI::Option* add_switch(CLI::App& command, const std::string& name, bool& value, const std::string& help) {
  const auto no_value = [](const std::string& text) {
    return text == "true" ? std::string() : fmt::format("found '{}'; expected no value", text);
  };
  return command.add_flag(name, value, help)->check(no_value);
}

void add_integer(CLI::App& command, const std::string& name, std::uint64_t& value, std::uint64_t most,
                 const std::string& help) {
  const auto read = [name, most, &value](const std::string& text) {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc() || end != text.data() + text.size() || value > most)
      refuse_value(name, text, fmt::format("an integer from 0 to {}", most));
  };
  command.add_option_function<std::string>(name, read, help)->type_name("N")->default_str(fmt::format("{}", value));
}

void add_number(CLI::App& command, const std::string& name, double& value, double least, double most,
                const std::string& help) {
  const auto read = [name, least, most, &value](const std::string& text) {
    const auto number = parse_number(text);
    if (!number || !(*number >= least && *number <= most))  // NaN is neither
      refuse_value(name, text, fmt::format("a number from {} to {}", least, most));
    value = *number;
  };
  auto* option = command.add_option_function<std::string>(name, read, help)->type_name("NUMBER");
  if (value != 0) option->default_str(fmt::format("{}", value));
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value, const std::string& expected,
                      const std::string& help) {
  const auto read = [name, expected, &value](const std::string& text) {
    if (text.empty()) refuse_value(name, text, expected);
    value = text;
  };
  return command.add_option_function<std::string>(name, read, help);
}

void add_seed(CLI::App& command, std::uint64_t& seed) {
  add_integer(command, "--seed", seed, std::numeric_limits<std::uint64_t>::max(), "Of random operands");
}

void add_threads(CLI::App& command, std::uint64_t& threads) {
  constexpr std::uint64_t kMost = 1024;
  add_integer(command, "--threads", threads, kMost, "Compilers at once; 0: one for each core");
}

void add_device(CLI::App& command, std::string& device) {
  const auto read = [&device](const std::string& text) {
    try {
      if (text != "auto") Device::parse(text);
    } catch (const Error&) {
      refuse_value("--device", text, "auto, cpu, cuda or cuda:N");
    }
    device = text;
  };
  command.add_option_function<std::string>("--device", read, "auto, cpu, cuda or cuda:N")
      ->type_name("DEVICE")
      ->default_str(device);
}

PlanTarget parse_target(const std::string& text) {
  const auto refuse_target = [&] {
    refuse_value("--arch", text, "an architecture, sm_90 or 90, and if need be :MULTIPROCESSORS:L2BYTES:BANDWIDTH");
  };
  std::string_view digits = text;
  for (const std::string_view prefix : {"sm_", "compute_"}) {
    if (!text.starts_with(prefix)) continue;
    digits.remove_prefix(prefix.size());
  }
  Cursor cursor(digits);
  const auto number = [&](std::int64_t least, std::int64_t most) {
    const auto found = cursor.integer();
    if (!found || *found < least || *found > most) refuse_target();
    return *found;
  };
  constexpr std::int64_t kMostMultiprocessors = 100'000;
  constexpr std::int64_t kMostBytes = std::int64_t{1} << 40;
  constexpr std::int64_t kMostBandwidth = 1'000'000'000'000'000'000;  // bytes per second
  PlanTarget target{.architecture = static_cast<int>(number(10, 9999))};
  if (cursor.accept(':')) target.multiprocessors = static_cast<int>(number(1, kMostMultiprocessors));
  if (target.multiprocessors > 0 && cursor.accept(':')) target.l2_bytes = number(1, kMostBytes);
  if (target.l2_bytes > 0 && cursor.accept(':')) target.bandwidth = static_cast<double>(number(1, kMostBandwidth));
  if (!cursor.done()) refuse_target();
  return target;
}

void add_targets(CLI::App& command, std::vector<PlanTarget>& targets, const std::string& help) {
  const auto read = [&targets](const std::vector<std::string>& items) {
    for (const std::string& item : items) targets.push_back(parse_target(item));
  };
  command.add_option_function<std::vector<std::string>>("--arch", read, help)
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("SM[,SM]");
}

Device chosen_device(const std::string& device) {
  return device == "auto" ? Device::automatic() : Device::parse(device);
}

}  // namespace epifuse::tool
