// The public API behind a dozen C functions, so that bench/bridge.py calls it with ctypes on PyTorch's tensors. For the
// benchmarks only: it is not installed, and nothing promises that it stays as it is.
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bridge.hpp"

namespace epifuse {
namespace {

using Json = nlohmann::json;

// The last text that was returned: the caller copies it at once.
thread_local std::string last_text;

// A text that lives until the thread's next call of one of these functions; null after an error.
template <class Action>
const char* text_of(const Action& action) noexcept {
  return guarded<const char*>(nullptr, [&] {
    last_text = action();
    return last_text.c_str();
  });
}

std::vector<std::int64_t> list_of(const Dims& dims) { return {dims.begin(), dims.end()}; }

Json json_of(const PlanSummary& plan) {
  return {{"schedule", plan.schedule},
          {"compute_type", plan.compute_type},
          {"space", list_of(plan.space)},
          {"elements_per_access", plan.elements_per_access},
          {"steps", plan.steps},
          {"threads", plan.threads},
          {"blocks", plan.blocks},
          {"bytes_read", plan.bytes_read},
          {"bytes_written", plan.bytes_written},
          {"instructions", plan.instructions},
          {"class", plan.kernel_class}};
}

template <class T>
Json optional_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace
}  // namespace epifuse

using epifuse::BridgeTensor;
using epifuse::Engine;
using epifuse::Epilogue;
using epifuse::Json;

EPIFUSE_BENCH_API const char* epifuse_bench_error() { return epifuse::last_error.c_str(); }

/// The code of an element type, -1 if there is none of that name.
EPIFUSE_BENCH_API std::int32_t epifuse_bench_dtype(const char* name) {
  const auto type = epifuse::parse_dtype(name);
  return type ? static_cast<std::int32_t>(*type) : -1;
}

/// JSON: version, driver, NVRTC, problems.
EPIFUSE_BENCH_API const char* epifuse_bench_system() {
  return epifuse::text_of([] {
    const epifuse::SystemReport report = epifuse::system_report();
    return Json({{"version", report.version},
                 {"driver", epifuse::optional_json(report.driver)},
                 {"nvrtc", epifuse::optional_json(report.nvrtc)},
                 {"problems", report.problems}})
        .dump();
  });
}

/// An engine on that GPU, or on the CPU for -1.
EPIFUSE_BENCH_API Engine* epifuse_bench_engine(std::int32_t device) {
  return epifuse::guarded<Engine*>(nullptr, [&] {
    const auto where = device < 0 ? epifuse::Device::cpu() : epifuse::Device::cuda(device);
    return std::make_unique<Engine>(where).release();
  });
}
EPIFUSE_BENCH_API void epifuse_bench_free_engine(Engine* engine) { delete engine; }

/// JSON: the engine's counters.
EPIFUSE_BENCH_API const char* epifuse_bench_stats(const Engine* engine) {
  return epifuse::text_of([&] {
    const epifuse::EngineStats stats = engine->stats();
    return Json({{"launches", stats.launches},
                 {"kernels", stats.kernels},
                 {"compiles", stats.compiles},
                 {"disk_hits", stats.disk_hits},
                 {"compile_ms", stats.compile_ms}})
        .dump();
  });
}

/// It takes operands in the order of epifuse_bench_names: bridge.py looks up the names.
EPIFUSE_BENCH_API Epilogue* epifuse_bench_tail(const char* text) {
  return epifuse::guarded<Epilogue*>(nullptr, [&] {
    const Epilogue tail = Epilogue::parse(text);
    return std::make_unique<Epilogue>(tail.inputs(tail.inputs())).release();
  });
}
EPIFUSE_BENCH_API void epifuse_bench_free_tail(Epilogue* tail) { delete tail; }

/// JSON: names of inputs, scalars and results.
EPIFUSE_BENCH_API const char* epifuse_bench_names(const Epilogue* tail) {
  return epifuse::text_of([&] {
    return Json({{"inputs", tail->inputs()}, {"scalars", tail->scalars()}, {"results", tail->results()}}).dump();
  });
}

/// JSON: the shape of each result.
EPIFUSE_BENCH_API const char* epifuse_bench_result_shapes(const Epilogue* tail, const BridgeTensor* inputs,
                                                          std::int32_t input_count) {
  return epifuse::text_of([&] {
    Json shapes = Json::array();
    const auto views = epifuse::views_of<epifuse::TensorView>(inputs, input_count);
    for (const epifuse::Dims& shape : tail->result_shapes(views)) shapes.push_back(epifuse::list_of(shape));
    return shapes.dump();
  });
}

/// 0, or -1 after an error.
EPIFUSE_BENCH_API std::int32_t epifuse_bench_launch(Engine* engine, const Epilogue* tail, void* stream,
                                                    const BridgeTensor* outputs, std::int32_t output_count,
                                                    const BridgeTensor* inputs, std::int32_t input_count,
                                                    const double* scalars, std::int32_t scalar_count) {
  return epifuse::guarded<std::int32_t>(-1, [&] {
    engine->launch(*tail, static_cast<epifuse::Stream>(stream),
                   epifuse::views_of<epifuse::OutputView>(outputs, output_count),
                   epifuse::views_of<epifuse::TensorView>(inputs, input_count),
                   std::span(scalars, static_cast<std::size_t>(scalar_count)));
    return 0;
  });
}

/// JSON: the plan as data, its text, and, for an architecture that is not 0, what the compiled kernel takes. Pointers
/// may be null.
EPIFUSE_BENCH_API const char* epifuse_bench_plan(const Epilogue* tail, const BridgeTensor* outputs,
                                                 std::int32_t output_count, const BridgeTensor* inputs,
                                                 std::int32_t input_count, std::int32_t architecture,
                                                 double bandwidth) {
  return epifuse::text_of([&] {
    const epifuse::Inspection inspection(*tail, epifuse::views_of<epifuse::OutputView>(outputs, output_count),
                                         epifuse::views_of<epifuse::TensorView>(inputs, input_count));
    const auto used = architecture > 0 ? inspection.resources(architecture) : epifuse::KernelResources{};
    Json json = epifuse::json_of(inspection.plan());
    json["registers"] = used.registers > 0 ? Json(used.registers) : Json(nullptr);
    json["spilled_bytes"] = used.spilled_bytes;
    json["shared_bytes"] = used.shared_bytes;
    json["text"] = inspection.plan_text(bandwidth, used);
    return json.dump();
  });
}

/// Writes the compiled kernel to a file: 0, or -1 after an error.
EPIFUSE_BENCH_API std::int32_t epifuse_bench_cubin(const Epilogue* tail, const BridgeTensor* outputs,
                                                   std::int32_t output_count, const BridgeTensor* inputs,
                                                   std::int32_t input_count, std::int32_t architecture,
                                                   const char* path) {
  return epifuse::guarded<std::int32_t>(-1, [&] {
    const epifuse::Inspection inspection(*tail, epifuse::views_of<epifuse::OutputView>(outputs, output_count),
                                         epifuse::views_of<epifuse::TensorView>(inputs, input_count));
    const std::string image = inspection.cubin(architecture);
    std::ofstream file(path, std::ios::binary);
    file.write(image.data(), static_cast<std::streamsize>(image.size()));
    if (!file.flush()) throw std::runtime_error(std::string(path) + ": cannot be written");
    return 0;
  });
}
