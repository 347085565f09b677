#include "guard/tree.h"

#include "base/error.h"
#include "guard/guard_check.h"
#include "guard/resolve.h"

namespace braze::guard {

using cpython::Ref;

namespace {

constexpr int kUnknown = -1;
constexpr int kCollected = -2;

}  // namespace

Tree::Tree(const std::vector<Guard>& guards, const std::vector<const Source*>& inputs,
           int source_count)
    : index_(source_count, kUnknown) {
  std::vector<const Source*> roots;
  std::vector<std::vector<const Source*>> children(source_count);
  for (const Guard& guard : guards) {
    collect(guard.source, roots, children);
    if (guard.other != nullptr) collect(guard.other, roots, children);
    for (const Source* member : guard.group) collect(member, roots, children);
  }
  place_roots(roots, children);
  for (const Guard& guard : guards) attach(guard);
  for (const Source* input : inputs) {
    if (input == nullptr) {
      input_tensors.push_back(-1);
      continue;
    }
    const int node = index_[input->id];
    BRAZE_CHECK(node >= 0 && nodes[node].tensor >= 0, "graph input ", to_string(input),
                " has no tensor guard");
    input_tensors.push_back(nodes[node].tensor);
  }
}

void Tree::collect(const Source* source, std::vector<const Source*>& roots,
                   std::vector<std::vector<const Source*>>& children) {
  while (index_[source->id] == kUnknown) {
    index_[source->id] = kCollected;
    if (source->base == nullptr) {
      roots.push_back(source);
      return;
    }
    children[source->base->id].push_back(source);
    source = source->base;
  }
}

void Tree::place_roots(const std::vector<const Source*>& roots,
                       const std::vector<std::vector<const Source*>>& children) {
  for (const Source* root : roots)
    if (root->kind != SourceKind::kArgument) place(root, -1, children);
  ranges.push_back({0, static_cast<int>(nodes.size()), -1});
  for (const Source* root : roots) {
    if (root->kind != SourceKind::kArgument) continue;
    const int begin = static_cast<int>(nodes.size());
    place(root, -1, children);
    ranges.push_back(
        {begin, static_cast<int>(nodes.size()), static_cast<int>(PyLong_AsLong(root->key.get()))});
  }
}

void Tree::place(const Source* source, int parent,
                 const std::vector<std::vector<const Source*>>& children) {
  const int index = static_cast<int>(nodes.size());
  index_[source->id] = index;
  Node& node = nodes.emplace_back();
  node.source = source;
  node.parent = parent;
  if (parent >= 0) {
    nodes[parent].children.push_back(index);
    nodes[parent].child_kinds |= 1u << static_cast<int>(source->kind);
  }
  for (const Source* child : children[source->id]) place(child, index, children);
  nodes[index].end = static_cast<int>(nodes.size());
}

void Tree::attach(const Guard& guard) {
  const int index = index_[guard.source->id];
  if (guard.other != nullptr) {
    pairs.push_back({&guard, index, index_[guard.other->id]});
    return;
  }
  if (guard.kind == GuardKind::kDistinct) {
    DistinctGuard& made = distinct.emplace_back(DistinctGuard{&guard, {}});
    for (const Source* member : guard.group) made.nodes.push_back(index_[member->id]);
    return;
  }
  Node& node = nodes[index];
  node.guard_kinds |= 1u << static_cast<int>(guard.kind);
  if (guard.kind != GuardKind::kTensor) {
    node.guards.push_back(&guard);
  } else if (node.tensor < 0) {
    node.tensor = static_cast<int>(tensors.size());
    tensors.push_back({nullptr, nullptr,
                       TensorSpec(guard.expected.get(), guard.free_sizes, guard.free_strides),
                       index});
  }
}

bool Tree::guards_hold(const Node& node, PyObject* object) const {
  for (const Guard* guard : node.guards)
    if (!holds(*guard, object)) return false;
  return true;
}

bool Tree::resolve(int begin, int end, PyObject* function, PyObject* const* args, bool check,
                   std::vector<Ref>& fresh) const {
  fresh.clear();
  fresh.reserve(end - begin);
  for (int i = begin; i < end; ++i) {
    const Node& node = nodes[i];
    if (node.parent < 0) {
      fresh.push_back(resolve_root(node.source, function, args));
    } else {
      PyObject* base =
          node.parent >= begin ? fresh[node.parent - begin].get() : nodes[node.parent].object;
      fresh.push_back(base != nullptr ? resolve_step(node.source, base) : Ref());
    }
    if (check && !guards_hold(node, fresh.back().get())) return false;
  }
  return true;
}

void Tree::commit(int begin, std::vector<Ref>& fresh, std::vector<Ref>& dropped) {
  for (size_t i = 0; i < fresh.size(); ++i) {
    const int index = begin + static_cast<int>(i);
    set_object(index, fresh[i].get());
    if (nodes[index].held) dropped.push_back(std::move(nodes[index].held));
    nodes[index].held = std::move(fresh[i]);
  }
  fresh.clear();
}

}  // namespace braze::guard
