// What a user's first program may look like; here it proves that the installed headers and library are complete.
#include <iostream>

#include <epifuse/dtype.hpp>
#include <epifuse/error.hpp>
#include <epifuse/tensor.hpp>

int main() {
  float data[6] = {};
  const epifuse::OutputView view(data, epifuse::DType::f32, {2, 3});
  if (epifuse::to_string(view.strides) != "[3, 1]") return 1;
  std::cout << "consumer: shape " << epifuse::to_string(view.shape) << "\n";
}
