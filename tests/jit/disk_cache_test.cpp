// The disk cache under damage, hostile permissions, a full disk, eviction, and many processes at once.
#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>
#include <vector>

#include "temporary_directory.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLimit = 1 << 20;
constexpr Digest kKey{0x0123456789abcdef, 0xfedcba9876543210};

std::string read_file(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
  fs::permissions(path, fs::perms::owner_read | fs::perms::owner_write);
}

unsigned mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

void set_age(const fs::path& path, std::chrono::seconds age) {
  fs::last_write_time(path, fs::file_time_type::clock::now() - age);
}

std::vector<fs::path> files_in(const fs::path& directory) {
  std::vector<fs::path> result;
  if (!fs::exists(directory)) return result;
  for (const auto& item : fs::directory_iterator(directory)) result.push_back(item.path());
  return result;
}

class DiskCacheTest : public testing::Test {
 protected:
  TemporaryDirectory root;
  fs::path directory = root / "deep" / "cache";
  DiskCache cache{directory, kLimit};

  fs::path only_file() const {
    const auto files = files_in(directory);
    EXPECT_EQ(files.size(), 1U);
    return files.empty() ? fs::path() : files.front();
  }
};

TEST_F(DiskCacheTest, ReturnsWhatWasStoredAndOnlyUnderItsKey) {
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  EXPECT_FALSE(fs::exists(directory)) << "a look-up makes no directory";
  const std::string image("\0binary\xff\n", 9);
  cache.store(kKey, image);
  EXPECT_EQ(cache.load(kKey), image);
  EXPECT_EQ(cache.load(Digest{kKey.low, kKey.high}), std::nullopt);
  cache.store(kKey, "another");
  EXPECT_EQ(cache.load(kKey), "another");
  EXPECT_EQ(DiskCache(directory, kLimit).load(kKey), "another") << "another process";
  const CacheInfo info = cache.info();
  EXPECT_EQ(info.entries, 1U);
  EXPECT_EQ(info.bytes, fs::file_size(only_file()));
  EXPECT_EQ(info.temporaries, 0U);
  EXPECT_EQ(info.problem, "");
}

TEST_F(DiskCacheTest, IsPrivate) {
  const mode_t old = ::umask(0);
  cache.store(kKey, "image");
  ::umask(old);
  EXPECT_EQ(mode_of(directory), 0700U);
  EXPECT_EQ(mode_of(directory.parent_path()), 0700U);
  EXPECT_EQ(mode_of(only_file()), 0600U);
}

TEST_F(DiskCacheTest, AFlippedBitAnywhereIsAMissAndTheEntryGoes) {
  cache.store(kKey, "a small image");
  const fs::path path = only_file();
  const std::string good = read_file(path);
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const int bit : {0, 3, 7}) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ (1 << bit));
      write_file(path, bad);
      ASSERT_EQ(cache.load(kKey), std::nullopt) << "byte " << at << ", bit " << bit;
      ASSERT_FALSE(fs::exists(path)) << "byte " << at;
    }
  }
  write_file(path, good);
  EXPECT_EQ(cache.load(kKey), "a small image");
}

TEST_F(DiskCacheTest, ATruncatedOrLengthenedEntryIsAMissAndGoes) {
  cache.store(kKey, "a small image");
  const fs::path path = only_file();
  const std::string good = read_file(path);
  for (std::size_t size = 0; size < good.size(); ++size) {
    write_file(path, good.substr(0, size));
    ASSERT_EQ(cache.load(kKey), std::nullopt) << size;
    ASSERT_FALSE(fs::exists(path)) << size;
  }
  write_file(path, good + '\0');
  EXPECT_EQ(cache.load(kKey), std::nullopt);
}

TEST_F(DiskCacheTest, AnEntryUnderAnotherNameIsAMiss) {
  cache.store(kKey, "image");
  const Digest other{1, 2};
  fs::rename(only_file(), directory / (to_string(other) + ".image"));
  EXPECT_EQ(cache.load(other), std::nullopt);
  EXPECT_TRUE(files_in(directory).empty());
}

TEST_F(DiskCacheTest, EntriesThatAreNotPlainPrivateFilesAreMisses) {
  cache.store(kKey, "image");
  const fs::path path = only_file();
  const std::string good = read_file(path);

  fs::permissions(path, fs::perms::others_write, fs::perm_options::add);
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  EXPECT_FALSE(fs::exists(path));

  write_file(root / "elsewhere", good);
  fs::create_symlink(root / "elsewhere", path);
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  EXPECT_FALSE(fs::is_symlink(path));
  EXPECT_TRUE(fs::exists(root / "elsewhere"));

  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(cache.load(kKey), std::nullopt) << "and does not wait for a writer";

  fs::create_directory(path);
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  cache.store(kKey, "image");  // cannot replace a directory; must not throw
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  EXPECT_EQ(cache.info().temporaries, 0U);
}

