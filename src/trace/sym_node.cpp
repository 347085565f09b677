#include "trace/sym_node.h"

#include <c10/core/SymNodeImpl.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <variant>

#include "sym/expr.h"
#include "trace/fake_tensor.h"
#include "trace/kernel_scope.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

using sym::Int;
using sym::ShapeEnv;
using Nodes = at::ArrayRef<c10::SymNode>;

// A truth value that has not been asked for yet.
struct Condition {
  enum class Kind : uint8_t { kConstant, kEqual, kLess, kNot, kAnd, kOr };
  Kind kind = Kind::kConstant;
  bool constant = false;
  Int a, b;                                      // kEqual, kLess
  std::shared_ptr<const Condition> left, right;  // kNot (left), kAnd, kOr

  bool guard(ShapeEnv& shapes) const {
    switch (kind) {
      case Kind::kConstant:
        return constant;
      case Kind::kEqual:
        return shapes.guard_eq(a, b);
      case Kind::kLess:
        return shapes.guard_lt(a, b);
      case Kind::kNot:
        return !left->guard(shapes);
      case Kind::kAnd:
        return left->guard(shapes) && right->guard(shapes);
      case Kind::kOr:
        return left->guard(shapes) || right->guard(shapes);
    }
    BRAZE_UNREACHABLE("condition");
  }
  // Makes sure that it is `wanted`; false: it is not.
  bool expect(ShapeEnv& shapes, bool wanted = true) const {
    using sym::Relation;
    switch (kind) {
      case Kind::kConstant:
        return constant == wanted;
      case Kind::kEqual:
        return shapes.expect(wanted ? Relation::kEqual : Relation::kNotEqual, a, b);
      case Kind::kLess:
        return shapes.expect(wanted ? Relation::kLess : Relation::kNotLess, a, b);
      case Kind::kNot:
        return left->expect(shapes, !wanted);
      case Kind::kAnd:
        if (wanted) return left->expect(shapes) && right->expect(shapes);
        return guard(shapes) == wanted;
      case Kind::kOr:
        if (!wanted) return left->expect(shapes, false) && right->expect(shapes, false);
        return guard(shapes) == wanted;
    }
    BRAZE_UNREACHABLE("condition");
  }
  // For code that does well either way, but not always the same: whether a reshaped tensor is a
  // view may hang on a size being 1.
  bool guard_or(ShapeEnv& shapes, bool otherwise) const {
    try {
      return guard(shapes);
    } catch (const sym::Undecidable&) {
      TraceState* state = current_state();
      if (state && !thread_state.in_kernel)
        state->assumed.push_back([condition = *this, &shapes, otherwise] {
          if (!condition.expect(shapes, otherwise)) throw sym::Undecidable(condition.text());
        });
      return otherwise;
    }
  }
  std::string text() const {
    switch (kind) {
      case Kind::kConstant:
        return constant ? "True" : "False";
      case Kind::kEqual:
        return sym::to_string(a) + " == " + sym::to_string(b);
      case Kind::kLess:
        return sym::to_string(a) + " < " + sym::to_string(b);
      case Kind::kNot:
        return "not (" + left->text() + ")";
      case Kind::kAnd:
        return "(" + left->text() + ") and (" + right->text() + ")";
      case Kind::kOr:
        return "(" + left->text() + ") or (" + right->text() + ")";
    }
    BRAZE_UNREACHABLE("condition");
  }
};

Condition constant_condition(bool value) {
  Condition condition;
  condition.constant = value;
  return condition;
}

Condition comparison(Condition::Kind kind, Int a, Int b) {
  if (a.is_constant() && b.is_constant())
    return constant_condition(kind == Condition::Kind::kEqual ? a.constant() == b.constant()
                                                              : a.constant() < b.constant());
  if (a == b) return constant_condition(kind == Condition::Kind::kEqual);
  Condition condition;
  condition.kind = kind;
  condition.a = a;
  condition.b = b;
  return condition;
}

Condition combine(Condition::Kind kind, const Condition& left, const Condition& right = {}) {
  if (kind == Condition::Kind::kNot && left.kind == Condition::Kind::kConstant)
    return constant_condition(!left.constant);
  Condition condition;
  condition.kind = kind;
  condition.left = std::make_shared<const Condition>(left);
  condition.right = std::make_shared<const Condition>(right);
  return condition;
}

// The node of a value: one for each expression while its trace is under way.
c10::SymNode node_of(Int value, ShapeEnv& shapes);

class SymNode final : public c10::SymNodeImpl {
 public:
  // Null for a node of another kind.
  static SymNode* ours(c10::SymNodeImpl* node) {
    return typeid(*node) == typeid(SymNode) ? static_cast<SymNode*>(node) : nullptr;
  }

