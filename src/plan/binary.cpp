#include <bit>
#include <cstring>
#include <type_traits>
#include <unordered_map>

#include "base/error.h"
#include "base/hash.h"
#include "plan/module.h"

// Layout: magic, version, body, 32 hexadecimal digits of the content hash of all before. Numbers
// are eight bytes (tags and flags one), little-endian; sequences carry their length first. Reading
// and writing go through one description of the fields of each struct (`fields`), so that they
// cannot drift apart.
namespace braze::plan {
namespace {

constexpr std::string_view kMagic = "BRAZEMOD";
constexpr int64_t kVersion = 8;
constexpr size_t kHashDigits = 32;
enum IntTag : uint8_t { kConstant, kKnownExpr, kNewExpr };

[[noreturn]] void damaged(const std::string& what) {
  throw UserError("a stored module cannot be read: " + what +
                  ". Remove the file or clear the cache; it will be made again.");
}

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};

class Writer {
 public:
  template <class... T>
  void operator()(const T&... values) {
    (put(values), ...);
  }
  std::string take() { return std::move(bytes_); }
  // Expressions written from now on are of another arena.
  void forget_exprs() { exprs_.clear(); }

 private:
  void byte(uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void word(uint64_t value) {
    for (int i = 0; i < 8; ++i) byte(static_cast<uint8_t>(value >> (8 * i)));
  }

  template <class T>
  void put(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      byte(value);
    } else if constexpr (std::is_enum_v<T>) {
      byte(static_cast<uint8_t>(value));
    } else if constexpr (std::is_integral_v<T>) {
      word(static_cast<uint64_t>(static_cast<int64_t>(value)));
    } else if constexpr (std::is_same_v<T, double>) {
      word(std::bit_cast<uint64_t>(value));
    } else if constexpr (IsVector<T>::value) {
      word(value.size());
      for (const typename T::value_type& element : value) put(element);
    } else {
      fields(*this, value);
    }
  }
  void put(const std::string& value) {
    word(value.size());
    bytes_ += value;
  }
  void put(const SharedText& value) { put(value.str()); }
  // An expression is written where it is met first, its operands before it; then by its number.
  void put(const sym::Int& value) {
    if (value.is_constant()) {
      byte(kConstant);
      word(static_cast<uint64_t>(value.constant()));
      return;
    }
    const sym::Expr& expr = *value.expr();
    if (auto known = exprs_.find(&expr); known != exprs_.end()) {
      byte(kKnownExpr);
      put(known->second);
      return;
    }
    byte(kNewExpr);
    (*this)(static_cast<uint8_t>(expr.kind), expr.hint, expr.symbol, expr.constant);
    word(expr.terms.size());
    for (const auto& [term, coefficient] : expr.terms) (*this)(sym::Int(term), coefficient);
    (*this)(expr.a, expr.b);
    exprs_.emplace(&expr, static_cast<int64_t>(exprs_.size()));
  }
  void put(const std::complex<double>& value) { (*this)(value.real(), value.imag()); }
  void put(const std::optional<SlotId>& value) {
    byte(value.has_value());
    if (value) put(*value);
  }
  template <class... T>
  void put(const std::variant<T...>& value) {
    byte(static_cast<uint8_t>(value.index()));
    std::visit([this](const auto& held) { put(held); }, value);
  }

