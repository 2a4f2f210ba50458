// What sm_90a does asynchronously, as the PTX manual has it, for emitted products on the CPU: barriers with phases and
// expected bytes, copies of boxes by tensor maps with their swizzle, products of warp groups through matrix
// descriptors, and matrices that a warp moves together. These are the functions that templates/gemm/asynchronous.cuh
// has for CUDA compilers alone. For cuda_shim.hpp, which includes it at its end.
//
// A launch says when asynchronous work is done: as early as it may be, as late, or at random. Late copies arrive when
// no thread can go on without them, late stores read their box when their thread waits for that, and late products read
// their factors when their thread waits for them. What has not arrived is NaN. A store of what no fence has shown to
// copies, a barrier with too many arrivals, sums that are used too soon, and waits that nothing ends are reported.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <optional>

#include "support/host_map.hpp"

// Code without optimisation takes minutes for what is here.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

namespace epifuse::shim {

/// When asynchronous work of this thread's launches is done.
inline thread_local When when = When::late;
/// What comes next where that is at random.
inline thread_local unsigned long long dice = 0;
inline unsigned thrown(unsigned sides) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;  // Knuth's MMIX
  return static_cast<unsigned>(dice >> 33) % sides;
}
/// Whether what has just begun is done at once.
inline bool is_done_now() { return when == When::early || (when == When::at_random && thrown(2) == 0); }

class Asynchronous {
 public:
  static constexpr unsigned kBase = 1024;  // the first address of shared memory: 0 is no address

  /// Of every thread, first of all. The first of a cluster forgets the cluster before.
  unsigned begin(std::size_t bytes) {
    if (cluster.number() != of_cluster_) {
      *this = Asynchronous();
      of_cluster_ = cluster.number();
    }
    cluster.shared(bytes, 1024);
    if (block().written.empty()) block().written.assign((bytes + 15) / 16, 0);
    return kBase;
  }

  // ---- barriers

  void init(unsigned barrier, int arrivals) {
    if (barrier % 8 != 0) cluster.fail("a barrier at address %u, which is no multiple of 8", barrier);
    block().barriers[barrier] = {arrivals, arrivals, 0, 0};
  }
  void expect(unsigned barrier, int bytes) {
    find(cluster.rank(), barrier).bytes += bytes;
    arrive(cluster.rank(), barrier);
  }
  void arrive(unsigned rank, unsigned barrier) {
    Barrier& it = find(rank, barrier);
    if (--it.pending < 0) cluster.fail("more arrivals at the barrier at %u than it has in a phase", barrier);
    settle(it);
  }
  bool has_passed(unsigned barrier, unsigned parity) {
    if (find(cluster.rank(), barrier).phase != parity) return true;
    if (cluster.arrivals() != arrivals_) {
      arrivals_ = cluster.arrivals();
      idle_ = 0;
    }
    const bool is_time = when == When::at_random && !copies_.empty() && thrown(64) == 0;
    if (++idle_ > kPatience || is_time) {
      idle_ = 0;
      if (copies_.empty()) cluster.fail("deadlock: the barrier at %u never passes parity %u", barrier, parity);
      const auto next = next_copy();
      const Copy copy = *next;
      copies_.erase(next);
      run(copy);
      run_numbers_beside(copy);
    }
    cluster.yield("a barrier in shared memory");
    return false;
  }
  void meet(int group, unsigned threads) {
    shim::Barrier& it = block().groups[group];
    it.expected = threads;
    cluster.wait(it, "a barrier of some warps");
  }

  void turn(int group, bool waits) {
    shim::Barrier& it = block().groups[group + 2];
    it.expected = 256;
    if (waits) {
      cluster.wait(it, "its turn");
    } else {
      cluster.arrive_without_waiting(it, "its turn");
    }
  }

  // ---- copies

