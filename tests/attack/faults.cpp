// Kills and failures: at every call of a miss, a store and a hit, and at random instants. After each the cache must
// give the right image to the next process, and from disk to the one after that.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <random>
#include <thread>

#include "interpose.hpp"
#include "jit/nvrtc.hpp"
#include "worker.hpp"

namespace attack {
namespace {

namespace fs = std::filesystem;
using epifuse::jit::Origin;

constexpr unsigned kKernel = 7;

template <class Function>
Function layer(const char* name) {
  void* const found = ::dlsym(RTLD_DEFAULT, name);
  require(found != nullptr, std::string(name) + ": start the worker with LD_PRELOAD=libepifuse_interpose.so");
  return reinterpret_cast<Function>(found);
}

// The status of a child that runs `body` and exits with 0, or with 1 if it throws.
template <class Body>
int status_of(const Body& body) {
  const pid_t child = ::fork();
  require(child >= 0, "cannot fork");
  if (child == 0) {
    try {
      body();
      ::_exit(0);
    } catch (const std::exception& error) {
      std::fputs((std::string(error.what()) + "\n").c_str(), stderr);
      ::_exit(1);
    }
  }
  int status = 0;
  require(::waitpid(child, &status, 0) == child, "cannot wait");
  return status;
}

struct Struck {
  std::uint64_t died = 0;
  std::uint64_t survived = 0;
  std::uint64_t healed = 0;
};

// A fresh cache; or one that has the kernel, so that the call is part of a hit.
void prepare(bool hit) {
  fs::remove_all(cache_directory());
  if (hit) require(get_one(kKernel) == Origin::compiled, "a fresh cache has no kernels");
}

std::uint64_t calls_of(bool hit) {
  prepare(hit);
  layer<Arm>("epifuse_attack_arm")(0, 0);
  get_one(kKernel);
  return layer<Disarm>("epifuse_attack_disarm")();
}

void strike(bool hit, std::uint64_t at, int deed, Struck& result) {
  prepare(hit);
  const int status = status_of([&] {
    layer<Arm>("epifuse_attack_arm")(at, deed);
    get_one(kKernel);
  });
  const std::string where = "deed " + std::to_string(deed) + " at call " + std::to_string(at);
  const bool died = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  require(died || (WIFEXITED(status) && WEXITSTATUS(status) == 0), where + ": a wrong image or a crash");
  require(died || deed != deed_kill, where + ": not killed");
  ++(died ? result.died : result.survived);
  get_one(kKernel);
  require(get_one(kKernel) == Origin::disk, where + ": the cache did not heal");
  ++result.healed;
}

// Kernels at random, with a limit that makes eviction never rest.
[[noreturn]] void churn(unsigned seed) {
  std::mt19937 random(seed);
  epifuse::jit::Compiler compiler({.directory = {}, .limit_bytes = 60'000});
  for (;;) {
    const unsigned kernel = random() % 64;
    const auto image = compiler.get_for_device(kernel_source(kernel), "attack", kArchitecture);
    if (image->bytes != fake_image(kernel_source(kernel), kFakeTarget)) ::_exit(1);
    if (random() % 4 == 0) compiler.clear_memory();
  }
}

}  // namespace

Json faults(const std::vector<int>& errors) {
  epifuse::jit::Nvrtc::get();  // opening the compiler is no call of the cache
  Struck result;
  Json calls;
  std::vector<int> deeds = {deed_kill, deed_tear, deed_short};
  deeds.insert(deeds.end(), errors.begin(), errors.end());
  for (const bool hit : {false, true}) {
    const std::uint64_t count = calls_of(hit);
    calls[hit ? "hit" : "miss_and_store"] = count;
    for (std::uint64_t at = 1; at <= count; ++at) {
      for (const int deed : deeds) strike(hit, at, deed, result);
    }
  }
  return {{"calls", calls},
          {"deeds_per_call", deeds.size()},
          {"killed", result.died},
          {"survived", result.survived},
          {"healed", result.healed},
          {"wrong", 0},
          {"crashes", 0}};
}

Json kills(unsigned count, unsigned seed) {
  epifuse::jit::Nvrtc::get();
  std::mt19937 random(seed);
  std::uint64_t most_leftovers = 0;
  for (unsigned i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    require(child >= 0, "cannot fork");
    if (child == 0) churn(seed + i);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 12'000));
    ::kill(child, SIGKILL);
    int status = 0;
    require(::waitpid(child, &status, 0) == child, "cannot wait");
    require(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "a wrong image or a crash before the kill");
    get_one(random() % 64);
    epifuse::jit::DiskCache cache(cache_directory(), 60'000);
    const epifuse::jit::CacheInfo info = cache.info();
    most_leftovers = std::max(most_leftovers, info.temporaries + info.locks);
  }
  epifuse::jit::DiskCache cache(cache_directory(), 60'000);
  const epifuse::jit::CacheVerification checked = cache.verify();
  require(checked.bad() == 0, "a killed process left a bad entry");
  return {{"kills", count},
          {"wrong", 0},
          {"crashes", 0},
          {"bad_entries", checked.bad()},
          {"most_leftovers", most_leftovers}};
}

}  // namespace attack