  std::string bytes_;
  std::unordered_map<const sym::Expr*, int64_t> exprs_;
};

// The number of enumerators; a tag at or above it is damage.
constexpr int count_of(SlotKind) { return static_cast<int>(SlotKind::kView) + 1; }
constexpr int count_of(graph::DType) { return static_cast<int>(graph::DType::kComplex128) + 1; }
constexpr int count_of(graph::Device::Type) {
  return static_cast<int>(graph::Device::Type::kMeta) + 1;
}
constexpr int count_of(graph::MemoryFormat) {
  return static_cast<int>(graph::MemoryFormat::kChannelsLast3d) + 1;
}
constexpr int count_of(graph::Layout) { return 1; }
#define X(name, word) +1
constexpr int count_of(graph::InputKind) { return BRAZE_INPUT_KINDS(X); }
constexpr int count_of(graph::OutputKind) { return BRAZE_OUTPUT_KINDS(X); }
constexpr int count_of(graph::ViewOrigin) { return BRAZE_VIEW_ORIGINS(X); }
constexpr int count_of(graph::History) { return BRAZE_HISTORIES(X); }
#undef X
constexpr int count_of(Language) { return static_cast<int>(Language::kTriton) + 1; }
constexpr int count_of(OnFailure) { return static_cast<int>(OnFailure::kRaise) + 1; }
constexpr int count_of(sym::Relation) { return static_cast<int>(sym::Relation::kNotLess) + 1; }
constexpr int count_of(Symbol::Kind) { return static_cast<int>(Symbol::Kind::kScalar) + 1; }

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  template <class... T>
  void operator()(T&... values) {
    (get(values), ...);
  }
  bool at_end() const { return bytes_.empty(); }
  // The symbols of the expressions that follow are those of `arena`.
  void set_arena(sym::ExprArena* arena) {
    arena_ = arena;
    exprs_.clear();
  }

 private:
  std::string_view take(size_t count) {
    if (count > bytes_.size()) damaged("it ends too early");
    std::string_view front = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return front;
  }
  uint8_t byte() { return static_cast<uint8_t>(take(1)[0]); }
  uint64_t word() {
    std::string_view raw = take(8);
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value |= uint64_t{static_cast<uint8_t>(raw[i])} << (8 * i);
    return value;
  }
  size_t length() {
    uint64_t value = word();
    // Every element takes at least one byte, but for empty structs, of which there are no
    // sequences.
    if (value > bytes_.size()) damaged("a sequence is longer than the file");
    return static_cast<size_t>(value);
  }

  template <class T>
  void get(T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      uint8_t raw = byte();
      if (raw > 1) damaged("a flag is neither 0 nor 1");
      value = raw != 0;
    } else if constexpr (std::is_enum_v<T>) {
      uint8_t raw = byte();
      if (raw >= count_of(T{})) damaged("an unknown tag");
      value = static_cast<T>(raw);
    } else if constexpr (std::is_integral_v<T>) {
      int64_t wide = static_cast<int64_t>(word());
      value = static_cast<T>(wide);
      if (static_cast<int64_t>(value) != wide) damaged("a number out of range");
    } else if constexpr (std::is_same_v<T, double>) {
      value = std::bit_cast<double>(word());
    } else if constexpr (IsVector<T>::value) {
      size_t count = length();
      value.clear();
      for (size_t i = 0; i < count; ++i) {
        typename T::value_type element{};
        get(element);
        value.push_back(std::move(element));
      }
    } else {
      fields(*this, value);
    }
  }
  void get(std::string& value) { value = take(length()); }
  void get(SharedText& value) { value = std::string(take(length())); }
  void get(sym::Int& value) {
    switch (byte()) {
      case kConstant:
        value = sym::Int(static_cast<int64_t>(word()));
        return;
      case kKnownExpr: {
        const uint64_t number = word();
        if (number >= exprs_.size()) damaged("an unknown expression");
        value = exprs_[number];
        return;
      }
      case kNewExpr:
        value = new_expr();
        exprs_.push_back(value);
        return;
      default:
        damaged("an unknown tag");
    }
  }
  sym::Int new_expr() {
    sym::Expr expr;
    uint8_t kind = 0;
    (*this)(kind, expr.hint, expr.symbol, expr.constant);
    if (kind > static_cast<uint8_t>(sym::ExprKind::kMax)) damaged("an unknown tag");
    expr.kind = static_cast<sym::ExprKind>(kind);
    if (expr.kind == sym::ExprKind::kSymbol) {
      if (!arena_ || expr.symbol < 0 || expr.symbol >= arena_->symbol_count())
        damaged("an unknown symbol");
      word();  // no terms, and no operands
      sym::Int none;
      (*this)(none, none);
      return sym::Int(arena_->symbol_expr(expr.symbol));
    }
    for (size_t count = length(); count > 0; --count) {
      sym::Int term;
      int64_t coefficient = 0;
      (*this)(term, coefficient);
      if (term.is_constant()) damaged("a number as a term");
      expr.terms.emplace_back(term.expr(), coefficient);
    }
    (*this)(expr.a, expr.b);
    if (!arena_) damaged("an expression without symbols");
    return sym::Int(arena_->intern(std::move(expr)));
  }
  void get(std::complex<double>& value) {
    double real = 0, imag = 0;
    (*this)(real, imag);
    value = {real, imag};
  }
  void get(std::optional<SlotId>& value) {
    bool present = false;
    get(present);
    if (present) get(value.emplace());
  }
  template <class... T>
  void get(std::variant<T...>& value) {
    alternative<0>(value, byte());
  }
  template <size_t I, class... T>
  void alternative(std::variant<T...>& value, size_t tag) {
    if constexpr (I < sizeof...(T)) {
      if (tag == I) {
        get(value.template emplace<I>());
      } else {
        alternative<I + 1>(value, tag);
      }
    } else {
      damaged("an unknown alternative");
    }
  }

  std::string_view bytes_;
  sym::ExprArena* arena_ = nullptr;
  std::vector<sym::Int> exprs_;
};