  /// Into the first `blocks` of the cluster, or, if that is 0, into this block alone.
  void load(unsigned target, const HostMap& map, const int (&at)[4], unsigned barrier, unsigned blocks) {
    if (map.box[0] * map.bytes != map.swizzle)
      cluster.fail("rows of a box have %d bytes, its swizzle %d", map.box[0] * map.bytes, map.swizzle);
    begin({target, map, {at[0], at[1], at[2], at[3]}, barrier, cluster.rank(), blocks, std::nullopt});
  }
  /// A number to a block of the cluster, and its bytes to the barrier there.
  void give(unsigned target, unsigned barrier, unsigned rank, float value) {
    begin({target, {}, {}, barrier, rank, 0, value});
  }
  void store(const HostMap& map, const int (&at)[4], unsigned source) {
    for (int i = 0; i < bytes_of_box(map); i += 16) {
      const unsigned writer = block().written[(source - kBase + static_cast<unsigned>(i)) / 16];
      if (writer != 0)
        cluster.fail("a copy from shared memory that thread %u wrote and did not show to copies", writer - 1);
    }
    stores_.push_back({source, map, {at[0], at[1], at[2], at[3]}, cluster.rank(), cluster.thread()});
    if (is_done_now()) {
      run(stores_.back());
      stores_.back().is_done = true;
    }
  }
  void wait_stores(std::size_t left) {
    std::size_t mine = 0;
    for (const Store& store : stores_) mine += is_mine(store) ? 1 : 0;
    for (std::size_t i = 0; i < stores_.size() && mine > left;) {
      if (!is_mine(stores_[i])) {
        ++i;
        continue;
      }
      if (!stores_[i].is_done) run(stores_[i]);
      stores_.erase(stores_.begin() + static_cast<std::ptrdiff_t>(i));
      --mine;
    }
  }
  void show() {
    for (const std::size_t i : block().by_thread[cluster.thread()]) {
      if (block().written[i] == cluster.thread() + 1) block().written[i] = 0;
    }
    block().by_thread[cluster.thread()].clear();
  }

  // ---- plain accesses

  unsigned char* at(unsigned address) { return at(cluster.rank(), address); }
  /// Of another block of the cluster, which has not ended.
  unsigned char* at_block(unsigned rank, unsigned address) { return at(rank, address); }
  void mark(unsigned address) {
    const std::size_t chunk = (address - kBase) / 16;
    block().written[chunk] = cluster.thread() + 1;
    block().by_thread[cluster.thread()].push_back(chunk);
  }

  // ---- products

  struct Product {
    void* sums;  // float, or int
    bool is_integer;
    int columns, bytes;  // of the result, and of a factor's number
    unsigned long long left, right;
    bool adds, left_transposed, right_transposed;
    float (*real)(unsigned);
    unsigned batch;
    bool is_done = false;

    float& sum(int i) const { return static_cast<float*>(sums)[i]; }
    int& integer(int i) const { return static_cast<int*>(sums)[i]; }
  };
  void multiply(Product product) {
    auto& state = block().products[cluster.thread()];
    product.batch = state.batches;
    state.under_way.push_back(product);
    if (is_done_now()) finish(state.under_way);
  }
  void commit() { ++block().products[cluster.thread()].batches; }
  void wait_products(unsigned left) {
    auto& state = block().products[cluster.thread()];
    while (!state.under_way.empty() && state.under_way.front().batch + left < state.batches) {
      if (!state.under_way.front().is_done) run(state.under_way.front());
      state.under_way.pop_front();
    }
  }
  void check_sums() {
    if (!products_of()->empty()) cluster.fail("sums are used before their products were waited for");
  }

 private:
  struct Barrier {
    int expected, pending;
    long long bytes;
    unsigned phase;
  };
  struct Copy {
    unsigned target;
    HostMap map;
    int at[4];
    unsigned barrier, rank, blocks;
    std::optional<float> number;  // in the place of a box
  };
  struct Store {
    unsigned source;
    HostMap map;
    int at[4];
    unsigned rank, thread;
    bool is_done = false;
  };
  struct Products {
    std::deque<Product> under_way;
    unsigned batches = 0;  // that have ended
  };
  struct Block {
    std::map<unsigned, Barrier> barriers;
    std::map<int, shim::Barrier> groups;
    std::vector<unsigned> written;  // by 16 bytes: the thread that wrote them and has not shown them, plus one
    std::map<unsigned, std::vector<std::size_t>> by_thread;
    std::map<unsigned, Products> products;
  };
  // Looks at barriers, by all threads, without anything that happens: more than a cluster of eight blocks has threads.
  static constexpr int kPatience = 4000;

