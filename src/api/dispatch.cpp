// A repeated launch from its signature to cuLaunchKernel.
#include "api/dispatch.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "plan/bind/space.hpp"
#include "plan/plan.hpp"

namespace epifuse {

// ---- the signature

namespace {

// Words and their hash, in registers until they are done: one multiplication per word, none of which waits for another,
// and no table in the caches.
class Writer {
 public:
  explicit Writer(std::uint64_t* first) noexcept : next_(first) {}
  void put(std::uint64_t word) noexcept {
    *next_++ = word;
    hash_ = std::rotl(hash_, 7) ^ word * 0x9e3779b97f4a7c15;
  }
  void put(const Dims& dims) noexcept {
    const int size = dims.size();
    for (int i = 0; i < size; ++i) put(static_cast<std::uint64_t>(dims[i]));
  }
  void put(const TensorView& view) noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(view.data);
    put(static_cast<std::uint64_t>(view.dtype) | static_cast<std::uint64_t>(view.shape.size()) << 8 |
        static_cast<std::uint64_t>(view.strides.size()) << 16 |
        static_cast<std::uint64_t>(address % plan::kAlignmentSeen) << 24 | (address == 0 ? 1ULL << 32 : 0));
    put(view.shape);
    put(view.strides);
  }
  std::uint64_t* end() const noexcept { return next_; }
  std::uint64_t hash() const noexcept {
    const std::uint64_t mixed = (hash_ ^ hash_ >> 32) * 0x9fb21c651e98df25;
    return (mixed ^ mixed >> 32) | 1;
  }

 private:
  std::uint64_t* next_;
  std::uint64_t hash_ = 0;
};

}  // namespace

Signature::Signature(const LaunchRequest& request) noexcept {
  const ir::Fingerprint& chain = request.program.fingerprint();
  Writer writer(words_.data());
  writer.put(chain.low);
  writer.put(chain.high);
  writer.put(request.inputs.size() | static_cast<std::uint64_t>(request.outputs.size()) << 32);
  const std::uint64_t* const last = words_.data() + kMostWords - kWordsOfTensor;
  const auto put_all = [&](const auto& tensors) {
    for (const TensorView& tensor : tensors) {
      if (writer.end() > last) return false;
      writer.put(tensor);
    }
    return true;
  };
  if (put_all(request.inputs) && put_all(request.outputs))
    size_ = static_cast<std::size_t>(writer.end() - words_.data());
  hash_ = writer.hash();
}

// ---- distances

namespace {

template <class Tensor>
std::int64_t distance(const Tensor& from, const Tensor& to) noexcept {
  return static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(to.data) -
                                   reinterpret_cast<std::uintptr_t>(from.data));
}

// Calls `visit` for each pair that a launch may not let overlap; while it returns true. Of a request or of a space.
template <class Tensors, class Visit>
bool every_pair(const Tensors& tensors, std::size_t inputs, const Visit& visit) {
  for (std::size_t i = 0; i < tensors.outputs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (!visit(tensors.outputs[i], tensors.outputs[k])) return false;
    }
    for (std::size_t k = 0; k < inputs; ++k) {
      if (!visit(tensors.outputs[i], tensors.inputs[k])) return false;
    }
  }
  return true;
}

}  // namespace

void Call::set_distances(const plan::Space& space) {
  distances.clear();
  // Behind the operands of the launch, of which some may be masks.
  const auto is_generated = [](const plan::StridedOperand& input) {
    return input.is_generated() && input.generated != plan::Generated::inside;
  };
  const auto inputs = std::ranges::find_if(space.inputs, is_generated) - space.inputs.begin();
  every_pair(
      space, static_cast<std::size_t>(inputs),
      [&](const plan::StridedOperand& output, const plan::StridedOperand& other) {
        const plan::Reach& a = output.reach;
        const plan::Reach& b = other.reach;
        // No element, no overlap, at any distance.
        const bool never = a.empty() || b.empty();
        distances.push_back({distance(output, other),
                             never ? std::numeric_limits<std::int64_t>::max() : a.first - b.end, a.end - b.first});
        return true;
      });
}

// ---- the table

namespace {

constexpr auto kRead = std::memory_order_acquire;   // so that the version is read after the words
constexpr auto kWrite = std::memory_order_release;  // so that the version is odd before the first of them is written

constexpr std::size_t kHead = 7;  // words of a slot before its signature

// What stands in a slot: the sizes of its parts, then these.
struct Sizes {
  std::size_t signature, distances, parameters;

  static Sizes unpack(std::uint64_t word) noexcept { return {word & 0xffff, word >> 16 & 0xffff, word >> 32 & 0xffff}; }
  std::uint64_t pack() const noexcept { return signature | distances << 16 | parameters << 32; }
  std::size_t words() const noexcept { return kHead + signature + 3 * distances + parameters; }
};

constexpr std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
  return low | static_cast<std::uint64_t>(high) << 32;
}

}  // namespace

CallTable::CallTable() : slots_(std::make_unique<std::array<Slot, kSlots>>()) {}

