// Threads that take entries of a list in turn, and what they tell.
#include "api/prepare_each.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace epifuse {
namespace {

class Preparations {
 public:
  Preparations(std::size_t count, const std::function<void(std::size_t)>& prepare,
               const std::function<void(const PreparationProgress&)>& progress)
      : prepare_(prepare), progress_(progress), failures_(count) {}

  void run(unsigned threads) {
    std::vector<std::thread> helpers;
    try {
      for (unsigned i = 1; i < threads; ++i) helpers.emplace_back([this] { work(); });
    } catch (const std::system_error&) {
      // Those that there are will do.
    }
    work();
    for (std::thread& helper : helpers) helper.join();
    if (interruption_) std::rethrow_exception(interruption_);
    for (const std::exception_ptr& failure : failures_) {
      if (failure) std::rethrow_exception(failure);
    }
  }

 private:
  void work() noexcept {
    for (std::size_t i = next_++; i < failures_.size() && !stopped_; i = next_++) {
      const auto start = std::chrono::steady_clock::now();
      std::optional<Error> error;
      try {
        prepare_(i);
      } catch (const Error& thrown) {
        error = thrown;
        failures_[i] = std::current_exception();
      } catch (...) {
        failures_[i] = std::current_exception();
        stopped_ = true;  // memory has run out
        return;
      }
      const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
      report({i, 0, failures_.size(), took.count(), error ? &*error : nullptr});
    }
  }

  void report(PreparationProgress progress) noexcept {
    const std::lock_guard lock(mutex_);
    progress.done = ++done_;
    if (!progress_ || stopped_) return;
    try {
      progress_(progress);
    } catch (...) {
      interruption_ = std::current_exception();
      stopped_ = true;
    }
  }

  const std::function<void(std::size_t)>& prepare_;
  const std::function<void(const PreparationProgress&)>& progress_;
  std::vector<std::exception_ptr> failures_;  // each written by the thread that has the entry
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> stopped_{false};
  std::mutex mutex_;  // of what follows, and for calls of progress_
  std::size_t done_ = 0;
  std::exception_ptr interruption_;
};

}  // namespace

void prepare_each(std::size_t count, unsigned threads, const std::function<void(std::size_t)>& prepare,
                  const std::function<void(const PreparationProgress&)>& progress) {
  if (threads == 0) threads = std::max(std::thread::hardware_concurrency(), 1U);
  Preparations(count, prepare, progress).run(std::min(threads, static_cast<unsigned>(count)));
}

}  // namespace epifuse
