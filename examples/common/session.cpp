// One case from fresh memory to a line of the table.
#include "common/session.hpp"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>

#include "common/timing.hpp"

namespace examples {
namespace {

constexpr int kRounds = 31;
constexpr std::size_t kMaxSlots = 16;

/// Memory for one execution. The tail writes beside its operand, not over it, so that it can be repeated on the same
/// values; the copy has memory of its own for the same reason.
struct Slot {
  ef::Array y_memory;
  ef::Array copy_from;
  ef::Array copy_to;
  ef::OutputView y;
  std::vector<ef::Array> out_memory;
  std::vector<ef::OutputView> out;
  std::optional<ef::Array> z_memory;
  ef::OutputView z;
};

ef::OutputView place(const ef::Array& memory, const ef::TensorView& like) {
  const ef::OutputView dense = memory;
  return {dense.writable(), dense.dtype, like.shape, like.strides};
}

/// All operands of the tail, in its order.
std::vector<ef::TensorView> inputs_of(const Case& work, const ef::OutputView& y) {
  std::vector<ef::TensorView> inputs{y};
  inputs.insert(inputs.end(), work.operands.begin(), work.operands.end());
  return inputs;
}

/// Type, shape and strides of the tail's results; no memory yet.
std::vector<ef::TensorView> results_of(const Case& work) {
  const std::vector<ef::Dims> shapes = work.tail.result_shapes(inputs_of(work, work.y));
  std::vector<ef::TensorView> results;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const bool as_y = work.strides.empty() && shapes[i] == work.y.shape;
    const ef::Dims dense = as_y ? work.y.strides : ef::row_major(shapes[i]);
    results.emplace_back(nullptr, work.results.at(i), shapes[i], work.strides.empty() ? dense : work.strides.at(i));
  }
  return results;
}

std::int64_t bytes_moved(const Case& work) {
  std::int64_t bytes = 0;
  for (const ef::TensorView& input : inputs_of(work, work.y)) bytes += bytes_of(input);
  for (const ef::TensorView& result : results_of(work)) bytes += bytes_of(result);
  return bytes;
}

/// Elements from the view's first to its last in memory.
std::int64_t spanned(const ef::TensorView& view) {
  std::int64_t last = 0;
  for (int d = 0; d < view.shape.size(); ++d) last += (view.shape[d] - 1) * view.strides[d];
  return last + 1;
}

/// Enough slots that going round them all pushes each out of the L2 cache before it is used again, and at least two.
std::vector<Slot> make_slots(ef::Engine& engine, const Case& work, std::int64_t copied, std::size_t l2_bytes) {
  const auto per_slot = static_cast<std::size_t>(2 * copied);
  const std::size_t count = std::clamp<std::size_t>(4 * l2_bytes / per_slot + 1, 2, kMaxSlots);
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < count; ++i) {
    Slot slot{engine.empty(work.y.dtype, work.y.shape),
              engine.empty(ef::DType::u8, {copied}),
              engine.empty(ef::DType::u8, {copied}),
              {},
              {},
              {},
              {},
              {}};
    slot.y = place(slot.y_memory, work.y);
    for (const ef::TensorView& result : results_of(work)) {
      slot.out_memory.push_back(engine.empty(result.dtype, {spanned(result)}));
      slot.out.push_back(place(slot.out_memory.back(), result));
    }
    if (work.consumer) {
      slot.z_memory = engine.empty(work.consumer->z.dtype, work.consumer->z.shape);
      slot.z = *slot.z_memory;
    }
    slots.push_back(std::move(slot));
  }
  return slots;
}

/// The copy moves what the tail moves, numbers and not zeros, which would cost less power.
void fill_copy_source(const Slot& slot) {
  const std::size_t bytes = std::min(slot.y_memory.size_bytes(), slot.copy_from.size_bytes());
  check(cudaMemset(slot.copy_from.view().writable(), 0x3c, slot.copy_from.size_bytes()), "filling the copy's source");
  check(cudaMemcpy(slot.copy_from.view().writable(), slot.y.data, bytes, cudaMemcpyDeviceToDevice),
        "filling the copy's source");
}