  SymNode(ShapeEnv& shapes, Int value)
      : owner_(shapes.shared_from_this()), shapes_(shapes), value_(value) {}
  SymNode(ShapeEnv& shapes, Condition value)
      : owner_(shapes.shared_from_this()), shapes_(shapes), value_(std::move(value)) {}

  Int integer() const { return std::get<Int>(value_); }
  const Condition& condition() const { return std::get<Condition>(value_); }

  bool is_int() override { return std::holds_alternative<Int>(value_); }
  bool is_bool() override { return !is_int(); }
  bool is_float() override { return false; }
  bool has_hint() override { return !is_int() || !shapes_.mentions_unbacked(integer()); }
  bool is_symbolic() override { return true; }
  bool is_constant() override {
    return is_int() ? integer().is_constant() : condition().kind == Condition::Kind::kConstant;
  }
  std::optional<int64_t> constant_int() override {
    if (!is_int() || !integer().is_constant()) return std::nullopt;
    return integer().constant();
  }
  std::optional<bool> constant_bool() override {
    if (is_int() || !is_constant()) return std::nullopt;
    return condition().constant;
  }
  std::optional<int64_t> maybe_as_int() override { return constant_int(); }
  // Code that turns it into text takes it for a number; a guard follows from that.
  std::string str() override {
    if (is_int()) return std::to_string(shapes_.guard_int(integer()));
    return condition().guard(shapes_) ? "True" : "False";
  }
  // Nodes do not change.
  c10::SymNode clone() override {
    return c10::SymNode(c10::intrusive_ptr<SymNodeImpl>::reclaim_copy(this));
  }
  SymNode(const SymNode&) = delete;

  c10::SymNode wrap_int(int64_t value) override { return make(Int(value)); }
  c10::SymNode wrap_bool(bool value) override { return make(constant_condition(value)); }

  ShapeEnv& shapes() const { return shapes_; }

  c10::SymNode add(const c10::SymNode& other) override { return make(integer() + of(other)); }
  c10::SymNode sub(const c10::SymNode& other) override { return make(integer() - of(other)); }
  c10::SymNode mul(const c10::SymNode& other) override { return make(integer() * of(other)); }
  c10::SymNode neg() override { return make(Int(0) - integer()); }
  c10::SymNode floordiv(const c10::SymNode& other) override { return divide(of(other)); }
  c10::SymNode int_floordiv(const c10::SymNode& other) override { return divide(of(other)); }
  c10::SymNode mod(const c10::SymNode& other) override {
    const Int divisor = of(other);
    check_divisor(divisor);
    return make(sym::mod(integer(), divisor));
  }
  c10::SymNode sym_min(const c10::SymNode& other) override {
    return make(sym::min(integer(), of(other)));
  }
  c10::SymNode sym_max(const c10::SymNode& other) override {
    return make(sym::max(integer(), of(other)));
  }

  c10::SymNode eq(const c10::SymNode& other) override { return make(equal(other)); }
  c10::SymNode ne(const c10::SymNode& other) override {
    return make(combine(Condition::Kind::kNot, equal(other)));
  }
  c10::SymNode lt(const c10::SymNode& other) override {
    return make(comparison(Condition::Kind::kLess, integer(), of(other)));
  }
  c10::SymNode gt(const c10::SymNode& other) override {
    return make(comparison(Condition::Kind::kLess, of(other), integer()));
  }
  c10::SymNode le(const c10::SymNode& other) override {
    return make(
        combine(Condition::Kind::kNot, comparison(Condition::Kind::kLess, of(other), integer())));
  }
  c10::SymNode ge(const c10::SymNode& other) override {
    return make(
        combine(Condition::Kind::kNot, comparison(Condition::Kind::kLess, integer(), of(other))));
  }
  c10::SymNode sym_and(const c10::SymNode& other) override {
    return make(combine(Condition::Kind::kAnd, condition(), condition_of(other)));
  }
  c10::SymNode sym_or(const c10::SymNode& other) override {
    return make(combine(Condition::Kind::kOr, condition(), condition_of(other)));
  }
  c10::SymNode sym_not() override { return make(combine(Condition::Kind::kNot, condition())); }

  int64_t guard_int(const char*, int64_t) override { return shapes_.guard_int(integer()); }
  int64_t int_() override { return shapes_.guard_int(integer()); }
  bool guard_bool(const char*, int64_t) override { return condition().guard(shapes_); }
  bool bool_() override { return condition().guard(shapes_); }
  bool expect_true(const char*, int64_t) override { return condition().expect(shapes_); }
  bool guard_or_false(const char*, int64_t) override {
    return condition().guard_or(shapes_, false);
  }
  bool guard_or_true(const char*, int64_t) override { return condition().guard_or(shapes_, true); }
  bool guard_size_oblivious(const char*, int64_t) override {
    return condition().guard_or(shapes_, condition().kind == Condition::Kind::kNot);
  }

