#include "guard/flat_checks.h"

#include "cpython/watch.h"
#include "guard/flat_checks_builder.h"
#include "guard/guard_check.h"
#include "guard/resolve.h"

namespace braze::guard {

using cpython::Ref;

namespace {

constexpr size_t kPrefetchDistance = 12;

// What the check will read, so that loads of several checks are under way at once. Prefetching a
// stale address is harmless.
inline void prefetch(const DictCheck& check) {
  __builtin_prefetch(check.object);
  __builtin_prefetch(check.slot);
  __builtin_prefetch(check.dict);
}

}  // namespace

bool FlatChecks::check(PyObject* function, PyObject* const* args, std::vector<Ref>& dropped) {
  if (range_.begin == range_.end) return true;
  PyObject* root = range_.argument >= 0 ? args[range_.argument] : nullptr;
  if (is_single() && root != nullptr) {
    Node& node = tree_->nodes[range_.begin];
    tree_->set_object(range_.begin, root);
    return tree_->guards_hold(node, root);
  }
  if (built_ && root == root_) [[likely]] {
    const Outcome outcome = check_waves(dropped);
    if (outcome == Outcome::kFails) return false;
    if (outcome == Outcome::kHolds) {
      passed_ = true;
      return check_volatile(function, args, dropped);
    }
    return read_again(function, args, true, dropped);
  }
  // Checks for a new argument pay where it comes again: where the last ones were of use, or the
  // same object comes for the second time.
  const bool build = passed_ || root == root_;
  return read_again(function, args, build, dropped);
}

bool FlatChecks::read_again(PyObject* function, PyObject* const* args, bool build,
                            std::vector<Ref>& dropped) {
  if (!tree_->resolve(range_.begin, range_.end, function, args, true, fresh_)) {
    for (Ref& ref : fresh_) dropped.push_back(std::move(ref));
    fresh_.clear();
    return false;
  }
  tree_->commit(range_.begin, fresh_, dropped);
  root_ = range_.argument >= 0 ? args[range_.argument] : nullptr;
  passed_ = false;
  built_ = build && FlatChecksBuilder(*this).run(dropped);
  if (!built_) release(dropped);
  return true;
}

// Only what a C function or descriptor made for us stays until the next call.
void FlatChecks::release(std::vector<Ref>& dropped) {
  for (int i = range_.begin; i < range_.end; ++i) {
    Node& node = tree_->nodes[i];
    if (!node.held || Py_REFCNT(node.held.get()) == 1) continue;
    dropped.push_back(std::move(node.held));
  }
}

FlatChecks::Outcome FlatChecks::check_waves(std::vector<Ref>& dropped) {
  for (Wave& wave : waves_) {
    if (const Outcome outcome = check_dicts(wave.dicts, dropped); outcome != Outcome::kHolds)
      return outcome;
    if (const Outcome outcome = check_types(wave.types, dropped); outcome != Outcome::kHolds)
      return outcome;
    if (const Outcome outcome = check_pointers(wave.pointers, dropped); outcome != Outcome::kHolds)
      return outcome;
    if (const Outcome outcome = check_lists(wave.lists, dropped); outcome != Outcome::kHolds)
      return outcome;
  }
  for (int index : recheck_)
    if (!tree_->guards_hold(tree_->nodes[index], tree_->nodes[index].object))
      return Outcome::kFails;
  return Outcome::kHolds;
}

FlatChecks::Outcome FlatChecks::check_dicts(std::vector<DictCheck>& checks,
                                            std::vector<Ref>& dropped) {
  const size_t count = checks.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < count) prefetch(checks[i + kPrefetchDistance]);
    DictCheck& check = checks[i];
    if (Py_TYPE(check.object) != check.type || *check.slot != check.dict) [[unlikely]]
      return Outcome::kReadAgain;
    if (cpython::dict_version(check.dict) == check.version) [[likely]]
      continue;
    const Outcome outcome = repair(check.node, dropped);
    if (outcome != Outcome::kHolds) return outcome;
    check.version = cpython::dict_version(check.dict);
  }
  return Outcome::kHolds;
}