// Matches both `T` and `const T`, for the reader and the writer.
template <class Given, class T>
concept Is = std::is_same_v<std::remove_const_t<Given>, T>;

template <class A>
void fields(A&, Is<graph::None> auto&) {}
template <class A>
void fields(A& a, Is<graph::OptionalRefs<SlotId>> auto& x) {
  a(x.refs);
}
template <class A>
void fields(A& a, Is<graph::Device> auto& x) {
  a(x.type, x.index);
}
template <class A>
void fields(A& a, Is<graph::TensorType> auto& x) {
  a(x.dtype, x.device, x.sizes, x.strides, x.offset);
}
template <class A>
void fields(A& a, Is<graph::Origin> auto& x) {
  a(x.file, x.line, x.function, x.module_path, x.call);
}
template <class A>
void fields(A& a, Is<Slot> auto& x) {
  a(x.kind, x.type, x.byte_offset, x.bytes, x.base, x.place, x.number);
}
template <class A>
void fields(A& a, Is<Chunks> auto& x) {
  a(x.extent, x.grain);
}
template <class A>
void fields(A& a, Is<Grid> auto& x) {
  for (auto& count : x.blocks) a(count);
  for (auto& count : x.threads) a(count);
  a(x.shared_bytes);
}
template <class A>
void fields(A& a, Is<KernelStep> auto& x) {
  a(x.kernel, x.args, x.launch, x.origin);
}
template <class A>
void fields(A& a, Is<ExternStep> auto& x) {
  a(x.op, x.args, x.results, x.origin);
}
template <class A>
void fields(A& a, Is<CopyStep> auto& x) {
  a(x.target, x.source);
}
template <class A>
void fields(A& a, Is<FreeStep> auto& x) {
  a(x.slot);
}
template <class A>
void fields(A& a, Is<AllocateStep> auto& x) {
  a(x.slot);
}
template <class A>
void fields(A& a, Is<Callee> auto& x) {
  a(x.function, x.args);
}
template <class A>
void fields(A& a, Is<CallStep> auto& x) {
  a(x.callee, x.results);
}
template <class A>
void fields(A& a, Is<BranchStep> auto& x) {
  a(x.predicate, x.yes, x.no, x.results);
}
template <class A>
void fields(A& a, Is<LoopStep> auto& x) {
  a(x.condition, x.body, x.carried, x.results);
}
template <class A>
void fields(A& a, Is<ReadStep> auto& x) {
  a(x.slot, x.dim, x.symbol);
}
template <class A>
void fields(A& a, Is<ExpectStep> auto& x) {
  a(x.slot);
}
template <class A>
void fields(A& a, Is<AssertStep> auto& x) {
  a(x.condition);
}
template <class A>
void fields(A& a, Is<sym::Condition> auto& x) {
  a(x.relation, x.a, x.b);
}
template <class A>
void fields(A& a, Is<KernelSignature> auto& x) {
  a(x.name, x.code, x.written, x.sizes, x.alignment);
}
template <class A>
void fields(A& a, Is<Symbol> auto& x) {
  a(x.name, x.hint, x.low, x.high, x.kind, x.input, x.index);
}
template <class A>
void fields(A& a, Is<Code> auto& x) {
  a(x.language, x.text, x.flags);
}
template <class A>
void fields(A& a, Is<Constant> auto& x) {
  a(x.type, x.bytes);
}
template <class A>
void fields(A& a, Is<Input> auto& x) {
  a(x.kind, x.constant);
}
template <class A>
void fields(A& a, Is<graph::OutputState> auto& x) {
  a(x.is_made, x.is_inference, x.is_view, x.view, x.is_alias, x.history);
}
template <class A>
void fields(A& a, Is<graph::OutputRole> auto& x) {
  a(x.kind, x.state);
}
// A function's symbols are written before these.
template <class A>
void fields(A& a, Is<Function> auto& x) {
  a(x.on_failure, x.slots, x.input_count, x.device, x.arena_bytes, x.steps, x.outputs, x.kernels,
    x.origins, x.limits, x.conditions);
}