bool CallTable::find(const Signature& signature, const LaunchRequest& request, Call& call) noexcept {
  const std::size_t first = first_of_set(signature.hash());
  for (std::size_t i = first; i < first + kWays; ++i) {
    if (hashes_[i].load(std::memory_order_relaxed) != signature.hash() || !read((*slots_)[i], signature, request, call))
      continue;
    if (!used_[i].load(std::memory_order_relaxed)) used_[i].store(true, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool CallTable::read(const Slot& slot, const Signature& signature, const LaunchRequest& request, Call& call) noexcept {
  const std::uint64_t version = slot.version.load(kRead);
  if (version == 0 || version % 2 != 0) return false;
  const auto* word = slot.words.data();
  const auto next = [&] { return (word++)->load(kRead); };
  const Sizes sizes = Sizes::unpack(next());
  const std::span<const std::uint64_t> wanted = signature.words();
  // Sizes of a slot that is being written may be anything.
  const std::size_t outputs = request.outputs.size();
  const std::size_t pairs = outputs * (outputs - 1) / 2 + outputs * request.inputs.size();
  if (sizes.signature != wanted.size() || sizes.distances != pairs || sizes.words() > kWords) return false;
  call.kernel = reinterpret_cast<const LoadedKernel*>(next());
  const std::uint64_t grid = next();
  call.blocks = static_cast<std::uint32_t>(grid);
  call.threads = static_cast<std::uint32_t>(grid >> 32);
  call.shared_bytes = static_cast<std::uint32_t>(next());
  call.workspace_bytes = next();
  call.zeroed_bytes = next();
  call.moved_bytes = next();
  // All words are compared before one branch: that they differ is rare, and neither this nor their number is to be
  // guessed word by word.
  std::uint64_t different = 0;
#pragma GCC unroll 4
  for (const std::uint64_t expected : wanted) different |= next() ^ expected;
  if (different != 0) return false;
  const auto* const parameter_words = word + 3 * sizes.distances;
  const bool fits = every_pair(request, request.inputs.size(), [&](const TensorView& output, const TensorView& other) {
    Call::Distance allowed{};
    for (std::int64_t* part : {&allowed.checked, &allowed.below, &allowed.above})
      *part = static_cast<std::int64_t>(next());
    return allowed.allows(distance(output, other));
  });
  if (!fits) return false;
  word = parameter_words;
  std::uint64_t* parameters = call.parameters.resize_for_overwrite(sizes.parameters);
#pragma GCC unroll 4
  for (std::size_t i = 0; i < sizes.parameters; ++i) parameters[i] = next();
  return slot.version.load(std::memory_order_relaxed) == version;
}

// The clock algorithm: passes over what was found since the last time that it was passed over. Threads that meet here
// may choose the same slot, no more.
std::size_t CallTable::victim(std::size_t first) noexcept {
  std::size_t hand = hand_.load(std::memory_order_relaxed);
  for (std::size_t passed = 0; passed < kWays; ++passed) {
    std::atomic<bool>& used = used_[first + ++hand % kWays];
    if (!used.load(std::memory_order_relaxed)) break;
    used.store(false, std::memory_order_relaxed);
  }
  hand_.store(hand, std::memory_order_relaxed);
  return first + hand % kWays;
}

void CallTable::store(const Signature& signature, const Call& call) noexcept {
  const std::span<const std::uint64_t> words = signature.words();
  const Sizes sizes{words.size(), call.distances.size(), call.parameters.size()};
  if (words.empty() || sizes.words() > kWords) return;
  // Where it stands already (with other distances), else where nothing stands, else in place of another.
  const std::size_t first = first_of_set(signature.hash());
  const auto choose = [&](std::uint64_t hash) {
    std::size_t i = first;
    while (i < first + kWays && hashes_[i].load(std::memory_order_relaxed) != hash) ++i;
    return i;
  };
  std::size_t chosen = choose(signature.hash());
  if (chosen == first + kWays) chosen = choose(0);
  if (chosen == first + kWays) chosen = victim(first);
  Slot& slot = (*slots_)[chosen];
  std::uint64_t version = slot.version.load(std::memory_order_relaxed);
  // Another thread is writing here: the call will be remembered another time.
  if (version % 2 != 0 || !slot.version.compare_exchange_strong(version, version + 1, std::memory_order_acquire))
    return;
  auto* word = slot.words.data();
  const auto put = [&](std::uint64_t value) { (word++)->store(value, kWrite); };
  put(sizes.pack());
  put(reinterpret_cast<std::uintptr_t>(call.kernel));
  put(joined(call.blocks, call.threads));
  put(call.shared_bytes);
  put(call.workspace_bytes);
  put(call.zeroed_bytes);
  put(call.moved_bytes);
  for (const std::uint64_t value : words) put(value);
  for (const Call::Distance& distance : call.distances) {
    put(static_cast<std::uint64_t>(distance.checked));
    put(static_cast<std::uint64_t>(distance.below));
    put(static_cast<std::uint64_t>(distance.above));
  }
  for (const std::uint64_t value : call.parameters) put(value);
  hashes_[chosen].store(signature.hash(), std::memory_order_relaxed);
  slot.version.store(version + 2, std::memory_order_release);
}

// ---- lanes

std::size_t Lane::of_this_thread() noexcept {
  static constinit std::atomic<std::size_t> threads{0};
  static constinit thread_local std::size_t number = 0;  // from 1
  if (number == 0) number = threads.fetch_add(1, std::memory_order_relaxed) + 1;
  return number <= kOwned ? number - 1 : kOwned + number % kOwned;
}

void Lane::forget(std::uint64_t frees) noexcept {
  for (std::atomic<std::uintptr_t>& address : known_) address.store(0, std::memory_order_relaxed);
  frees_.store(frees, std::memory_order_relaxed);
  forgotten_at_.store(launches(), std::memory_order_relaxed);
}

// ---- the launch

void start(Call& call, const LaunchRequest& request, void* workspace) {
  if (call.zeroed_bytes > 0) runtime::fill_zero(workspace, call.zeroed_bytes, request.stream);
  const codegen::ParameterLayout& layout = call.kernel->layout;
  auto* const bytes = reinterpret_cast<std::byte*>(call.parameters.data());
  layout.pack_operands(request.outputs, request.inputs, request.scalars, workspace, bytes);
  runtime::launch(call.kernel->kernel, call.blocks, call.threads, call.shared_bytes, request.stream, bytes,
                  layout.bytes());
}

}  // namespace epifuse
