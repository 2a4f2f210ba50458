// The environment variables of the disk cache. Called by jit::Compiler and the tool through disk_cache.hpp.
#include <charconv>
#include <limits>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/disk_cache.hpp"

namespace epifuse::jit {
namespace {

// Enough for some ten thousand kernels, and no burden to a home directory with a quota.
constexpr std::uint64_t kDefaultLimit = 256ULL << 20;
// Longer than any compile takes on a busy machine, short beside the start of a job.
constexpr std::chrono::milliseconds kDefaultPatience{10'000};
constexpr double kLongestPatienceSeconds = 86'400;

}  // namespace

std::optional<std::filesystem::path> default_cache_directory() {
  namespace fs = std::filesystem;
  if (const auto directory = base::environment("EPIFUSE_CACHE_DIR")) return fs::path(*directory);
  // The XDG specification: a relative path is invalid and to be ignored.
  if (const auto home = base::environment("XDG_CACHE_HOME"); home && fs::path(*home).is_absolute())
    return fs::path(*home) / "epifuse";
  if (const auto home = base::environment("HOME")) return fs::path(*home) / ".cache" / "epifuse";
  return std::nullopt;
}

std::optional<std::filesystem::path> shared_cache_directory() {
  if (const auto directory = base::environment("EPIFUSE_CACHE_SHARED_DIR")) return std::filesystem::path(*directory);
  return std::nullopt;
}

std::chrono::milliseconds default_cache_patience() {
  const auto text = base::environment("EPIFUSE_CACHE_WAIT");
  if (!text) return kDefaultPatience;
  double seconds = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, seconds);
  if (error == std::errc() && stop == end && seconds >= 0 && seconds <= kLongestPatienceSeconds)
    return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
  base::log().warn("EPIFUSE_CACHE_WAIT is \"{}\", not a number of seconds such as 2.5; the wait is {} ms", *text,
                   kDefaultPatience.count());
  return kDefaultPatience;
}

bool disk_cache_disabled() {
  const auto value = base::environment("EPIFUSE_CACHE");
  return value && (*value == "off" || *value == "0" || *value == "no" || *value == "false");
}

std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc()) return std::nullopt;
  std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  if (unit.empty() || unit == "B") return value;
  constexpr std::string_view kUnits = "KMGT";
  const char letter = unit.front() >= 'a' ? static_cast<char>(unit.front() - 'a' + 'A') : unit.front();
  const std::size_t power = kUnits.find(letter);
  unit.remove_prefix(1);
  if (power == std::string_view::npos || (!unit.empty() && unit != "B" && unit != "iB")) return std::nullopt;
  const std::size_t shift = 10 * (power + 1);
  if (value > std::numeric_limits<std::uint64_t>::max() >> shift) return std::nullopt;
  return value << shift;
}

std::uint64_t default_cache_limit() {
  const auto text = base::environment("EPIFUSE_CACHE_LIMIT");
  if (!text) return kDefaultLimit;
  if (const auto bytes = parse_bytes(*text)) return *bytes;
  base::log().warn("EPIFUSE_CACHE_LIMIT is \"{}\", not a number of bytes such as 256M; the limit is {} bytes", *text,
                   kDefaultLimit);
  return kDefaultLimit;
}

}  // namespace epifuse::jit