TEST_F(DiskCacheTest, ADirectoryThatOthersMayWriteIsNotUsed) {
  cache.store(kKey, "image");
  for (const fs::perms open : {fs::perms::group_write, fs::perms::others_write}) {
    fs::permissions(directory, fs::perms::owner_all | open);
    EXPECT_EQ(cache.load(kKey), std::nullopt);
    cache.store(Digest{1, 1}, "planted?");
    EXPECT_EQ(files_in(directory).size(), 1U);
    EXPECT_NE(cache.info().problem.find("may be written by others"), std::string::npos) << cache.info().problem;
  }
  fs::permissions(directory, fs::perms::owner_all);
  EXPECT_EQ(cache.load(kKey), "image");
}

TEST_F(DiskCacheTest, ADirectoryOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  cache.store(kKey, "image");
  ASSERT_EQ(::chown(directory.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  cache.store(Digest{1, 1}, "image");
  EXPECT_EQ(files_in(directory).size(), 1U);
  EXPECT_NE(cache.info().problem.find("belongs to another user"), std::string::npos);
}

TEST_F(DiskCacheTest, SymbolicLinksOfOursAreFollowedAndOthersAreNot) {
  const fs::path link = root / "link";
  fs::create_symlink("deep", link);  // relative, and to something that does not exist yet
  DiskCache linked(link / "cache", kLimit);
  linked.store(kKey, "image");
  EXPECT_EQ(cache.load(kKey), "image");
  EXPECT_EQ(linked.load(kKey), "image");

  fs::create_symlink("loop", root / "loop");
  DiskCache looping(root / "loop" / "cache", kLimit);
  looping.store(kKey, "image");
  EXPECT_EQ(looping.load(kKey), std::nullopt);
  EXPECT_NE(looping.info().problem, "");

  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  ASSERT_EQ(::lchown(link.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(linked.load(kKey), std::nullopt);
  EXPECT_NE(linked.info().problem.find("belongs to another user"), std::string::npos);
}

TEST_F(DiskCacheTest, AVanishedDirectoryIsMadeAgain) {
  cache.store(kKey, "image");
  fs::remove_all(root / "deep");
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  cache.store(kKey, "image");
  EXPECT_EQ(cache.load(kKey), "image");
}

TEST_F(DiskCacheTest, ADirectoryThatCannotBeMadeIsNoError) {
  write_file(root / "file", "in the way");
  DiskCache blocked(root / "file" / "cache", kLimit);
  blocked.store(kKey, "image");
  EXPECT_EQ(blocked.load(kKey), std::nullopt);
  EXPECT_EQ(blocked.clear(), 0U);
  EXPECT_EQ(blocked.verify().good(), 0U);
  DiskCache nowhere("/proc/epifuse-cannot-be-made", kLimit);
  nowhere.store(kKey, "image");
  EXPECT_EQ(nowhere.load(kKey), std::nullopt);
}

TEST_F(DiskCacheTest, AFullDiskLeavesNoPartialFile) {
  cache.store(kKey, "image");
  // A limit on file sizes fails a write in the middle, as a full disk does; in a child, since it cannot be lifted
  // again.
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    cache.store(Digest{7, 7}, std::string(100000, 'x'));
    ::_exit(cache.load(Digest{7, 7}) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(files_in(directory).size(), 1U);
}

TEST_F(DiskCacheTest, EvictsWhatWasUsedLeastRecently) {
  const std::string image(1000, 'x');
  DiskCache small(directory, 10 * (1000 + 72));
  for (std::uint64_t i = 0; i < 10; ++i) {
    small.store(Digest{i, i}, image);
    set_age(directory / (to_string(Digest{i, i}) + ".image"), std::chrono::hours(100 - static_cast<int>(i)));
  }
  EXPECT_EQ(small.info().entries, 10U);
  EXPECT_TRUE(small.load(Digest{0, 0})) << "a load counts as use";
  small.store(Digest{99, 99}, image);
  EXPECT_LE(small.info().bytes, small.limit_bytes());
  EXPECT_TRUE(small.load(Digest{0, 0}));
  EXPECT_TRUE(small.load(Digest{9, 9}));
  EXPECT_TRUE(small.load(Digest{99, 99}));
  EXPECT_FALSE(small.load(Digest{1, 1}));
  EXPECT_FALSE(small.load(Digest{2, 2}));
}

TEST_F(DiskCacheTest, TheLimitHoldsThoughOtherProcessesStoreToo) {
  const std::string image(1000, 'x');
  const std::uint64_t limit = 64 * (1000 + 72);
  DiskCache first(directory, limit);
  DiskCache second(directory, limit);
  for (std::uint64_t i = 0; i < 400; ++i) (i % 2 == 0 ? first : second).store(Digest{i, i}, image);
  // Each lists again after a sixteenth of the limit: that much the other may have added unseen.
  EXPECT_LE(first.info().bytes, limit + 2 * limit / 16);
}

TEST_F(DiskCacheTest, AnImageLargerThanTheLimitEvictsNothing) {
  cache.store(kKey, "image");
  cache.store(Digest{1, 1}, std::string(kLimit, 'x'));
  EXPECT_EQ(cache.load(Digest{1, 1}), std::nullopt);
  EXPECT_EQ(cache.load(kKey), "image");
  DiskCache none(directory, 0);
  none.store(Digest{2, 2}, "image");
  EXPECT_EQ(none.load(Digest{2, 2}), std::nullopt);
}

TEST_F(DiskCacheTest, ALoadTouchesAnEntryAtMostOnceAMinute) {
  cache.store(kKey, "image");
  const fs::path path = only_file();
  set_age(path, std::chrono::seconds(30));
  const auto recent = fs::last_write_time(path);
  cache.load(kKey);
  EXPECT_EQ(fs::last_write_time(path), recent);
  set_age(path, std::chrono::minutes(2));
  cache.load(kKey);
  EXPECT_GT(fs::last_write_time(path), recent);
}

TEST_F(DiskCacheTest, TimesOfTheFutureAreCorrectedAndDoNotKeepAnEntry) {
  const std::string image(1000, 'x');
  DiskCache small(directory, 10 * (1000 + 72));
  for (std::uint64_t i = 0; i < 10; ++i) {
    small.store(Digest{i, i}, image);
    set_age(directory / (to_string(Digest{i, i}) + ".image"), -std::chrono::hours(48));
  }
  EXPECT_TRUE(small.load(Digest{5, 5})) << "a load counts as use";
  DiskCache(directory, small.limit_bytes()).store(Digest{99, 99}, image);
  EXPECT_TRUE(small.load(Digest{5, 5}));
  EXPECT_TRUE(small.load(Digest{99, 99}));
  EXPECT_FALSE(small.load(Digest{0, 0}));
}

TEST_F(DiskCacheTest, OldTemporariesAndNothingElseAreCleanedUp) {
  cache.store(kKey, "image");
  write_file(directory / ".epifuse-tmp-1-2-3", "partial");
  write_file(directory / ".epifuse-tmp-4-5-6", "partial, and being written");
  write_file(directory / "notes.txt", "a user's");
  for (const char* name : {".epifuse-tmp-1-2-3", "notes.txt"}) set_age(directory / name, std::chrono::hours(2));
  EXPECT_EQ(cache.info().temporaries, 2U);
  DiskCache(directory, kLimit).store(Digest{1, 1}, "image");
  EXPECT_FALSE(fs::exists(directory / ".epifuse-tmp-1-2-3"));
  EXPECT_TRUE(fs::exists(directory / ".epifuse-tmp-4-5-6"));
  EXPECT_EQ(cache.clear(), 2U);
  EXPECT_EQ(files_in(directory), std::vector<fs::path>{directory / "notes.txt"});
  EXPECT_EQ(cache.info().entries, 0U);
}

TEST_F(DiskCacheTest, LeftoversGoWhenNobodyHoldsThem) {
  cache.store(kKey, "image");
  const fs::path dead = directory / ".epifuse-tmp-1-2-3";
  const fs::path alive = directory / ".epifuse-tmp-4-5-6";
  const fs::path lock = directory / lock_name(Digest{4, 4});
  for (const fs::path& path : {dead, alive, lock}) write_file(path, "");
  for (const fs::path& path : {dead, alive, lock}) set_age(path, std::chrono::minutes(5));
  const FileDescriptor held(::open(alive.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(held.get(), LOCK_EX | LOCK_NB), 0);
  const Turn turn = cache.take_turn(Digest{8, 8});
  ASSERT_TRUE(turn);
  cache.verify();
  EXPECT_FALSE(fs::exists(dead));
  EXPECT_TRUE(fs::exists(alive));
  EXPECT_FALSE(fs::exists(lock));
  EXPECT_TRUE(fs::exists(directory / lock_name(Digest{8, 8})));
}

TEST_F(DiskCacheTest, ATurnIsOneProcessAtATimeAndLeavesNothing) {
  std::optional<Turn> turn = cache.take_turn(kKey);
  ASSERT_TRUE(*turn);
  EXPECT_TRUE(cache.take_turn(Digest{1, 1})) << "of another key";
  const auto soon = std::chrono::milliseconds(20);
  EXPECT_FALSE(DiskCache(directory, kLimit, Trust::own, soon).take_turn(kKey)) << "a wait in vain ends";

  turn.reset();
  EXPECT_TRUE(cache.take_turn(kKey));
  EXPECT_TRUE(files_in(directory).empty());
}

// As where a rename is seen late, or fails: who waited must not compile one after the other.
TEST_F(DiskCacheTest, WhoeverWaitedForAnEntryThatDoesNotComeHoldsUpNobody) {
  std::optional<Turn> turn = cache.take_turn(kKey);
  std::vector<std::thread> waiters;
  std::atomic<int> held = 0;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      const Turn next = DiskCache(directory, kLimit, Trust::own, std::chrono::minutes(1)).take_turn(kKey);
      held += static_cast<bool>(next);
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  turn.reset();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(held, 0);
  EXPECT_TRUE(cache.take_turn(kKey)) << "a later one";
}

TEST_F(DiskCacheTest, NobodyWaitsForAnEntryThatIsThere) {
  const Turn turn = cache.take_turn(kKey);
  cache.store(kKey, "image");
  DiskCache other(directory, kLimit, Trust::own, std::chrono::minutes(1));
  EXPECT_FALSE(other.take_turn(kKey)) << "though the holder does not let go";
  EXPECT_EQ(other.stats().vain_waits, 0U);
}

TEST_F(DiskCacheTest, EachWaitInVainHalvesThePatience) {
  const Turn turn = cache.take_turn(kKey);
  DiskCache other(directory, kLimit, Trust::own, std::chrono::milliseconds(400));
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(other.take_turn(kKey));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_EQ(other.stats().vain_waits, 20U);
}

// A child of a process that held the lock has the descriptor too, and lives on.
TEST_F(DiskCacheTest, AForkedChildDoesNotKeepATurn) {
  std::optional<Turn> turn = cache.take_turn(kKey);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  turn.reset();
  EXPECT_TRUE(DiskCache(directory, kLimit, Trust::own, std::chrono::milliseconds(0)).take_turn(kKey));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST_F(DiskCacheTest, ADirectoryThatCannotBeNamedIsNotUsed) {
  // From a working directory that is gone, a relative path names nothing; and surely not "/".
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const fs::path gone = root / "gone";
    fs::create_directory(gone);
    if (::chdir(gone.c_str()) != 0) ::_exit(2);
    fs::remove(gone);
    ::_exit(DiskCache("cache", kLimit).info().problem.empty() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(DiskCacheTest, AnEntryOfAnotherUserIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give an entry away";
  cache.store(kKey, "image");
  ASSERT_EQ(::chown(only_file().c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(cache.load(kKey), std::nullopt);
  EXPECT_EQ(cache.stats().rejected, 1U);
}

// Another user turns a directory on the way to ours into a link, at any moment: to where we have entries of our own
// that are not meant to be here.
TEST_F(DiskCacheTest, APathThatAnotherUserTurnsMeanwhileLeadsNowhereElse) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act as another user";
  DiskCache(root / "elsewhere" / "cache", kLimit).store(kKey, "planted");
  DiskCache turned(root / "turned" / "cache", kLimit);
  turned.store(kKey, "image");
  fs::create_symlink(root / "elsewhere", root / "link");
  ASSERT_EQ(::lchown((root / "link").c_str(), 12345, static_cast<gid_t>(-1)), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string a = root / "turned", b = root / "link";
    for (;;) ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
  }
  unsigned images = 0, planted = 0;
  for (int i = 0; i < 20000; ++i) {
    const auto found = turned.load(kKey);
    planted += found == "planted";
    images += found == "image";
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(planted, 0U);
  EXPECT_GT(images, 0U);
}

TEST_F(DiskCacheTest, ASharedDirectoryIsNeverMade) {
  DiskCache shared(directory, kLimit, Trust::shared);
  shared.store(kKey, "image");
  EXPECT_FALSE(fs::exists(directory));
  EXPECT_FALSE(shared.writable());
}

TEST_F(DiskCacheTest, ASharedDirectoryIsFilledByItsOwnerAndReadByOthers) {
  fs::create_directories(directory);
  fs::permissions(directory, fs::perms(0755));
  DiskCache shared(directory, kLimit, Trust::shared);
  const mode_t old = ::umask(077);
  shared.store(kKey, "image");
  ::umask(old);
  EXPECT_TRUE(shared.writable());
  EXPECT_EQ(mode_of(only_file()), 0644U) << "whatever the umask says";
  EXPECT_EQ(shared.load(kKey), "image");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  for (const fs::path& path : {directory, only_file()})
    ASSERT_EQ(::chown(path.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(shared.load(kKey), "image");
  EXPECT_FALSE(shared.writable());
  shared.store(Digest{1, 1}, "image");
  EXPECT_FALSE(shared.take_turn(Digest{1, 1}));
  EXPECT_EQ(shared.clear(), 0U);
  write_file(only_file(), "rubbish");
  EXPECT_EQ(shared.load(kKey), std::nullopt);
  const CacheVerification checked = shared.verify();
  EXPECT_EQ(checked.bad(), 1U);
  EXPECT_EQ(checked.removed, 0U) << "only its owner removes";
  EXPECT_EQ(files_in(directory).size(), 1U);
  // An entry of a third user's is nobody's whom the setting trusts.
  ASSERT_EQ(::chown(only_file().c_str(), 54321, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(shared.verify().count(Defect::foreign), 1U);
}

TEST_F(DiskCacheTest, ASharedDirectoryThatOthersCouldReplaceIsNotUsed) {
  fs::create_directories(directory);
  DiskCache shared(directory, kLimit, Trust::shared);
  shared.store(kKey, "image");
  for (const fs::path& path : {directory, directory.parent_path()}) {
    fs::permissions(path, fs::perms(0777));
    EXPECT_EQ(shared.load(kKey), std::nullopt) << path;
    EXPECT_NE(shared.info().problem, "") << path;
    fs::permissions(path, fs::perms(0755));
  }
  EXPECT_EQ(shared.load(kKey), "image");
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a directory away";
  ASSERT_EQ(::chown(directory.parent_path().c_str(), 54321, static_cast<gid_t>(-1)), 0);
  ASSERT_EQ(::chown(directory.c_str(), 12345, static_cast<gid_t>(-1)), 0);
  EXPECT_EQ(shared.load(kKey), std::nullopt) << "a third user could put another directory there";
}

TEST_F(DiskCacheTest, VerifyRemovesTheBadAndCountsBoth) {
  for (std::uint64_t i = 0; i < 5; ++i) cache.store(Digest{i, i}, "image");
  write_file(directory / (to_string(Digest{3, 3}) + ".image"), "rubbish");
  const CacheVerification result = cache.verify();
  EXPECT_EQ(result.good(), 4U);
  EXPECT_EQ(result.bad(), 1U);
  EXPECT_EQ(cache.info().entries, 4U);
}

std::string image_of(std::uint64_t key) {
  std::string image(200 + 37 * key, static_cast<char>('a' + key % 26));
  return image;
}

// Stores and loads until killed or done; exits with 1 on any image that is not the one stored under its key.
[[noreturn]] void hammer(const fs::path& directory, unsigned seed, int rounds) {
  DiskCache cache(directory, 40000);  // small enough that eviction never rests
  std::mt19937 random(seed);
  for (int i = 0; i < rounds; ++i) {
    const std::uint64_t key = random() % 64;
    if (random() % 2 == 0) cache.store(Digest{key, key}, image_of(key));
    if (const auto image = cache.load(Digest{key, key}); image && *image != image_of(key)) ::_exit(1);
    if (random() % 200 == 0) cache.clear();
  }
  ::_exit(0);
}

TEST_F(DiskCacheTest, ManyProcessesAtOnceSomeOfThemKilled) {
  constexpr unsigned kProcesses = 12;
  std::vector<pid_t> children;
  for (unsigned i = 0; i < kProcesses; ++i) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) hammer(directory, i, i % 3 == 0 ? 1000000 : 600);
    children.push_back(child);
  }
  for (unsigned i = 0; i < kProcesses; i += 3) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ::kill(children[i], SIGKILL);
  }
  for (unsigned i = 0; i < kProcesses; ++i) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[i], &status, 0), children[i]);
    if (i % 3 != 0) {
      EXPECT_EQ(status, 0) << "a process saw a wrong image";
    }
  }
  EXPECT_EQ(cache.verify().bad(), 0U);
}

TEST_F(DiskCacheTest, ThreadsOfOneCacheAtOnce) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 100; ++i) {
        const std::uint64_t key = random() % 16;
        cache.store(Digest{key, key}, image_of(key));
        EXPECT_EQ(cache.load(Digest{key, key}), image_of(key));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache.verify().bad(), 0U);
}

}  // namespace
}  // namespace epifuse::jit
