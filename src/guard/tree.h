// Inside of guard/: the sources of one GuardSet as a tree, with what each resolved to last.
#pragma once

#include <span>
#include <vector>

#include "guard/guard.h"
#include "guard/tensor_spec.h"

namespace braze::guard {

struct Node {
  const Source* source = nullptr;
  int parent = -1;
  int end = 0;  // nodes are in preorder: the subtree is [index, end)
  int tensor = -1;
  uint32_t child_kinds = 0;                   // bits by SourceKind
  uint32_t guard_kinds = 0;                   // bits by GuardKind
  uint32_t first_guard = 0, guard_count = 0;  // Tree::guards_of()
  // What it resolved to at the last successful check; null: absent. Alive as long as the node's
  // container is as it was, or held: see flat_checks.h.
  PyObject* object = nullptr;
  cpython::Ref held;

  bool has_child(SourceKind kind) const { return (child_kinds >> static_cast<int>(kind) & 1) != 0; }
  bool has_guard(GuardKind kind) const { return (guard_kinds >> static_cast<int>(kind) & 1) != 0; }
  bool is_leaf() const { return child_kinds == 0; }
};

// The indices of a node's children, in order.
struct Children {
  struct Iterator {
    const Node* nodes;
    int index;
    int operator*() const { return index; }
    Iterator& operator++() {
      index = nodes[index].end;
      return *this;
    }
    bool operator!=(const Iterator& other) const { return index != other.index; }
  };
  const Node* nodes;
  int parent;
  Iterator begin() const { return {nodes, parent + 1}; }
  Iterator end() const { return {nodes, nodes[parent].end}; }
};

struct TensorNode {
  PyObject* object = nullptr;  // as in the node
  c10::TensorImpl* impl = nullptr;
  TensorSpec spec;
  int node;
};

struct PairGuard {
  const Guard* guard;
  int node, other;
};

struct GroupGuard {
  const Guard* guard;
  std::vector<int> nodes;  // of its group
};

// The nodes of one root argument, or of everything reached from the function and pinned objects.
struct Range {
  int begin = 0, end = 0;
  int argument = -1;
};

class Tree {
 public:
  // `guards` and `inputs` are those of a GuardSet; the tree points into `guards`.
  Tree(const Guards& guards, const std::vector<const Source*>& inputs, int source_count);

  std::vector<Node> nodes;
  std::vector<TensorNode> tensors;
  std::vector<PairGuard> pairs;
  std::vector<GroupGuard> groups;
  std::vector<Range> ranges;       // the static one first, it may be empty
  std::vector<int> input_tensors;  // by graph input: index into `tensors`, -1: a constant

  int node_of(const Source* source) const { return index_[source->id]; }
  Children children_of(int node) const { return {nodes.data(), node}; }
  // Those about its source alone, tensors apart.
  std::span<const Guard* const> guards_of(const Node& node) const {
    return std::span(guards_).subspan(node.first_guard, node.guard_count);
  }

  // Reads the nodes [begin, end) again into `fresh`, whose first entry is node `begin`. With
  // `check`, stops at the first guard (about one source, tensors apart) that fails.
  bool resolve(int begin, int end, PyObject* function, PyObject* const* args, bool check,
               std::vector<cpython::Ref>& fresh) const;
  // Takes over what `resolve` has read; former references go to `dropped`.
  void commit(int begin, std::vector<cpython::Ref>& fresh, std::vector<cpython::Ref>& dropped);
  void set_object(int node, PyObject* object) {
    nodes[node].object = object;
    if (nodes[node].tensor >= 0) tensors[nodes[node].tensor].object = object;
  }
  bool guards_hold(const Node& node, PyObject* object) const;

 private:
  // `sources`: each stands behind its base.
  void collect(const Source* source, std::vector<const Source*>& sources);
  void place(const std::vector<const Source*>& sources);
  void place_roots(const std::vector<const Source*>& sources, const std::vector<int>& sizes);
  void attach(const Guard& guard);
  void list_guards(const Guards& guards);

  std::vector<int> index_;            // by source id
  std::vector<const Guard*> guards_;  // of the first node, then of the second ...
};

}  // namespace braze::guard
