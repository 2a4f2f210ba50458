// The C interface of include/epifuse/epifuse.h over the C++ one. Exceptions become a status and the calling thread's
// text. Nothing in the library calls it.
#include <epifuse/epifuse.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include <epifuse/engine.hpp>
#include <epifuse/epilogue.hpp>
#include <epifuse/error.hpp>
#include <epifuse/inspect.hpp>

#include "api/arguments.hpp"
#include "base/text.hpp"

namespace ef = epifuse;

// What the names of the C interface are: strings are made once, so that pointers to them live as long as the object.
struct epifuse_epilogue {
  explicit epifuse_epilogue(ef::Epilogue made)
      : tail(std::move(made)), text(tail.str()), results(tail.results()), destinations(tail.destinations()) {}

  ef::Epilogue tail;
  std::string text;
  std::vector<std::string> results;
  std::vector<std::string> destinations;
};

struct epifuse_engine {
  explicit epifuse_engine(ef::Device device, const ef::EngineOptions& options = {})
      : engine(device, options), name(ef::to_string(device)) {}

  ef::Engine engine;
  std::string name;
};

struct epifuse_options {
  ef::EngineOptions options;
};

namespace {

static_assert(static_cast<int>(ef::Compile::on_need) == EPIFUSE_COMPILE_ON_NEED &&
              static_cast<int>(ef::Compile::never) == EPIFUSE_COMPILE_NEVER);
static_assert(static_cast<int>(ef::ErrorCode::invalid_expression) + 1 == EPIFUSE_INVALID_EXPRESSION);
static_assert(static_cast<int>(ef::ErrorCode::io) + 1 == EPIFUSE_IO);
static_assert(static_cast<int>(ef::DType::f64) == EPIFUSE_F64 && static_cast<int>(ef::DType::u4) == EPIFUSE_U4);
static_assert(static_cast<int>(ef::Math::precise) == EPIFUSE_PRECISE &&
              static_cast<int>(ef::Math::fast) == EPIFUSE_FAST);
static_assert(EPIFUSE_MAX_RANK == ef::kMaxRank);

// A fixed size, so that keeping the text of a failure for lack of memory needs none.
struct LastError {
  char text[4096] = "";
};
thread_local LastError last_error;

epifuse_status failed(epifuse_status status, const char* text) noexcept {
  std::strncpy(last_error.text, text, sizeof last_error.text - 1);
  return status;
}

template <class Work>
epifuse_status guarded(const Work& work) noexcept {
  try {
    work();
    return EPIFUSE_OK;
  } catch (const ef::Error& error) {
    return failed(static_cast<epifuse_status>(error.code()) + 1, error.what());
  } catch (const std::bad_alloc&) {
    return failed(EPIFUSE_OUT_OF_MEMORY, "the host has no memory left");
  } catch (const std::exception& error) {
    return failed(EPIFUSE_INTERNAL, error.what());
  } catch (...) {
    return failed(EPIFUSE_INTERNAL, "an exception of an unknown kind");
  }
}

template <class T>
T& needed(T* pointer, const char* what) {
  if (pointer == nullptr) ef::base::fail(ef::ErrorCode::invalid_argument, "{} is NULL", what);
  return *pointer;
}

ef::DType dtype_of(epifuse_dtype dtype, const char* what) {
  if (dtype < EPIFUSE_F64 || dtype > EPIFUSE_U4)
    ef::base::fail(ef::ErrorCode::invalid_argument,
                   "{} has the type {}, which is none: EPIFUSE_F64 ({}) to EPIFUSE_U4 ({})", what, dtype,
                   int{EPIFUSE_F64}, int{EPIFUSE_U4});
  return static_cast<ef::DType>(dtype);
}

ef::Dims dims_of(const int64_t* values, int32_t rank, const char* what) {
  if (rank < 0 || rank > EPIFUSE_MAX_RANK)
    ef::base::fail(ef::ErrorCode::invalid_argument, "{} has {} dimensions; 0 to {} are expected", what, rank,
                   EPIFUSE_MAX_RANK);
  if (rank > 0) needed(values, "the list of extents");
  return ef::Dims(std::span(values, static_cast<std::size_t>(rank)));
}

// `kind` is "output" or "input".
template <class View>
std::vector<View> views_of(const epifuse_tensor* tensors, std::size_t count, const char* kind) {
  std::vector<View> views;
  if (count > 0) needed(tensors, kind);
  for (std::size_t i = 0; i < count; ++i) {
    const epifuse_tensor& tensor = tensors[i];
    const std::string what = std::string(kind) + " " + std::to_string(i);
    views.emplace_back(tensor.data, dtype_of(tensor.dtype, what.c_str()),
                       dims_of(tensor.shape, tensor.rank, what.c_str()),
                       dims_of(tensor.strides, tensor.rank, what.c_str()));
  }
  return views;
}

struct Launch {
  explicit Launch(const epifuse_launch* given)
      : raw(needed(given, "the launch")),
        outputs(views_of<ef::OutputView>(raw.outputs, raw.output_count, "output")),
        inputs(views_of<ef::TensorView>(raw.inputs, raw.input_count, "input")) {
    if (raw.scalar_count > 0) needed(raw.scalars, "the list of scalars");
    scalars = std::span(raw.scalars, raw.scalar_count);
  }

