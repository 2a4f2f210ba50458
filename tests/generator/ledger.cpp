#include "generator/ledger.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <new>

namespace epifuse::test {

std::uint64_t Tally::add(const std::string& sentence) {
  while (busy_.test_and_set()) {
  }
  const std::string text = sentence.substr(0, kText - 1);
  Row* row = std::ranges::find_if(rows_, [&](const Row& r) { return r.count == 0 || text == r.text; });
  if (row == std::end(rows_) - 1 || row == std::end(rows_)) {
    row = std::end(rows_) - 1;
    std::strcpy(row->text, "others");
  } else if (row->count == 0) {
    std::memcpy(row->text, text.c_str(), text.size() + 1);
  }
  const std::uint64_t before = row->count++;
  busy_.clear();
  return before;
}

std::vector<std::pair<std::string, std::uint64_t>> Tally::all() const {
  std::vector<std::pair<std::string, std::uint64_t>> list;
  for (const Row& row : rows_) {
    if (row.count > 0) list.emplace_back(row.text, row.count);
  }
  std::ranges::sort(list, [](const auto& a, const auto& b) { return a.second > b.second; });
  return list;
}

bool Seen::is_new(std::uint64_t hash) {
  hash |= 1;  // 0 is an empty slot
  if (count_ > kSlots / 2) return true;
  for (std::size_t i = hash % kSlots;; i = (i + 1) % kSlots) {
    std::uint64_t found = 0;
    if (slots_[i].compare_exchange_strong(found, hash)) {
      ++count_;
      return true;
    }
    if (found == hash) return false;
  }
}

Ledger& Ledger::make() {
  void* memory =
      mmap(nullptr, sizeof(Ledger), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return *static_cast<Ledger*>(memory);  // zero bytes are a ledger without entries
}

std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf2'9ce4'8422'2325u;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100'0000'01b3u;
  return hash ^ hash >> 29;
}

}  // namespace epifuse::test