  // One after the other, as they were begun.
  void finish(std::deque<Product>& products) {
    for (Product& product : products) {
      if (!product.is_done) run(product);
      product.is_done = true;
    }
  }

  Block& block() { return blocks_[cluster.rank()]; }
  std::deque<Product>* products_of() { return &block().products[cluster.thread()].under_way; }
  bool is_mine(const Store& store) const { return store.rank == cluster.rank() && store.thread == cluster.thread(); }

  Barrier& find(unsigned rank, unsigned barrier) {
    const auto found = blocks_[rank].barriers.find(barrier);
    if (found == blocks_[rank].barriers.end())
      cluster.fail("no barrier was made at address %u of block %u", barrier, rank);
    return found->second;
  }
  void settle(Barrier& barrier) {
    idle_ = 0;
    if (barrier.pending > 0 || barrier.bytes != 0) return;
    barrier.phase ^= 1;
    barrier.pending = barrier.expected;
  }
  unsigned char* at(unsigned rank, unsigned address) {
    const shim::Block& memory = cluster.block(rank);
    if (address < kBase || address - kBase >= memory.shared_bytes)
      cluster.fail("address %u is outside of shared memory", address);
    return memory.shared + (address - kBase);
  }
  static unsigned swizzled(unsigned address, int swizzle) {
    return address ^ ((address >> 7 & static_cast<unsigned>(swizzle / 16 - 1)) << 4);
  }
  // Of a box along a dimension: every so manieth of its elements is copied.
  static int copied(const HostMap& map, int dimension) {
    return (map.box[dimension] + map.steps[dimension] - 1) / map.steps[dimension];
  }
  static int bytes_of_box(const HostMap& map) {
    return copied(map, 0) * copied(map, 1) * copied(map, 2) * copied(map, 3) * map.bytes;
  }
  // Each element that is copied and lies in the tensor, with its address in shared memory; the others with null.
  template <class Visit>
  static void visit(const HostMap& map, const int (&at)[4], unsigned base, const Visit& visit) {
    unsigned address = base;
    const auto is_inside = [&](int d, long long place) { return place >= 0 && place < map.extents[d]; };
    const auto end = [&](int d) { return at[d] + map.box[d]; };
    for (long long w = at[3]; w < end(3); w += map.steps[3]) {
      for (long long z = at[2]; z < end(2); z += map.steps[2]) {
        for (long long y = at[1]; y < end(1); y += map.steps[1]) {
          const bool has_row = is_inside(3, w) && is_inside(2, z) && is_inside(1, y);
          const unsigned char* row = map.data + w * map.strides[2] + z * map.strides[1] + y * map.strides[0];
          for (long long x = at[0]; x < end(0); x += map.steps[0], address += static_cast<unsigned>(map.bytes))
            visit(swizzled(address, map.swizzle), has_row && is_inside(0, x) ? row + x * map.bytes : nullptr);
        }
      }
    }
  }
  void begin(const Copy& copy) {
    if (is_done_now()) {
      run(copy);
    } else {
      copies_.push_back(copy);
    }
    idle_ = 0;
  }
  // Late numbers come in the reverse order: nothing but barriers says which one is there first.
  std::deque<Copy>::iterator next_copy() {
    if (when == When::at_random) return copies_.begin() + thrown(static_cast<unsigned>(copies_.size()));
    return copies_.back().number ? std::prev(copies_.end()) : copies_.begin();
  }
  // It brings all that the same barrier waits for: each on its own would have all threads wait.
  void run_numbers_beside(const Copy& copy) {
    if (!copy.number || when != When::late) return;
    std::deque<Copy> left;
    for (const Copy& other : copies_) {
      const bool is_alike = other.number && other.rank == copy.rank && other.barrier == copy.barrier;
      if (is_alike) run(other);
      if (!is_alike) left.push_back(other);
    }
    copies_.swap(left);
  }
  void run(const Copy& copy) {
    if (copy.number) {
      std::memcpy(at(copy.rank, copy.target), &*copy.number, sizeof(float));
      Barrier& barrier = find(copy.rank, copy.barrier);
      barrier.bytes -= static_cast<long long>(sizeof(float));
      return settle(barrier);
    }
    for (unsigned rank = copy.blocks > 0 ? 0 : copy.rank; rank < (copy.blocks > 0 ? copy.blocks : copy.rank + 1);
         ++rank) {
      visit(copy.map, copy.at, copy.target, [&](unsigned address, const unsigned char* data) {
        const unsigned zero = 0;
        std::memcpy(at(rank, address), data != nullptr ? static_cast<const void*>(data) : &zero,
                    static_cast<std::size_t>(copy.map.bytes));
      });
      Barrier& barrier = find(rank, copy.barrier);
      barrier.bytes -= bytes_of_box(copy.map);
      settle(barrier);
    }
  }
  void run(const Store& store) {
    visit(store.map, store.at, store.source, [&](unsigned address, const unsigned char* data) {
      if (data != nullptr)
        std::memcpy(const_cast<unsigned char*>(data), at(store.rank, address),
                    static_cast<std::size_t>(store.map.bytes));
    });
  }