/// Each piece goes over all slots, so a time is that of as many executions in a row; the record holds the time of one.
void measure_case(cudaStream_t stream, const Case& work, const std::vector<Slot>& slots, Record& record) {
  const auto over_slots = [&slots](auto body) { return [&slots, body] { std::ranges::for_each(slots, body); }; };
  const auto produce = [&work](const Slot& slot) { work.produce(slot.y); };
  const auto finish = [&work](const Slot& slot) { work.finish(slot.y, slot.out); };
  const auto copy = [stream](const Slot& slot) {
    check(cudaMemcpyAsync(slot.copy_to.view().writable(), slot.copy_from.view().data, slot.copy_to.size_bytes(),
                          cudaMemcpyDeviceToDevice, stream),
          "the device copy");
  };
  const auto pair = [&](const Slot& slot) {
    produce(slot);
    finish(slot);
  };
  const auto consume = [&work](const Slot& slot) { work.consumer->consume(slot.out, slot.z); };
  const auto all = [&](const Slot& slot) {
    pair(slot);
    consume(slot);
  };
  std::vector<std::function<void()>> pieces = {over_slots(produce), over_slots(finish), over_slots(copy),
                                               over_slots(pair)};
  std::vector<double*> results = {&record.producer_ms, &record.tail_ms, &record.copy_ms, &record.pair_ms};
  if (work.together) {
    pieces.emplace_back(over_slots([&work](const Slot& slot) { work.together(slot.out.front()); }));
    results.push_back(&record.together_ms);
  }
  if (work.consumer) {
    pieces.insert(pieces.end(), {over_slots(consume), over_slots(all)});
    results.insert(results.end(), {&record.consumer_ms, &record.all_ms});
  }
  const std::vector<double> times = measure(stream, kRounds, pieces);
  for (std::size_t i = 0; i < results.size(); ++i) *results[i] = times[i] / static_cast<double>(slots.size());
}

/// "f32", "i32 to i8", "f16 to f16/f8e4m3/f32"
std::string type_text(ef::DType from, std::span<const ef::DType> to) {
  std::string name(ef::to_string(from));
  if (to.size() == 1 && to.front() == from) return name;
  std::string results;
  for (const ef::DType dtype : to) results += (results.empty() ? "" : "/") + std::string(ef::to_string(dtype));
  return name + " to " + results;
}

/// A chain without reductions is verified element by element, one with random numbers as a whole, the others against
/// their reference.
Verdict verify(const Case& work, const Slot& slot) {
  const std::vector<ef::TensorView> inputs = inputs_of(work, slot.y);
  if (work.reference) return verify_groups(*work.reference, slot.out, inputs);
  return work.tail.is_elementwise() ? verify_tail(work.tail, slot.out.front(), inputs)
                                    : verify_whole(work.tail, slot.out, inputs, work.scalars);
}

/// After the tail was verified: its result is written again.
Verdict verify_together(const Case& work, const Slot& slot) {
  const std::size_t bytes = slot.out_memory.front().size_bytes();
  check(cudaMemset(slot.out.front().writable(), 0xff, bytes), "clearing the result");
  work.together(slot.out.front());
  check(cudaDeviceSynchronize(), "one launch of producer and tail");
  return verify_inside(work.tail, slot.out.front(), inputs_of(work, slot.y), work.expected);
}

/// The library call behind the tail, from the tail's results as they are.
Verdict verify_consumer(const Case& work, const Slot& slot) {
  return verify_producer(slot.z, [&](const ef::Dims& at) { return work.consumer->expected(slot.out, at); });
}

/// What plans are made for: the GPU that the engines of the examples use.
ef::PlanTarget this_gpu() {
  const std::vector<ef::DeviceSummary> devices = ef::system_report().devices;
  if (devices.empty()) return {};
  const ef::DeviceSummary& gpu = devices.front();
  return {.architecture = gpu.architecture,
          .multiprocessors = gpu.multiprocessors,
          .l2_bytes = static_cast<std::int64_t>(gpu.l2_bytes)};
}

StreamOwner make_stream() { return create<StreamOwner, cudaError_t>(cudaStreamCreate, check, "creating a stream"); }

}  // namespace

Options parse_options(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    if (option == "--size" && (value == "full" || value == "small")) {
      options.small = value == "small";
    } else if (option == "--json" && !value.empty()) {
      options.json = value;
    } else {
      throw Failure("cannot use \"" + std::string(option) + (value.empty() ? "" : " " + std::string(value)) +
                    "\"; usage: " + argv[0] + " [--size full|small] [--json FILE]");
    }
  }
  return options;
}

