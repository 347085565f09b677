// Maps keyed by object identity: open addressing, no erasure of single entries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace braze {

// Does not own its keys: whoever inserts keeps the object alive, or does not mind that its address
// is used again.
template <class V>
class IdentityMap {
 public:
  const V* find(const void* key) const {
    if (size_ == 0) return nullptr;
    for (size_t i = place(key);; i = (i + 1) & mask()) {
      if (entries_[i].first == key) return &entries_[i].second;
      if (!entries_[i].first) return nullptr;
    }
  }
  V* find(const void* key) { return const_cast<V*>(std::as_const(*this).find(key)); }
  bool contains(const void* key) const { return find(key) != nullptr; }

  // The value of `key`, made by default when it is new.
  V& operator[](const void* key) {
    if ((size_ + 1) * 4 > entries_.size() * 3) grow();
    size_t i = place(key);
    while (entries_[i].first && entries_[i].first != key) i = (i + 1) & mask();
    if (!entries_[i].first) {
      entries_[i].first = key;
      ++size_;
    }
    return entries_[i].second;
  }

  template <class Visit>
  void for_each_value(Visit visit) {
    for (auto& [key, value] : entries_)
      if (key) visit(value);
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() {
    entries_.clear();
    size_ = 0;
  }

 private:
  size_t mask() const { return entries_.size() - 1; }
  size_t place(const void* key) const {
    auto bits = reinterpret_cast<uintptr_t>(key) >> 4;
    return (bits * 0x9E3779B97F4A7C15ull >> 20) & mask();
  }
  void grow() {
    std::vector<std::pair<const void*, V>> old(entries_.empty() ? 64 : entries_.size() * 2);
    old.swap(entries_);
    size_ = 0;
    for (auto& [key, value] : old)
      if (key) (*this)[key] = std::move(value);
  }

  std::vector<std::pair<const void*, V>> entries_;
  size_t size_ = 0;
};

}  // namespace braze
