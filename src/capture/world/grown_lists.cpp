#include "capture/world/grown_lists.h"

#include <algorithm>
#include <utility>

#include "capture/known.h"
#include "capture/world/world.h"

namespace braze::capture {

bool GrownLists::contain(PyObject* list) const {
  return std::ranges::any_of(grown_, [&](const Grown& one) { return one.list.get() == list; });
}

PyObject* GrownLists::item(PyObject* list, PyObject* index) const {
  if (grown_.empty() || !PyList_CheckExact(list) || !PyLong_CheckExact(index)) return nullptr;
  const auto found =
      std::ranges::find(grown_, list, [](const Grown& one) { return one.list.get(); });
  int overflow = 0;
  const long long place = PyLong_AsLongLongAndOverflow(index, &overflow);
  if (found == grown_.end() || overflow || place >= 0) return nullptr;
  const auto count = static_cast<long long>(found->items.size());
  return place >= -count ? found->items[count + place].get() : nullptr;
}

void GrownLists::read(World& world, PyObject* list) const {
  if (!contain(list) || world.shadow(list)) return;
  if (!world.breaks().begun())
    world.breaks().raise(BreakKind::kSideEffect, "a list that is appended to cannot be copied");
  PyErr_Clear();
}

bool GrownLists::append(const World& world, PyObject* list, PyObject* item) {
  if (!PyList_CheckExact(list) && !is_type_of(list, known().deque)) return false;
  const auto has_shadow = [&](const World::Shadow& one) { return one.original.get() == list; };
  if (!world.source_of(list) || std::ranges::any_of(world.shadows(), has_shadow)) return false;
  auto found = std::ranges::find(grown_, list, [](const Grown& one) { return one.list.get(); });
  if (found == grown_.end()) found = grown_.insert(found, {Ref::borrow(list), {}});
  found->items.push_back(Ref::borrow(item));
  ++appended_;
  return true;
}

GrownLists::Taken::Taken(GrownLists& from, PyObject* list) : from_(from) {
  std::vector<Grown>& all = from.grown_;
  const auto found = std::ranges::find(all, list, [](const Grown& one) { return one.list.get(); });
  if (found == all.end()) return;
  grown_ = std::move(*found);
  all.erase(found);
}

GrownLists::Taken::~Taken() {
  if (!grown_.items.empty()) from_.grown_.push_back(std::move(grown_));
}

bool GrownLists::Taken::append_to(PyObject* shadow) {
  static PyObject* append = PyUnicode_InternFromString("append");
  for (const Ref& item : std::exchange(grown_.items, {}))
    if (!Ref::steal(PyObject_CallMethodOneArg(shadow, append, item.get()))) return false;
  return true;
}

}  // namespace braze::capture
