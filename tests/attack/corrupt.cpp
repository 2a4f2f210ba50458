// Damaged entries of every kind, and the limit. The forger knows the format: docs/guide/cache.md states it, and
// checksums protect from accidents, not from somebody who may write the directory.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "interpose.hpp"
#include "jit/cache_entry.hpp"
#include "worker.hpp"

namespace attack {

namespace fs = std::filesystem;
using epifuse::jit::Compiler;
using epifuse::jit::Digest;
using epifuse::jit::DiskCache;
using epifuse::jit::kEntryHeaderSize;
using epifuse::jit::Origin;

fs::path cache_directory() { return std::getenv("EPIFUSE_CACHE_DIR"); }

namespace {

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

fs::path path_of(const Digest& key) { return cache_directory() / epifuse::jit::entry_name(key); }

// A header that was changed gets a checksum that fits it: little endian, high word first, over all that precedes it.
std::string with_checksum(std::string entry) {
  constexpr std::size_t kChecksumAt = kEntryHeaderSize - 16;
  const std::string_view view = entry;
  const Digest checksum = epifuse::jit::checksum_of(view.substr(0, kChecksumAt), view.substr(kEntryHeaderSize));
  for (std::size_t i = 0; i < 8; ++i) {
    entry[kChecksumAt + i] = static_cast<char>(checksum.high >> 8 * i & 0xff);
    entry[kChecksumAt + 8 + i] = static_cast<char>(checksum.low >> 8 * i & 0xff);
  }
  return entry;
}

std::string with_byte(std::string entry, std::size_t at, int change) {
  entry[at] = static_cast<char>(entry[at] + change);
  return entry;
}

struct Victim {
  Digest key;
  std::string entry;    // as it was stored
  std::string another;  // the entry of another kernel
  std::mt19937& random;