  // Questions about the layout of a tensor with these sizes and strides.
  c10::SymNode is_contiguous(Nodes sizes, Nodes strides) override {
    std::vector<size_t> order(sizes.size());
    std::iota(order.rbegin(), order.rend(), 0);
    return wrap_bool(is_dense(sizes, strides, order));
  }
  c10::SymNode is_channels_last_contiguous_2d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 4 && is_dense(sizes, strides, {1, 3, 2, 0}));
  }
  c10::SymNode is_channels_last_contiguous_3d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 5 && is_dense(sizes, strides, {1, 4, 3, 2, 0}));
  }
  c10::SymNode is_channels_last_strides_2d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 4 && has_channels_last_order(sizes, strides, {1, 3, 2, 0}));
  }
  c10::SymNode is_channels_last_strides_3d(Nodes sizes, Nodes strides) override {
    return wrap_bool(sizes.size() == 5 && has_channels_last_order(sizes, strides, {1, 4, 3, 2, 0}));
  }
  c10::SymNode is_non_overlapping_and_dense(Nodes sizes, Nodes strides) override {
    std::vector<size_t> order(sizes.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
      return of(strides[i]).hint() < of(strides[j]).hint();
    });
    return wrap_bool(is_dense(sizes, strides, order));
  }

 private:
  c10::SymNode make(Condition value) {
    return c10::make_intrusive<SymNode>(shapes_, std::move(value));
  }
  c10::SymNode make(Int value) { return node_of(value, shapes_); }
  Int of(const c10::SymNode& node) const {
    if (auto* own = ours(node.get())) return own->integer();
    auto constant = node->constant_int();
    BRAZE_CHECK(constant, "a symbolic size of another tracer: ", node->str());
    return *constant;
  }
  Condition condition_of(const c10::SymNode& node) const {
    if (auto* own = ours(node.get())) return own->condition();
    auto constant = node->constant_bool();
    BRAZE_CHECK(constant, "a symbolic condition of another tracer: ", node->str());
    return constant_condition(*constant);
  }
  Condition equal(const c10::SymNode& other) {
    if (is_int()) return comparison(Condition::Kind::kEqual, integer(), of(other));
    return constant_condition(condition().guard(shapes_) == condition_of(other).guard(shapes_));
  }
  void check_divisor(Int divisor) {
    TORCH_CHECK(!shapes_.guard_eq(divisor, 0), "division of a size by zero");
  }
  c10::SymNode divide(Int divisor) {
    check_divisor(divisor);
    return make(sym::floordiv(integer(), divisor));
  }
  // As c10::is_channels_last_strides_2d: strides grow in that order; what is ambiguous is
  // row-major.
  bool has_channels_last_order(Nodes sizes, Nodes strides, const std::vector<size_t>& order) {
    if (shapes_.guard_eq(of(strides[1]), 0)) return false;
    Int least = 0;
    for (size_t i : order) {
      const Int size = of(sizes[i]), stride = of(strides[i]);
      if (shapes_.known(sym::Relation::kEqual, size, 0).value_or(false) ||
          shapes_.guard_lt(stride, least))
        return false;
      if (i == 0 && shapes_.guard_eq(least, of(strides[1]))) return false;
      least = shapes_.guard_lt(1, size) ? stride * size : stride;
    }
    return true;
  }
  // Whether the strides are dense when dimensions are walked from the innermost. No is an answer
  // for sizes of 2 and more: a dimension of size 1 may have any stride, and so may an empty tensor.
  bool is_dense(Nodes sizes, Nodes strides, const std::vector<size_t>& order) {
    Int expected = 1;
    for (size_t i : order) {
      const Int size = of(sizes[i]);
      if (size == Int(1)) continue;
      if (!shapes_.guard_eq(of(strides[i]), expected)) {
        expect_extent(size, 2);
        for (const c10::SymNode& other : sizes) expect_extent(of(other), 1);
        return false;
      }
      expected = expected * (shapes_.mentions_unbacked(size) ? sym::max(size, 1) : size);
    }
    return true;
  }
  // Asserts it of a size that comes from data.
  void expect_extent(Int size, int64_t least) {
    if (!shapes_.mentions_unbacked(size)) return;
    if (!shapes_.expect(sym::Relation::kNotLess, size, least))
      throw sym::Undecidable(sym::to_string(size) + " < " + std::to_string(least));
  }

  std::shared_ptr<ShapeEnv> owner_;
  ShapeEnv& shapes_;
  std::variant<Int, Condition> value_;
};