  const epifuse_launch& raw;
  std::vector<ef::OutputView> outputs;
  std::vector<ef::TensorView> inputs;
  std::span<const double> scalars;
};

// The epilogue of a call that gives operands in a list.
const ef::Epilogue& ordered(const epifuse_epilogue* epilogue) {
  const ef::Epilogue& tail = needed(epilogue, "the epilogue").tail;
  if (!tail.takes_inputs_by_position())
    ef::refuse_positions(tail, fmt::format("state it with epifuse_epilogue_with_inputs() or in the text: 'input {}; …'",
                                           fmt::join(tail.inputs(), ", ")));
  return tail;
}

const char* name_at(const std::vector<std::string>& names, std::size_t index) noexcept {
  return index < names.size() ? names[index].c_str() : nullptr;
}

char* text_of(const std::string& text) {
  char* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void set_shape(epifuse_tensor& tensor, const ef::Dims& shape) noexcept {
  const ef::Dims strides = ef::row_major(shape);
  tensor.rank = shape.size();
  for (int d = 0; d < EPIFUSE_MAX_RANK; ++d) {
    tensor.shape[d] = d < shape.size() ? shape[d] : 0;
    tensor.strides[d] = d < shape.size() ? strides[d] : 0;
  }
}

template <class Describe>
epifuse_status described(const epifuse_epilogue* epilogue, const epifuse_launch* launch, int32_t architecture,
                         char** out, const Describe& describe) noexcept {
  return guarded([&] {
    char*& place = needed(out, "the place for the text");
    const Launch given(launch);
    const ef::Inspection inspection(ordered(epilogue), given.outputs, given.inputs,
                                    ef::PlanTarget{.architecture = architecture});
    place = text_of(describe(inspection));
  });
}

}  // namespace

const char* epifuse_version(void) { return EPIFUSE_VERSION; }
const char* epifuse_last_error(void) { return last_error.text; }

epifuse_status epifuse_tensor_dense(void* data, epifuse_dtype dtype, int32_t rank, const int64_t* shape,
                                    epifuse_tensor* out) {
  return guarded([&] {
    const ef::Dims dims = dims_of(shape, rank, "the tensor");
    static_cast<void>(dtype_of(dtype, "the tensor"));
    epifuse_tensor& tensor = needed(out, "the place for the tensor");
    tensor.data = data;
    tensor.dtype = dtype;
    set_shape(tensor, dims);
  });
}

epifuse_status epifuse_epilogue_parse(const char* text, epifuse_epilogue** out) {
  return guarded([&] {
    epifuse_epilogue*& place = needed(out, "the place for the epilogue");
    place = new epifuse_epilogue(ef::Epilogue::parse(&needed(text, "the text of the chain")));
  });
}

epifuse_status epifuse_epilogue_with_math(const epifuse_epilogue* epilogue, epifuse_math math, epifuse_epilogue** out) {
  return guarded([&] {
    if (math < EPIFUSE_PRECISE || math > EPIFUSE_FAST)
      ef::base::fail(ef::ErrorCode::invalid_argument,
                     "math is {}; EPIFUSE_PRECISE (0), EPIFUSE_STANDARD (1) or EPIFUSE_FAST (2)", math);
    epifuse_epilogue*& place = needed(out, "the place for the epilogue");
    place = new epifuse_epilogue(needed(epilogue, "the epilogue").tail.with(static_cast<ef::Math>(math)));
  });
}

epifuse_status epifuse_epilogue_with_inputs(const epifuse_epilogue* epilogue, const char* const* names, size_t count,
                                            epifuse_epilogue** out) {
  return guarded([&] {
    epifuse_epilogue*& place = needed(out, "the place for the epilogue");
    std::vector<std::string> order;
    for (size_t i = 0; i < count; ++i) {
      if (names == nullptr || names[i] == nullptr)
        ef::base::fail(ef::ErrorCode::invalid_argument, "the name of operand {} is NULL", i);
      order.emplace_back(names[i]);
    }
    place = new epifuse_epilogue(needed(epilogue, "the epilogue").tail.inputs(order));
  });
}

void epifuse_epilogue_free(epifuse_epilogue* epilogue) { delete epilogue; }

const char* epifuse_epilogue_text(const epifuse_epilogue* epilogue) {
  return epilogue == nullptr ? nullptr : epilogue->text.c_str();
}

size_t epifuse_epilogue_input_count(const epifuse_epilogue* epilogue) {
  return epilogue == nullptr ? 0 : epilogue->tail.inputs().size();
}
const char* epifuse_epilogue_input_name(const epifuse_epilogue* epilogue, size_t index) {
  return epilogue == nullptr ? nullptr : name_at(epilogue->tail.inputs(), index);
}
size_t epifuse_epilogue_scalar_count(const epifuse_epilogue* epilogue) {
  return epilogue == nullptr ? 0 : epilogue->tail.scalars().size();
}
const char* epifuse_epilogue_scalar_name(const epifuse_epilogue* epilogue, size_t index) {
  return epilogue == nullptr ? nullptr : name_at(epilogue->tail.scalars(), index);
}
size_t epifuse_epilogue_result_count(const epifuse_epilogue* epilogue) {
  return epilogue == nullptr ? 0 : epilogue->results.size();
}
const char* epifuse_epilogue_result_name(const epifuse_epilogue* epilogue, size_t index) {
  return epilogue == nullptr ? nullptr : name_at(epilogue->results, index);
}

const char* epifuse_epilogue_result_destination(const epifuse_epilogue* epilogue, size_t index) {
  const char* const name = epilogue == nullptr ? nullptr : name_at(epilogue->destinations, index);
  return name == nullptr || *name == '\0' ? nullptr : name;
}

epifuse_status epifuse_epilogue_results(const epifuse_epilogue* epilogue, const epifuse_tensor* inputs,
                                        size_t input_count, epifuse_tensor* results) {
  return guarded([&] {
    needed(results, "the place for the results");
    const ef::Epilogue& tail = ordered(epilogue);
    const std::vector<ef::TensorView> views = views_of<ef::TensorView>(inputs, input_count, "input");
    const std::vector<ef::Dims> shapes = tail.result_shapes(views);
    const std::vector<ef::DType> types = tail.result_types(views);
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      results[i].dtype = static_cast<epifuse_dtype>(types[i]);
      set_shape(results[i], shapes[i]);
    }
  });
}

