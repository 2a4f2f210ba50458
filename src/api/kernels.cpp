// Lists that grow at the head, and the futures of kernels that are being loaded.
#include "api/kernels.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "codegen/emit.hpp"
#include "codegen/gemm/gemm.hpp"

namespace epifuse {

namespace {
jit::Source leaner(std::string draft, std::string name) {
  std::string identity = draft;
  identity += codegen::lean_passes();
  return {std::move(identity), [draft = std::move(draft), name = std::move(name)] {
            return codegen::made_lean(draft, name, codegen::Compilers::cuda);
          }};
}
}  // namespace

jit::Source source_of(const ir::Program& program, const plan::Plan& plan) {
  return leaner(codegen::draft(program, plan.kernel_class, plan.space.input_kinds()),
                codegen::kernel_name(program, plan.kernel_class));
}

jit::Source source_of(const ir::Program& program, const plan::GemmPlan& plan) {
  jit::Source source = leaner(codegen::draft_gemm(program, plan), codegen::gemm_name(program, plan));
  return plan.gemm_class.warp_group_tile() != nullptr ? std::move(source).of_one_architecture() : std::move(source);
}

std::size_t KernelKeyHash::operator()(const KernelKey& key) const noexcept {
  const std::size_t bytes = key.kernel_class.size() * sizeof key.kernel_class[0];
  return XXH3_64bits_withSeed(key.kernel_class.data(), bytes, key.chain.low);
}

const LoadedKernel* KernelTable::find(const KernelKey& key) const noexcept {
  const Entry* entry = buckets_[KernelKeyHash()(key) % kBuckets].load(std::memory_order_acquire);
  while (entry != nullptr && !(entry->key == key)) entry = entry->next;
  return entry == nullptr ? nullptr : &entry->kernel;
}

const LoadedKernel& KernelTable::find_or_load(const KernelKey& key, const std::function<LoadedKernel()>& load) {
  std::promise<const LoadedKernel*> promise;
  std::shared_future<const LoadedKernel*> future;
  {
    const std::lock_guard lock(mutex_);
    if (const LoadedKernel* found = find(key)) return *found;
    const auto [entry, is_new] = loading_.try_emplace(key);
    if (is_new) entry->second = promise.get_future().share();
    if (!is_new) future = entry->second;
  }
  if (future.valid()) return *future.get();
  try {
    LoadedKernel kernel = load();
    const std::lock_guard lock(mutex_);
    const LoadedKernel& added = add(key, std::move(kernel));
    loading_.erase(key);
    promise.set_value(&added);
    return added;
  } catch (...) {
    {
      // Before the others wake: whoever asks after the failure shall try again, not meet the failed future.
      const std::lock_guard lock(mutex_);
      loading_.erase(key);
    }
    promise.set_exception(std::current_exception());
    throw;
  }
}

std::vector<const LoadedKernel*> KernelTable::all() const {
  const std::lock_guard lock(mutex_);
  std::vector<const LoadedKernel*> kernels;
  for (const auto& entry : entries_) kernels.push_back(&entry->kernel);
  return kernels;
}

const LoadedKernel& KernelTable::add(const KernelKey& key, LoadedKernel kernel) {
  std::atomic<const Entry*>& bucket = buckets_[KernelKeyHash()(key) % kBuckets];
  entries_.push_back(
      std::make_unique<const Entry>(Entry{key, std::move(kernel), bucket.load(std::memory_order_relaxed)}));
  bucket.store(entries_.back().get(), std::memory_order_release);
  size_.fetch_add(1, std::memory_order_relaxed);
  return entries_.back()->kernel;
}

}  // namespace epifuse
