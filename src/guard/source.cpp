#include "guard/source.h"

#include <deque>
#include <vector>

#include "base/error.h"

namespace braze::guard {

namespace {

// One step of a multiplicative mix, as in wyhash's final rounds.
uint64_t mix(uint64_t a, uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a ^ 0x9E3779B97F4A7C15u) *
                       static_cast<unsigned __int128>(b ^ 0xD1B54A32D192ED03u);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// Only str and int keys are compared by value: names and indices. Other keys are themselves.
bool by_value(PyObject* key) { return PyUnicode_CheckExact(key) || PyLong_CheckExact(key); }

uint64_t hash_key(PyObject* key) {
  if (key == nullptr) return 0;
  return by_value(key) ? static_cast<uint64_t>(PyObject_Hash(key))
                       : reinterpret_cast<uintptr_t>(key) >> 4;
}

bool same_key(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a == nullptr || b == nullptr || Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyUnicode_CheckExact(a)) return PyUnicode_Compare(a, b) == 0;
  return PyLong_CheckExact(a) && PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

}  // namespace

struct SourceArena::Impl {
  struct Slot {
    uint32_t hash = 0;
    uint32_t number = 0;  // id of the source + 1; 0: free
  };

  std::deque<Source> sources;                         // by id
  std::vector<Slot> slots = std::vector<Slot>(2048);  // a power of two, at most half full

  Slot& find(uint32_t hash, SourceKind kind, const Source* base, PyObject* key,
             const Source* other) {
    const size_t mask = slots.size() - 1;
    for (size_t i = hash;; ++i) {
      Slot& slot = slots[i & mask];
      if (slot.number == 0) return slot;
      if (slot.hash != hash) continue;
      const Source& source = sources[slot.number - 1];
      if (source.kind == kind && source.base == base && source.other == other &&
          same_key(source.key.get(), key))
        return slot;
    }
  }

  void grow() {
    std::vector<Slot> old(slots.size() * 2);
    old.swap(slots);
    for (const Slot& slot : old) {
      if (slot.number == 0) continue;
      size_t i = slot.hash;
      while (slots[i & (slots.size() - 1)].number != 0) ++i;
      slots[i & (slots.size() - 1)] = slot;
    }
  }
};

SourceArena::SourceArena() : impl_(std::make_unique<Impl>()) {}
SourceArena::~SourceArena() = default;

const Source* SourceArena::get(SourceKind kind, const Source* base, PyObject* key,
                               const Source* other) {
  std::deque<Source>& sources = impl_->sources;
  const auto hash = static_cast<uint32_t>(
      mix(mix(static_cast<uint64_t>(kind), reinterpret_cast<uintptr_t>(base)), hash_key(key)));
  Impl::Slot* slot = &impl_->find(hash, kind, base, key, other);
  if (slot->number != 0) return &sources[slot->number - 1];
  if (2 * sources.size() >= impl_->slots.size()) {
    impl_->grow();
    slot = &impl_->find(hash, kind, base, key, other);
  }
  const int id = size();
  *slot = {hash, static_cast<uint32_t>(id) + 1};
  return &sources.emplace_back(Source{kind, id, base, cpython::Ref::borrow(key), other});
}

int SourceArena::size() const { return static_cast<int>(impl_->sources.size()); }

}  // namespace braze::guard