  // Number k of row (or column) i of a factor, where its descriptor says.
  float element(const Product& product, bool is_right, unsigned i, unsigned k) {
    const unsigned long long descriptor = is_right ? product.right : product.left;
    if (descriptor >> 62 != 1) cluster.fail("a matrix descriptor without the swizzle of 128 bytes");
    const auto field = [&](int shift) { return static_cast<unsigned>(descriptor >> shift & 0x3fff) << 4; };
    const unsigned leading = field(16), stride = field(32);
    const auto bytes = static_cast<unsigned>(product.bytes);
    const bool transposed = is_right ? product.right_transposed : product.left_transposed;
    if (transposed && bytes != 2) cluster.fail("a transposed factor of numbers of %u bytes", bytes);
    const unsigned address = transposed ? field(0) + i / 64 * leading + k / 8 * stride + k % 8 * 128 + i % 64 * 2
                                        : field(0) + i / 8 * stride + i % 8 * 128 + k * bytes;
    unsigned bits = 0;
    std::memcpy(&bits, at(swizzled(address, 128)), bytes);
    return product.real(bits);
  }
  // This thread's sums of a product: rows lane / 4 and eight below of its warp's 16, the pairs 2 * (lane % 4) of each
  // eight columns. 32 bytes deep.
  void run(const Product& product) {
    const unsigned thread = cluster.thread() % 128;
    const auto depth = static_cast<unsigned>(32 / product.bytes);
    float left[2][32];
    for (unsigned h = 0; h < 2; ++h) {
      for (unsigned k = 0; k < depth; ++k)
        left[h][k] = element(product, false, thread / 32 * 16 + h * 8 + thread % 32 / 4, k);
    }
    for (int i = 0; i < product.columns / 2; i += 4) {
      for (int e = 0; e < 2; ++e) {
        const unsigned column = static_cast<unsigned>(i * 2 + e) + thread % 4 * 2;
        float right[32];
        for (unsigned k = 0; k < depth; ++k) right[k] = element(product, true, column, k);
        for (int h = 0; h < 2; ++h) {
          const int at = i + 2 * h + e;
          if (product.is_integer) {
            int sum = product.adds ? product.integer(at) : 0;
            for (unsigned k = 0; k < depth; ++k) sum += static_cast<int>(left[h][k]) * static_cast<int>(right[k]);
            product.integer(at) = sum;
          } else {
            float sum = product.adds ? product.sum(at) : 0;
            for (unsigned k = 0; k < depth; ++k) sum += left[h][k] * right[k];
            product.sum(at) = sum;
          }
        }
      }
    }
  }

  unsigned long long of_cluster_ = 0;  // that this is all of
  int idle_ = 0;
  unsigned long long arrivals_ = 0;   // when it was last looked
  std::map<unsigned, Block> blocks_;  // by rank
  std::deque<Copy> copies_;
  std::vector<Store> stores_;
};
inline thread_local Asynchronous asynchronous;

