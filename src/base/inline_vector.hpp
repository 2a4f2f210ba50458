// A vector of small values whose first elements lie in the object itself: what a launch makes of its operands needs no
// heap. For every component. The standard library has none, and boost's would bring 130 MB of headers for this one
// class.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace epifuse::base {

/// The part of std::vector's interface that the components use. Elements are trivially copyable; beyond `Inline` of
/// them they lie on the heap.
template <class T, std::size_t Inline>
class InlineVector {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  // Not defaulted: that would fill the memory with zeros wherever a class is initialised with {}.
  InlineVector() noexcept {}  // NOLINT(modernize-use-equals-default)
  InlineVector(std::initializer_list<T> values) { append(values.begin(), values.size()); }
  explicit InlineVector(std::size_t size, const T& value = T{}) { resize(size, value); }
  InlineVector(const InlineVector& other) { append(other.data(), other.size_); }
  InlineVector(InlineVector&& other) noexcept { take(other); }
  InlineVector& operator=(const InlineVector& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other.data(), other.size_);
    return *this;
  }
  InlineVector& operator=(InlineVector&& other) noexcept {
    if (this != &other) take(other);
    return *this;
  }
  ~InlineVector() = default;

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  T* data() noexcept { return heap_ ? heap_.get() : reinterpret_cast<T*>(here_); }
  const T* data() const noexcept { return heap_ ? heap_.get() : reinterpret_cast<const T*>(here_); }
  T* begin() noexcept { return data(); }
  T* end() noexcept { return data() + size_; }
  const T* begin() const noexcept { return data(); }
  const T* end() const noexcept { return data() + size_; }
  T& operator[](std::size_t i) noexcept { return data()[i]; }
  const T& operator[](std::size_t i) const noexcept { return data()[i]; }
  T& back() noexcept { return data()[size_ - 1]; }
  const T& back() const noexcept { return data()[size_ - 1]; }

  void push_back(const T& value) {
    if (size_ == capacity_) {
      const T copy = value;  // which may be one of our own
      grow(size_ + 1);
      std::construct_at(data() + size_, copy);
    } else {
      std::construct_at(data() + size_, value);
    }
    ++size_;
  }
  /// An element with its default values, to be filled in place.
  T& emplace_back() {
    if (size_ == capacity_) grow(size_ + 1);
    return *::new (static_cast<void*>(data() + size_++)) T;
  }
  void pop_back() noexcept { --size_; }
  void clear() noexcept { size_ = 0; }
  void resize(std::size_t size, const T& value = T{}) {
    const T copy = value;
    if (size > capacity_) grow(size);
    if (size > size_) std::uninitialized_fill(data() + size_, data() + size, copy);
    size_ = size;
  }
  void assign(std::size_t size, const T& value) {
    const T copy = value;
    size_ = 0;
    resize(size, copy);
  }
  /// Without initialising: for what is about to be overwritten.
  T* resize_for_overwrite(std::size_t size) {
    if (size > capacity_) grow(size);
    size_ = size;
    return data();
  }
  /// `values` is not this vector's own memory.
  void append(const T* values, std::size_t count) {
    if (size_ + count > capacity_) grow(size_ + count);
    if (count > 0) std::memcpy(static_cast<void*>(data() + size_), values, count * sizeof(T));
    size_ += count;
  }

  friend bool operator==(const InlineVector& a, const InlineVector& b) { return std::ranges::equal(a, b); }

 private:
  void grow(std::size_t least) {
    const std::size_t capacity = std::max(least, 2 * capacity_);
    auto heap = std::make_unique_for_overwrite<T[]>(capacity);
    // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer
    if (size_ > 0) std::memcpy(static_cast<void*>(heap.get()), data(), size_ * sizeof(T));
    heap_ = std::move(heap);
    capacity_ = capacity;
  }
  void take(InlineVector& other) noexcept {
    heap_ = std::move(other.heap_);
    if (!heap_ && other.size_ > 0) std::memcpy(static_cast<void*>(here_), other.here_, other.size_ * sizeof(T));
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, Inline);
  }

  std::size_t size_ = 0;
  std::size_t capacity_ = Inline;
  std::unique_ptr<T[]> heap_;
  alignas(T) std::byte here_[Inline * sizeof(T)];  // NOLINT(bugprone-sizeof-expression): as in grow()
};

}  // namespace epifuse::base