Session::Session(std::string name, Options options, Without without)
    : name_(std::move(name)),
      options_(std::move(options)),
      timed_(without == Without::refuse || has_gpu()),
      gpu_(timed_ ? require_gpu() : no_gpu()),
      stream_(timed_ ? make_stream() : nullptr),
      engine_(timed_ ? ef::Device::cuda(0) : ef::Device::cpu()) {
  if (timed_ || options_.json.empty()) return;
  throw Failure(
      "--json records times, which need an NVIDIA GPU; leave it out, and results are verified on the CPU device");
}

std::function<void(const ef::OutputView& out)> Session::one_kernel(const ef::Epilogue& layer, const ef::OutputView& out,
                                                                   const ef::Arguments& inputs) {
  const ef::PlanSummary plan = ef::Inspection(layer, std::span(&out, 1), inputs, this_gpu()).plan();
  if (!plan.products.empty()) {
    note("one launch is left out: " + plan.products.front());
    return {};
  }
  return [this, layer, inputs](const ef::OutputView& result) { engine_.launch(layer, stream(), result, inputs); };
}

void Session::run(const Case& work) {
  const std::int64_t bytes = bytes_moved(work);
  const std::vector<Slot> slots = make_slots(engine_, work, (bytes + 1) / 2, gpu_.l2_bytes);
  for (const Slot& slot : slots) {
    work.produce(slot.y);
    work.finish(slot.y, slot.out);
    if (work.consumer) work.consumer->consume(slot.out, slot.z);
  }
  engine_.synchronize(stream());
  if (timed_) std::ranges::for_each(slots, fill_copy_source);

  const Verdict producer = verify_producer(slots.front().y, work.expected);
  const Verdict tail = verify(work, slots.front());
  const Verdict together = work.together ? verify_together(work, slots.front()) : Verdict{};
  const Verdict consumer = work.consumer ? verify_consumer(work, slots.front()) : Verdict{};
  Record record{.example = name_,
                .producer = work.producer,
                .chain = work.tail.str(),
                .consumer = work.consumer ? work.consumer->what : "",
                .dtype = type_text(work.y.dtype, work.results),
                .layout = work.layout,
                .shape = {slots.front().out.front().shape.begin(), slots.front().out.front().shape.end()},
                .bytes = bytes,
                .max_error = tail.max_error,
                .samples = tail.samples,
                .producer_max_error = producer.max_error,
                .consumer_max_error = consumer.max_error,
                .verified = producer.failure.empty() && tail.failure.empty() && together.failure.empty() &&
                            consumer.failure.empty(),
                .device = gpu_.name,
                .driver = gpu_.driver,
                .cuda_runtime = gpu_.runtime,
                .library = work.library,
                .epifuse = ef::version()};
  if (timed_) measure_case(stream(), work, slots, record);
  report(record);
  if (!producer.failure.empty()) note("the producer's result is wrong: " + producer.failure);
  if (!tail.failure.empty()) note("the tail's result is wrong: " + tail.failure);
  if (!together.failure.empty()) note("the result of one launch is wrong: " + together.failure);
  if (!consumer.failure.empty()) note("the consumer's result is wrong: " + consumer.failure);
}

void Session::report(const Record& record) {
  const std::string behind = record.consumer.empty() ? "" : ", then " + record.consumer;
  if (rows_++ == 0) {
    print_heading(
        "Example " + name_ + ": " + record.producer + ", then " + record.chain + behind,
        record.device + ", CUDA " + record.cuda_runtime + ", " + record.library + ", EpiFuse " + record.epifuse);
  }
  print_row(record);
  failures_ += record.verified ? 0 : 1;
  if (!options_.json.empty()) append_json(options_.json, record);
}

void Session::note(const std::string& text) const { std::printf("  %s\n", text.c_str()); }

int run_example(const std::string& name, int argc, char** argv, const std::function<void(Session&)>& body,
                Without without) try {
  Session session(name, parse_options(argc, argv), without);
  body(session);
  return session.exit_code();
} catch (const std::exception& error) {
  std::fprintf(stderr, "example %s: %s\n", name.c_str(), error.what());
  return 1;
}

}  // namespace examples