/// Addresses of the rows of matrices that a warp loads together: the eight of a matrix stand in different banks, 16
/// bytes in each four of them.
inline thread_local std::map<unsigned, std::array<unsigned, kWarp>>
    rows_of_matrices;  // by warp of the cluster, and lane
inline std::array<unsigned, kWarp>& rows_of_own_warp() {
  return rows_of_matrices[cluster.rank() * kWarp + cluster.thread() / kWarp];
}
inline void tell_rows(unsigned address) { rows_of_own_warp()[cluster.lane()] = address; }
/// When all lanes have told theirs, and before any tells its next.
inline void check_banks() {
  if (cluster.lane() != 0) return;
  for (unsigned matrix = 0; matrix < 4; ++matrix) {
    unsigned seen = 0;
    for (unsigned row = 0; row < 8; ++row) seen |= 1u << (rows_of_own_warp()[matrix * 8 + row] / 16 % 8);
    if (seen != 0xff) cluster.fail("two rows of a matrix that a warp loads stand in the same banks");
  }
}

/// What is .aligned finds all lanes of a warp at one place. Else the first lane could release a stage whose products
/// another one has still to compute.
inline void meet_warp(const char* what) { cluster.wait(cluster.warp().barrier, what); }

template <class Map>
const HostMap& host_map(const Map& map) {
  return reinterpret_cast<const HostMap&>(map);
}

}  // namespace epifuse::shim

template <int kBytes>
unsigned shared_memory() {
  return epifuse::shim::asynchronous.begin(kBytes);
}
inline void init_barrier(unsigned barrier, int arrivals) { epifuse::shim::asynchronous.init(barrier, arrivals); }
inline void publish_barriers() {}
inline void expect_bytes(unsigned barrier, int bytes) { epifuse::shim::asynchronous.expect(barrier, bytes); }
inline void arrive_at(unsigned barrier, unsigned rank) { epifuse::shim::asynchronous.arrive(rank, barrier); }
inline void wait_barrier(unsigned barrier, unsigned parity) {
  while (!epifuse::shim::asynchronous.has_passed(barrier, parity)) {
  }
}
inline void meet(int group) { epifuse::shim::asynchronous.meet(group, 128); }
inline void wait_for_turn(int group) { epifuse::shim::asynchronous.turn(group, true); }
inline void give_turn(int group) { epifuse::shim::asynchronous.turn(group, false); }
inline void meet_cluster() { cluster_sync(); }
template <class Sum>
void give_sums(unsigned address, unsigned rank, const Sum* sums) {
  std::memcpy(epifuse::shim::asynchronous.at_block(rank, address), sums, 4 * sizeof(Sum));
}
template <class Sum>
void load_sums(unsigned address, Sum* sums) {
  std::memcpy(sums, epifuse::shim::asynchronous.at(address), 4 * sizeof(Sum));
}

template <class Map>
void prefetch_map(const Map&) {}
template <class Map>
void load_box(unsigned target, const Map& map, int x, int y, int z, unsigned barrier) {
  epifuse::shim::asynchronous.load(target, epifuse::shim::host_map(map), {x, y, z, 0}, barrier, 0);
}
template <class Map>
void load_box_to_both(unsigned target, const Map& map, int x, int y, int z, unsigned barrier) {
  epifuse::shim::asynchronous.load(target, epifuse::shim::host_map(map), {x, y, z, 0}, barrier, 2);
}
template <int kBlocksOfCluster, class Map>
void load_box_to_all(unsigned target, const Map& map, int x, int y, int z, unsigned barrier) {
  epifuse::shim::asynchronous.load(target, epifuse::shim::host_map(map), {x, y, z, 0}, barrier, kBlocksOfCluster);
}
inline void give_number(unsigned address, unsigned barrier, unsigned rank, float value) {
  epifuse::shim::asynchronous.give(address, barrier, rank, value);
}
inline void wait_numbers(unsigned barrier, unsigned parity) { wait_barrier(barrier, parity); }
template <class Map>
void store_box(const Map& map, int x, int y, int z, unsigned source) {
  epifuse::shim::asynchronous.store(epifuse::shim::host_map(map), {x, y, z, 0}, source);
}
template <class Map>
void load_pixels(unsigned target, const Map& map, int channel, int x, int y, int image, unsigned barrier) {
  epifuse::shim::asynchronous.load(target, epifuse::shim::host_map(map), {channel, x, y, image}, barrier, 0);
}
template <class Map>
void store_pixels(const Map& map, int channel, int x, int y, int image, unsigned source) {
  epifuse::shim::asynchronous.store(epifuse::shim::host_map(map), {channel, x, y, image}, source);
}
template <int kLeft>
void wait_stores_read() {
  epifuse::shim::asynchronous.wait_stores(kLeft);
}
inline void show_to_copies() { epifuse::shim::asynchronous.show(); }

