// Engines live as long as the process: Python may launch until it ends.
#include "engines.hpp"

#include <map>
#include <memory>
#include <mutex>

namespace epifuse::python {
namespace {

namespace nb = nanobind;

struct Engines {
  std::mutex mutex;
  std::map<int, std::unique_ptr<Engine>> by_index;  // the CPU is -1
};
Engines& engines() {
  static Engines all;
  return all;
}

}  // namespace

Engine& engine_for(Device device) {
  Engines& all = engines();
  const std::lock_guard lock(all.mutex);
  std::unique_ptr<Engine>& engine = all.by_index[device.kind == Device::Kind::cpu ? -1 : device.index];
  if (engine == nullptr) engine = std::make_unique<Engine>(device);
  return *engine;
}

std::map<std::string, EngineStats> all_stats() {
  Engines& all = engines();
  const std::lock_guard lock(all.mutex);
  std::map<std::string, EngineStats> stats;
  for (const auto& [index, engine] : all.by_index) {
    if (engine != nullptr) stats[to_string(engine->device())] = engine->stats();
  }
  return stats;
}

std::map<std::string, std::vector<KernelStats>> all_kernel_stats() {
  Engines& all = engines();
  const std::lock_guard lock(all.mutex);
  std::map<std::string, std::vector<KernelStats>> stats;
  for (const auto& [index, engine] : all.by_index) {
    if (engine != nullptr) stats[to_string(engine->device())] = engine->kernel_stats();
  }
  return stats;
}

void bind_errors() {
  nb::register_exception_translator([](const std::exception_ptr& problem, void*) {
    try {
      std::rethrow_exception(problem);
    } catch (const Error& found) {
      if (found.is_bad_input()) {
        PyErr_SetString(PyExc_ValueError, found.what());
        return;
      }
      const nb::object kind = nb::module_::import_("epifuse._errors").attr("Error");
      const nb::object error = kind(found.what());
      nb::setattr(error, "code", nb::str(to_string(found.code())));
      PyErr_SetObject(kind.ptr(), error.ptr());
    }
  });
}

}  // namespace epifuse::python