c10::SymNode node_of(Int value, ShapeEnv& shapes) {
  TraceState* state = current_state();
  if (value.is_constant() || !state || &state->shapes != &shapes)
    return c10::make_intrusive<SymNode>(shapes, value);
  const size_t id = value.expr()->id;
  std::vector<c10::SymNode>& nodes = state->size_nodes;
  if (nodes.size() <= id) nodes.resize(std::max(id + 1, 2 * nodes.size()));
  if (!nodes[id]) nodes[id] = c10::make_intrusive<SymNode>(shapes, value);
  return nodes[id];
}

// The environment of the symbols in one of the two; null if both are numbers.
ShapeEnv* shapes_of(const c10::SymInt& a, const c10::SymInt& b) {
  for (const c10::SymInt* value : {&a, &b})
    if (value->is_heap_allocated())
      if (SymNode* node = SymNode::ours(value->toSymNodeImplUnowned())) return &node->shapes();
  return nullptr;
}

template <class Operation>
c10::SymInt compute(const c10::SymInt& a, const c10::SymInt& b, const Operation& operation) {
  if (!a.is_heap_allocated() && !b.is_heap_allocated())
    return operation(a.as_int_unchecked(), b.as_int_unchecked());
  const Int value = operation(from_symint(a), from_symint(b));
  if (value.is_constant()) return value.constant();
  return to_symint(value, *shapes_of(a, b));
}

}  // namespace

c10::SymInt times(const c10::SymInt& a, const c10::SymInt& b) {
  return compute(a, b, [](auto x, auto y) { return x * y; });
}

c10::SymInt plus(const c10::SymInt& a, const c10::SymInt& b) {
  return compute(a, b, [](auto x, auto y) { return x + y; });
}

c10::SymInt minus(const c10::SymInt& a, const c10::SymInt& b) {
  return compute(a, b, [](auto x, auto y) { return x - y; });
}

bool equal(const c10::SymInt& a, const c10::SymInt& b) {
  if (!a.is_heap_allocated() && !b.is_heap_allocated())
    return a.as_int_unchecked() == b.as_int_unchecked();
  const Int x = from_symint(a), y = from_symint(b);
  if (x == y) return true;
  ShapeEnv* shapes = shapes_of(a, b);
  return shapes && shapes->guard_eq(x, y);
}

bool less(const c10::SymInt& a, const c10::SymInt& b) {
  if (!a.is_heap_allocated() && !b.is_heap_allocated())
    return a.as_int_unchecked() < b.as_int_unchecked();
  const Int x = from_symint(a), y = from_symint(b);
  if (x == y) return false;
  ShapeEnv* shapes = shapes_of(a, b);
  return shapes ? shapes->guard_lt(x, y) : x.constant() < y.constant();
}

c10::SymInt to_symint(Int value, ShapeEnv& shapes) {
  if (value.is_constant()) return value.constant();
  return c10::SymInt(node_of(value, shapes));
}

Int from_symint(const c10::SymInt& value) {
  if (!value.is_heap_allocated()) return value.as_int_unchecked();
  if (auto* node = SymNode::ours(value.toSymNodeImplUnowned())) return node->integer();
  if (auto constant = value.toSymNodeImplUnowned()->constant_int()) return *constant;
  return value.guard_int(__FILE__, __LINE__);
}

sym::Dims from_symints(c10::SymIntArrayRef values) {
  sym::Dims dims;
  dims.reserve(values.size());
  for (const c10::SymInt& value : values) dims.push_back(from_symint(value));
  return dims;
}

at::Tensor specialised(const at::Tensor& tensor) {
  const FakeTensorImpl* fake = as_fake(tensor);
  if (!fake || !fake->has_symbolic_sizes_strides()) return tensor;
  auto guard_all = [](c10::SymIntArrayRef values) {
    std::vector<int64_t> result;
    for (const c10::SymInt& value : values) result.push_back(value.guard_int(__FILE__, __LINE__));
    return result;
  };
  auto twin = c10::make_intrusive<FakeTensorImpl>(c10::Storage(fake->unsafe_storage()),
                                                  fake->dtype(), fake->fake_device());
  static_cast<c10::TensorImpl&>(*twin).set_sizes_and_strides(
      guard_all(tensor.sym_sizes()), guard_all(tensor.sym_strides()),
      tensor.sym_storage_offset().guard_int(__FILE__, __LINE__));
  twin->value = fake->value;
  twin->serial = fake->serial;
  twin->specialised_from = tensor.unsafeGetTensorImpl();
  return at::Tensor(std::move(twin));
}

}  // namespace braze::trace