inline void load_matrices(unsigned (&words)[4], unsigned address) {
  using namespace epifuse::shim;
  const unsigned lane = cluster.lane();
  tell_rows(address);
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = exchange("ldmatrix", 0xffffffffu, address, 8 * i + lane / 4);
    if (i == 0) check_banks();
    std::memcpy(&words[i], asynchronous.at(row + lane % 4 * 4), 4);
  }
}
inline void store_matrices(unsigned address, const unsigned (&words)[4]) {
  using namespace epifuse::shim;
  const unsigned lane = cluster.lane();
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned row = exchange("stmatrix", 0xffffffffu, address, 8 * i + lane / 4) + lane % 4 * 4;
    std::memcpy(asynchronous.at(row), &words[i], 4);
    asynchronous.mark(row);
  }
}
inline float load_number(unsigned address) {
  float value;
  std::memcpy(&value, epifuse::shim::asynchronous.at(address), 4);
  return value;
}
inline void store_number(unsigned address, float value) {
  std::memcpy(epifuse::shim::asynchronous.at(address), &value, 4);
}
inline void load_pair(float& low, float& high, unsigned address) {
  std::memcpy(&low, epifuse::shim::asynchronous.at(address), 4);
  std::memcpy(&high, epifuse::shim::asynchronous.at(address + 4), 4);
}
inline void store_pair(unsigned address, float low, float high) {
  store_number(address, low);
  store_number(address + 4, high);
  epifuse::shim::asynchronous.mark(address);
}
inline unsigned short load_short(unsigned address) {
  unsigned short bits;
  std::memcpy(&bits, epifuse::shim::asynchronous.at(address), 2);
  return bits;
}
inline void store_short(unsigned address, unsigned short bits) {
  std::memcpy(epifuse::shim::asynchronous.at(address), &bits, 2);
  epifuse::shim::asynchronous.mark(address);
}

inline unsigned long long describe_matrix(unsigned address, int leading, int stride) {
  return (address & 0x3ffffu) >> 4 | static_cast<unsigned long long>(leading >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}
inline void begin_products() { epifuse::shim::meet_warp("wgmma.fence"); }
inline void commit_products() { epifuse::shim::asynchronous.commit(); }
template <int kLeft>
void wait_products() {
  epifuse::shim::asynchronous.wait_products(kLeft);
  epifuse::shim::meet_warp("wgmma.wait_group");
}
template <class Sum, int kCount>
void begin_sums(Sum (&sums)[kCount]) {
  std::memset(sums, epifuse::shim::kPoison, sizeof sums);
}
template <class Sum, int kCount>
void end_sums(Sum (&)[kCount]) {
  epifuse::shim::asynchronous.check_sums();
}
template <int kBytes, int kLeftTransposed, int kRightTransposed, class Sum, int kCount>
void multiply_by_model(Sum (&sums)[kCount], unsigned long long left, unsigned long long right, bool adds,
                       float (*real)(unsigned)) {
  epifuse::shim::asynchronous.multiply({sums, std::is_integral_v<Sum>, 2 * kCount, kBytes, left, right, adds,
                                        kLeftTransposed != 0, kRightTransposed != 0, real, 0});
}
template <int kCount>
void give_registers() {}
template <int kCount>
void take_registers() {}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