epifuse_status epifuse_engine_create(const char* device, epifuse_engine** out) {
  return guarded([&] {
    epifuse_engine*& place = needed(out, "the place for the engine");
    place = new epifuse_engine(ef::Device::parse(&needed(device, "the device's name")));
  });
}

epifuse_status epifuse_options_create(epifuse_options** out) {
  return guarded([&] {
    epifuse_options*& place = needed(out, "the place for the options");
    place = new epifuse_options;
  });
}

void epifuse_options_free(epifuse_options* options) { delete options; }

epifuse_status epifuse_options_add_bundle(epifuse_options* options, const char* file) {
  return guarded([&] {
    const char* const name = &needed(file, "the bundle's file name");
    needed(options, "the options").options.bundles.emplace_back(name);
  });
}

epifuse_status epifuse_options_add_bundle_memory(epifuse_options* options, const void* bytes, size_t size) {
  return guarded([&] {
    const auto* const begin = &needed(static_cast<const std::byte*>(bytes), "the bundle's memory");
    needed(options, "the options").options.bundles.emplace_back(std::span(begin, size), "in memory");
  });
}

epifuse_status epifuse_options_set_compile(epifuse_options* options, epifuse_compile when) {
  return guarded([&] {
    if (when != EPIFUSE_COMPILE_ON_NEED && when != EPIFUSE_COMPILE_NEVER)
      ef::base::fail(ef::ErrorCode::invalid_argument,
                     "compile is {}; EPIFUSE_COMPILE_ON_NEED (0) or EPIFUSE_COMPILE_NEVER (1)", when);
    needed(options, "the options").options.compile = static_cast<ef::Compile>(when);
  });
}