std::string header() {
  Writer writer;
  writer(kVersion);
  return std::string(kMagic) + writer.take();
}

std::string version_of(std::string_view bytes) {
  int64_t version = 0;
  Reader reader(bytes.substr(kMagic.size()));
  reader(version);
  return std::to_string(version);
}

}  // namespace

std::string serialize(const Module& module) {
  Writer writer;
  writer(module.target, module.code, module.inputs, module.outputs, module.constants);
  writer(static_cast<int64_t>(module.functions.size()));
  for (const Function& function : module.functions) {
    writer.forget_exprs();
    writer(function.symbols, function);
  }
  std::string bytes = header() + writer.take();
  bytes += content_hash(bytes);
  return bytes;
}

namespace {

Function read_function(Reader& reader) {
  Function function;
  reader(function.symbols);
  if (function.is_symbolic()) {
    function.arena = std::make_shared<sym::ExprArena>();
    for (const Symbol& symbol : function.symbols)
      function.arena->symbol(symbol.name, symbol.hint, {symbol.low, symbol.high});
  }
  reader.set_arena(function.arena.get());
  reader(function);
  return function;
}

}  // namespace

Module deserialize(std::string_view bytes, std::string_view target) {
  const std::string expected = header();
  if (bytes.size() < expected.size() + kHashDigits) damaged("it is too short");
  if (!bytes.starts_with(kMagic)) damaged("it is no module");
  if (!bytes.starts_with(expected))
    damaged("it is of version " + version_of(bytes) + ", this Braze reads version " +
            std::to_string(kVersion));
  std::string_view hashed = bytes.substr(0, bytes.size() - kHashDigits);
  if (content_hash(hashed) != bytes.substr(hashed.size())) damaged("its checksum does not match");
  Module module;
  Reader reader(hashed.substr(expected.size()));
  int64_t functions = 0;
  reader(module.target);
  if (module.target != target)
    damaged("it was compiled for \"" + module.target + "\", and this is \"" + std::string(target) +
            "\"");
  reader(module.code, module.inputs, module.outputs, module.constants, functions);
  // A reader at its end throws before this goes on for long.
  for (int64_t i = 0; i < functions; ++i) module.functions.push_back(read_function(reader));
  if (!reader.at_end()) damaged("bytes are left over");
  try {
    verify(module);
  } catch (const InternalError& error) {
    damaged(error.what());
  }
  return module;
}

}  // namespace braze::plan