  std::string payload() const { return entry.substr(kEntryHeaderSize); }
  std::string with_payload(const std::string& payload) const {
    return epifuse::jit::entry_header(key, payload) + payload;
  }
};

constexpr std::size_t kFormatAt = 8, kVersionAt = 16, kKeyAt = 32, kArchitectureInPayload = 2, kImageInPayload = 8;

struct Damage {
  const char* name;
  std::string (*apply)(const Victim&);
};

constexpr Damage kDamages[] = {
    {"cut short", [](const Victim& v) { return v.entry.substr(0, v.random() % v.entry.size()); }},
    {"empty", [](const Victim&) { return std::string(); }},
    {"zeros of the right length", [](const Victim& v) { return std::string(v.entry.size(), '\0'); }},
    {"lengthened", [](const Victim& v) { return v.entry + std::string(1 + v.random() % 100, 'x'); }},
    {"a bit flipped",
     [](const Victim& v) {
       std::string entry = v.entry;
       char& byte = entry[v.random() % entry.size()];
       byte = static_cast<char>(byte ^ 1 << v.random() % 8);
       return entry;
     }},
    {"a bit flipped in the header",
     [](const Victim& v) {
       std::string entry = v.entry;
       char& byte = entry[v.random() % kEntryHeaderSize];
       byte = static_cast<char>(byte ^ 1 << v.random() % 8);
       return entry;
     }},
    {"another kernel's", [](const Victim& v) { return v.another; }},
    {"another compiler's",
     [](const Victim& v) { return with_checksum(with_byte(v.entry, kKeyAt + v.random() % 16, 1)); }},
    {"older format", [](const Victim& v) { return with_checksum(with_byte(v.entry, kFormatAt, -1)); }},
    {"newer format", [](const Victim& v) { return with_checksum(with_byte(v.entry, kFormatAt, 1)); }},
    {"another version of EpiFuse", [](const Victim& v) { return with_checksum(with_byte(v.entry, kVersionAt, 1)); }},
    {"another architecture, under this key",
     [](const Victim& v) { return v.with_payload(with_byte(v.payload(), kArchitectureInPayload, 10)); }},
    {"no image, under this key",
     [](const Victim& v) { return v.with_payload(v.payload().substr(0, kImageInPayload)); }},
    {"not a cubin, under this key",
     [](const Victim& v) { return v.with_payload(v.payload().substr(0, kImageInPayload) + "rubbish"); }},
};
constexpr unsigned kKinds = std::size(kDamages);

}  // namespace

Json corrupt(unsigned count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Digest> keys;
  {
    Compiler compiler;
    for (unsigned kernel = 0; kernel < count; ++kernel)
      keys.push_back(compiler.get_for_device(kernel_source(kernel), "attack", kArchitecture)->key);
  }
  const std::string first = read(path_of(keys.front()));
  for (unsigned kernel = 0; kernel < count; ++kernel) {
    const fs::path path = path_of(keys[kernel]);
    const std::string another = kernel == 0 ? read(path_of(keys.back())) : first;
    const std::string entry = read(path);
    const std::string damaged = kDamages[kernel % kKinds].apply({keys[kernel], entry, another, random});
    require(damaged != entry, std::string("not damaged: ") + kDamages[kernel % kKinds].name);
    write(path, damaged);
  }
  std::vector<std::uint64_t> detected(kKinds);
  Compiler compiler;
  const auto start = std::chrono::steady_clock::now();
  for (unsigned kernel = 0; kernel < count; ++kernel)
    detected[kernel % kKinds] += get_one(compiler, kernel) == Origin::compiled;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  require(compiler.stats().rejected == count, "not all damaged entries were counted as rejected");
  compiler.clear_memory();
  std::uint64_t replaced = 0;
  for (unsigned kernel = 0; kernel < count; ++kernel) replaced += get_one(compiler, kernel) == Origin::disk;

  std::uint64_t all = 0;
  Json kinds;
  for (unsigned kind = 0; kind < kKinds; ++kind) {
    kinds[kDamages[kind].name] = detected[kind];
    all += detected[kind];
  }
  require(all == count, "of " + std::to_string(count) + " damaged entries " + std::to_string(all) + " were noticed");
  require(replaced == count, "not all damaged entries were replaced");
  return {{"entries", count},     {"detected", all}, {"detected_by_kind", kinds},
          {"replaced", replaced}, {"wrong", 0},      {"seconds", spent.count()}};
}

Json bound(unsigned seconds) {
  constexpr unsigned kProcesses = 8;
  constexpr std::uint64_t kLimit = 1 << 20;
  std::vector<pid_t> children;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (unsigned i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    require(child >= 0, "cannot fork");
    if (child == 0) {
      Compiler compiler({.directory = {}, .limit_bytes = kLimit});
      std::uint64_t stored = 0;
      for (unsigned kernel = i << 20; std::chrono::steady_clock::now() < end; ++kernel, ++stored)
        compiler.get_for_device(kernel_source(kernel), "attack", kArchitecture);
      const std::string line = std::to_string(stored) + "\n";
      std::ofstream(cache_directory().string() + ".stored", std::ios::app) << line;
      ::_exit(0);
    }
    children.push_back(child);
  }
  DiskCache cache(cache_directory(), kLimit);
  std::uint64_t most = 0;
  while (std::chrono::steady_clock::now() < end) {
    most = std::max(most, cache.info().bytes);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const pid_t child : children) {
    int status = 0;
    require(::waitpid(child, &status, 0) == child && status == 0, "a process that stored and evicted failed");
  }
  std::uint64_t stored = 0, one = 0;
  for (std::ifstream file(cache_directory().string() + ".stored"); file >> one;) stored += one;
  // Each lists after a sixteenth of the limit: that much each may have added unseen by the others.
  require(most <= kLimit + kProcesses * kLimit / 16 + (64 << 10), "the limit was passed by more than is promised");

  constexpr unsigned kHits = 10'000;
  get_one(1);
  const auto scanned = reinterpret_cast<Scanned>(::dlsym(RTLD_DEFAULT, "epifuse_attack_scanned"));
  require(scanned != nullptr, "start the worker with LD_PRELOAD=libepifuse_interpose.so");
  const std::uint64_t before = scanned();
  const auto start = std::chrono::steady_clock::now();
  for (unsigned i = 0; i < kHits; ++i) require(get_one(1) == Origin::disk, "an entry in use went");
  const std::chrono::duration<double, std::micro> spent = std::chrono::steady_clock::now() - start;
  require(scanned() == before, "a hit listed the directory");
  return {{"processes", kProcesses},
          {"stored_entries", stored},
          {"limit_bytes", kLimit},
          {"most_bytes", most},
          {"hits", kHits},
          {"directory_entries_read_by_hits", 0},
          {"microseconds_per_hit", spent.count() / kHits}};
}

}  // namespace attack
