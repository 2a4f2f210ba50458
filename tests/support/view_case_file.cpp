#include "support/view_case_file.hpp"

#include <fstream>

#include <nlohmann/json.hpp>

namespace epifuse::test {
namespace {

using nlohmann::json;

IntegerArray array_of(const json& given) {
  IntegerArray array;
  for (const json& extent : given.at("shape")) array.shape.push_back(extent.get<std::int64_t>());
  array.values = given.at("values").get<std::vector<double>>();
  return array;
}

}  // namespace

std::vector<ViewCase> read_view_cases(const std::string& path) {
  std::ifstream file(path);
  std::vector<ViewCase> cases;
  for (const json& given : json::parse(file)) {
    ViewCase test;
    test.text = given.at("text").get<std::string>();
    for (const json& input : given.at("inputs")) {
      test.inputs.push_back(array_of(input));
      test.layouts.push_back(0);
      test.types.push_back(parse_dtype(input.at("type").get<std::string>()).value());
    }
    test.expected = array_of(given);
    test.tolerance = given.at("tolerance").get<double>();
    test.result = parse_dtype(given.value("result", "f32")).value();
    cases.push_back(std::move(test));
  }
  return cases;
}

}  // namespace epifuse::test