epifuse_status epifuse_options_set_disk_cache(epifuse_options* options, int32_t enabled, const char* directory) {
  return guarded([&] {
    ef::EngineOptions& set = needed(options, "the options").options;
    set.disk_cache = enabled != 0;
    set.cache_directory = directory == nullptr ? std::nullopt : std::optional<std::filesystem::path>(directory);
  });
}

epifuse_status epifuse_engine_create_with(const char* device, const epifuse_options* options, epifuse_engine** out) {
  return guarded([&] {
    epifuse_engine*& place = needed(out, "the place for the engine");
    place = new epifuse_engine(ef::Device::parse(&needed(device, "the device's name")),
                               needed(options, "the options").options);
  });
}

void epifuse_engine_free(epifuse_engine* engine) { delete engine; }

const char* epifuse_engine_device(const epifuse_engine* engine) {
  return engine == nullptr ? nullptr : engine->name.c_str();
}

epifuse_status epifuse_engine_launch(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                     const epifuse_launch* launch) {
  return guarded([&] {
    const Launch given(launch);
    ef::Engine& runs = needed(engine, "the engine").engine;
    const ef::Epilogue& tail = ordered(epilogue);
    const auto stream = static_cast<ef::Stream>(given.raw.stream);
    if (given.raw.workspace == nullptr && given.raw.workspace_bytes == 0) {
      runs.launch(tail, stream, given.outputs, given.inputs, given.scalars);
    } else {
      runs.launch(tail, stream, given.outputs, given.inputs, given.scalars,
                  ef::Workspace{given.raw.workspace, given.raw.workspace_bytes});
    }
  });
}

epifuse_status epifuse_engine_prepare(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                      const epifuse_launch* launch) {
  return guarded([&] {
    const Launch given(launch);
    needed(engine, "the engine").engine.prepare(ordered(epilogue), given.outputs, given.inputs);
  });
}

epifuse_status epifuse_engine_workspace_bytes(epifuse_engine* engine, const epifuse_epilogue* epilogue,
                                              const epifuse_launch* launch, size_t* out) {
  return guarded([&] {
    std::size_t& place = needed(out, "the place for the bytes");
    const Launch given(launch);
    ef::Engine& runs = needed(engine, "the engine").engine;
    place = runs.workspace_bytes(ordered(epilogue), given.outputs, given.inputs);
  });
}

epifuse_status epifuse_engine_synchronize(epifuse_engine* engine, void* stream) {
  return guarded([&] { needed(engine, "the engine").engine.synchronize(static_cast<ef::Stream>(stream)); });
}

epifuse_status epifuse_plan_text(const epifuse_epilogue* epilogue, const epifuse_launch* launch, int32_t architecture,
                                 char** out) {
  return described(epilogue, launch, architecture, out, [](const ef::Inspection& found) { return found.plan_text(); });
}

epifuse_status epifuse_cuda_source(const epifuse_epilogue* epilogue, const epifuse_launch* launch, int32_t architecture,
                                   char** out) {
  return described(epilogue, launch, architecture, out, [](const ef::Inspection& found) { return found.cuda(); });
}

void epifuse_text_free(char* text) { std::free(text); }