FlatChecks::Outcome FlatChecks::check_types(std::vector<TypeCheck>& checks,
                                            std::vector<Ref>& dropped) {
  for (TypeCheck& check : checks) {
    if (cpython::current_type_version(check.type) == check.version) [[likely]]
      continue;
    for (int index : check.nodes) {
      const Outcome outcome = repair(index, dropped);
      if (outcome != Outcome::kHolds) return outcome;
    }
    check.version = cpython::type_version(check.type);
    if (check.version == 0) return Outcome::kReadAgain;
  }
  return Outcome::kHolds;
}

FlatChecks::Outcome FlatChecks::check_pointers(std::vector<PointerCheck>& checks,
                                               std::vector<Ref>& dropped) {
  for (PointerCheck& check : checks) {
    if (*check.address == check.expected.get()) [[likely]]
      continue;
    const Outcome outcome = repair(check.node, dropped);
    if (outcome != Outcome::kHolds) return outcome;
    dropped.push_back(std::exchange(check.expected, Ref::borrow(*check.address)));
  }
  return Outcome::kHolds;
}

FlatChecks::Outcome FlatChecks::check_lists(const std::vector<ListCheck>& checks,
                                            std::vector<Ref>& dropped) {
  for (const ListCheck& check : checks) {
    if (Py_TYPE(check.list) != check.type) return Outcome::kReadAgain;
    if (check.length >= 0 && Py_SIZE(check.list) != check.length) return Outcome::kFails;
    for (int child : tree_->children_of(check.node)) {
      const Node& node = tree_->nodes[child];
      if (node.source->kind != SourceKind::kItem || is_volatile_[child - range_.begin]) continue;
      const Ref now = resolve_step(node.source, check.list);
      if (now.get() == node.object) continue;
      const Outcome outcome = repair_child(child, now.get(), dropped);
      if (outcome != Outcome::kHolds) return outcome;
    }
  }
  return Outcome::kHolds;
}

bool FlatChecks::check_volatile(PyObject* function, PyObject* const* args,
                                std::vector<Ref>& dropped) {
  for (int index : volatile_) {
    const bool holds = tree_->resolve(index, tree_->nodes[index].end, function, args, true, fresh_);
    if (!holds) {
      for (Ref& ref : fresh_) dropped.push_back(std::move(ref));
      return false;
    }
    tree_->commit(index, fresh_, dropped);
  }
  return true;
}

FlatChecks::Outcome FlatChecks::repair(int index, std::vector<Ref>& dropped) {
  const Node& node = tree_->nodes[index];
  if (!tree_->guards_hold(node, node.object)) return Outcome::kFails;
  for (int child : tree_->children_of(index)) {
    if (is_volatile_[child - range_.begin]) continue;
    const Ref now = resolve_step(tree_->nodes[child].source, node.object);
    const Outcome outcome = repair_child(child, now.get(), dropped);
    if (outcome != Outcome::kHolds) return outcome;
  }
  return Outcome::kHolds;
}

FlatChecks::Outcome FlatChecks::repair_child(int child, PyObject* object,
                                             std::vector<Ref>& dropped) {
  Node& node = tree_->nodes[child];
  if (object == node.object) {
    // The same address: another object may have taken it.
    if (object == nullptr || node.held || validated_[child - range_.begin]) return Outcome::kHolds;
    if (!node.is_leaf()) return Outcome::kReadAgain;
    return tree_->guards_hold(node, object) ? Outcome::kHolds : Outcome::kFails;
  }
  if (!node.is_leaf() || has_check_[child - range_.begin]) return Outcome::kReadAgain;
  if (!tree_->guards_hold(node, object)) return Outcome::kFails;
  tree_->set_object(child, object);
  if (node.held) dropped.push_back(std::move(node.held));
  node.held =
      object != nullptr && may_hold(object, range_.argument < 0) ? Ref::borrow(object) : Ref();
  return Outcome::kHolds;
}

}  // namespace braze::guard
