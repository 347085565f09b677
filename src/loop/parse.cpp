#include "sym/parse.h"

#include <charconv>
#include <cmath>
#include <map>

#include "loop/ir.h"

namespace braze::loop {
namespace {

const std::map<std::string, ExprKind, std::less<>>& kinds_by_name() {
  static const std::map<std::string, ExprKind, std::less<>> kinds = {
#define X(id, text, arity, is_comparison, cost) {text, ExprKind::k##id},
      BRAZE_LOOP_OPS(X)
#undef X
  };
  return kinds;
}

std::optional<ReduceOp> reduce_op(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ReduceOp::kWelford); ++i)
    if (to_string(static_cast<ReduceOp>(i)) == name) return static_cast<ReduceOp>(i);
  return std::nullopt;
}

std::optional<ScanOp> scan_op(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(ScanOp::kLogSumExp); ++i)
    if (to_string(static_cast<ScanOp>(i)) == name) return static_cast<ScanOp>(i);
  return std::nullopt;
}

constexpr StoreOp kStoreOps[] = {StoreOp::kSet, StoreOp::kAdd,  StoreOp::kMul, StoreOp::kMin,
                                 StoreOp::kMax, StoreOp::kLast, StoreOp::kPart};

class Parser {
 public:
  Parser(std::string_view text, ExprPool& pool, sym::ExprArena* arena)
      : text_(text), pool_(pool), arena_(arena) {}

  Kernel parse() {
    expect("kernel");
    skip_space();
    if (peek() != '(') kernel_.name = word();
    expect("(");
    if (!accept(")")) {
      do param();
      while (accept(","));
      expect(")");
    }
    if (accept("outer")) axes('o', kernel_.outer);
    if (accept("inner")) axes('i', kernel_.inner);
    expect("{");
    while (!accept("}")) statement();
    skip_space();
    if (at_ != text_.size()) fail("text after the kernel");
    return std::move(kernel_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    size_t line_begin = at_ == 0 ? 0 : text_.rfind('\n', at_ - 1);
    line_begin = line_begin == std::string_view::npos ? 0 : line_begin;
    size_t line_end = std::min(text_.find('\n', at_), text_.size());
    throw UserError("kernel text: " + what + " at \"" +
                    std::string(text_.substr(at_, std::min<size_t>(20, text_.size() - at_))) +
                    "\" in \"" + std::string(text_.substr(line_begin, line_end - line_begin)) +
                    "\"");
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }

  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

  bool accept(std::string_view token) {
    skip_space();
    if (text_.substr(at_, token.size()) != token) return false;
    size_t end = at_ + token.size();
    if (is_word(token.back()) && end < text_.size() && is_word(text_[end])) return false;
    at_ = end;
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail("expected '" + std::string(token) + "'");
  }

  std::string word() {
    skip_space();
    size_t begin = at_;
    while (is_word(peek())) ++at_;
    if (begin == at_) fail("expected a name");
    return std::string(text_.substr(begin, at_ - begin));
  }

  int64_t integer() {
    skip_space();
    int64_t value = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("expected an integer");
    at_ = static_cast<size_t>(end - text_.data());
    return value;
  }

  // A number, or an expression over symbols in braces.
  sym::Int size() {
    if (!accept("{")) return integer();
    std::string_view rest = text_.substr(at_);
    sym::Int value = sym::parse(rest, arena_);
    at_ = text_.size() - rest.size();
    expect("}");
    return value;
  }

  DType dtype() {
    std::string name = word();
    auto dtype = graph::parse_dtype(name);
    if (!dtype) fail("unknown dtype " + name);
    return *dtype;
  }

  // A letter and a number, as in "b3".
  int numbered(char letter) {
    skip_space();
    if (peek() != letter) fail(std::string("expected ") + letter + " and a number");
    ++at_;
    return static_cast<int>(integer());
  }

  void param() {
    if (numbered('b') != static_cast<int>(kernel_.params.size())) fail("parameters in order");
    expect(":");
    BufferParam param{.dtype = dtype()};
    param.written = accept("out");
    param.by_value = !param.written && accept("value");
    if (!param.written && !param.by_value) expect("in");
    param.aliased = accept("aliased");
    kernel_.params.push_back(param);
  }

  void axes(char letter, std::vector<Axis>& axes) {
    expect("(");
    do {
      if (numbered(letter) != static_cast<int>(axes.size())) fail("axes in order");
      expect("<");
      axes.push_back({size()});
    } while (accept(","));
    expect(")");
  }

  void statement() {
    for (StoreOp op : kStoreOps)
      if (accept(to_string(op))) return store(op);
    std::string name = word();
    expect("=");
    if (name[0] == 't') {
      named_[name] = expression();
      return;
    }
    if (name[0] != 'r') fail("expected store, r<n> = or t<n> =");
    Statement s;
    s.inner = true;
    s.reduced = std::stoi(name.substr(1));
    const std::string op = word();
    if (const auto known = scan_op(op))
      scan(s, *known);
    else
      reduction(s, op);
    expect("inner");
    kernel_.body.push_back(s);
  }

  void store(StoreOp op) {
    Statement s;
    s.store = op;
    expect("(");
    s.buffer = numbered('b');
    expect(",");
    s.index = expression();
    expect(",");
    s.value = expression();
    expect(")");
    s.inner = accept("inner");
    s.unordered = accept("unordered");
    if (s.is_part()) {
      expect("parts");
      s.parts = integer();
    }
    kernel_.body.push_back(s);
  }

  void reduction(Statement& s, const std::string& op) {
    s.kind = Statement::Kind::kReduce;
    auto known = reduce_op(op);
    if (!known) fail("unknown reduction " + op);
    s.op = *known;
    expect("(");
    s.value = expression();
    expect(")");
    s.accumulate = s.value->dtype;
    reductions_[s.reduced] = s;
  }

  // The value of a recurrence refers to it.
  void scan(Statement& s, ScanOp op) {
    s.kind = Statement::Kind::kScan;
    s.scan = op;
    expect("(");
    if (op != ScanOp::kRecurrence) {
      s.value = expression();
      s.accumulate = s.value->dtype;
      reductions_[s.reduced] = s;
      return expect(")");
    }
    s.initial = expression();
    s.accumulate = s.initial->dtype;
    reductions_[s.reduced] = s;
    expect(",");
    s.value = expression();
    expect(")");
  }

  ExprRef expression() {
    ExprRef sum = product();
    while (accept("+")) sum = pool_.add(sum, product());
    return sum;
  }

  ExprRef product() {
    ExprRef value = atom();
    for (;;) {
      ExprKind kind;
      if (accept("*")) {
        kind = ExprKind::kMul;
      } else if (accept("//")) {
        kind = ExprKind::kFloorDiv;
      } else if (accept("%")) {
        kind = ExprKind::kMod;
      } else {
        return value;
      }
      value = pool_.binary(kind, value, pool_.index(size()));
    }
  }

  ExprRef number() {
    bool negative = accept("-");
    double magnitude = 0;
    if (accept_prefix("inf")) {
      magnitude = INFINITY;
    } else if (accept_prefix("nan")) {
      magnitude = NAN;
    } else {
      int64_t whole = 0;
      const size_t begin_digits = at_;
      const char* begin = text_.data() + at_;
      const char* end = text_.data() + text_.size();
      auto parsed = std::from_chars(begin, end, magnitude);
      if (parsed.ec != std::errc()) fail("expected a number");
      size_t after = static_cast<size_t>(parsed.ptr - text_.data());
      bool suffixed = after < text_.size() && text_[after] == ':';
      if (negative) --begin;
      auto exact = std::from_chars(begin, end, whole);
      if (!suffixed && (exact.ec != std::errc() || exact.ptr != parsed.ptr))
        fail("a float needs a dtype");
      at_ = after;
      if (!suffixed) return pool_.integer(whole);
      ++at_;
      DType type = dtype();
      if (!graph::is_float(type)) return pool_.integer(whole, type);
      if (type != DType::kFloat64) {  // one rounding only
        float single = 0;
        std::from_chars(text_.data() + begin_digits, text_.data() + after, single);
        magnitude = single;
      }
      return pool_.constant(type, negative ? -magnitude : magnitude);
    }
    expect(":");
    return pool_.constant(dtype(), negative ? -magnitude : magnitude);
  }

  bool accept_prefix(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  ExprRef axis(size_t number, const std::vector<Axis>& axes, size_t first) {
    if (number >= axes.size()) fail("no such axis");
    return pool_.axis(static_cast<int>(first + number), axes[number].extent);
  }

  // o<n>, i<n>, r<n>, r<n>.<component>, t<n>; null where the name is none of these.
  ExprRef reference(const std::string& name) {
    if (name.size() < 2 || !std::isdigit(static_cast<unsigned char>(name[1])) || peek() == '(')
      return nullptr;
    size_t number = std::stoul(name.substr(1));
    switch (name[0]) {
      case 'o':
        return axis(number, kernel_.outer, 0);
      case 'i':
        return axis(number, kernel_.inner, kernel_.outer.size());
      case 't': {
        auto known = named_.find(name);
        if (known == named_.end()) fail("undefined " + name);
        return known->second;
      }
      case 'r': {
        auto known = reductions_.find(static_cast<int>(number));
        if (known == reductions_.end()) fail("undefined " + name);
        const Statement& s = known->second;
        if (s.is_scan() && accept(".place")) return pool_.scanned_place(s.reduced);
        if (s.is_scan())
          return accept(".before") ? pool_.scanned_before(s.reduced, s.accumulate)
                                   : pool_.scanned(s.reduced, s.accumulate);
        int component = accept(".") ? static_cast<int>(integer()) : 0;
        return pool_.reduced(s.reduced, reduced_dtype(s.op, s.accumulate, component), component);
      }
      default:
        return nullptr;  // any other name is an op
    }
  }

  ExprRef call(const std::string& name) {
    expect("(");
    if (name == "load") {
      int buffer = numbered('b');
      if (buffer >= static_cast<int>(kernel_.params.size())) fail("no such parameter");
      expect(",");
      ExprRef index = expression();
      expect(")");
      return pool_.load(buffer, kernel_.params[buffer].dtype, index);
    }
    if (name == "bitcast") {
      DType type = dtype();
      expect(",");
      ExprRef value = expression();
      expect(")");
      return pool_.make(ExprKind::kBitcast, type, {value});
    }
    std::vector<ExprRef> args;
    do args.push_back(expression());
    while (accept(","));
    expect(")");
    if (auto type = graph::parse_dtype(name)) return pool_.cast(args.at(0), *type);
    auto kind = kinds_by_name().find(name);
    if (kind == kinds_by_name().end()) fail("unknown op " + name);
    if (static_cast<int>(args.size()) != arity(kind->second)) fail("operands of " + name);
    DType type = is_comparison(kind->second)         ? DType::kBool
                 : kind->second == ExprKind::kRandom ? DType::kInt32
                                                     : args.back()->dtype;
    return pool_.make(kind->second, type, args);
  }

  ExprRef atom() {
    skip_space();
    if (accept("(")) {
      ExprRef value = expression();
      expect(")");
      return value;
    }
    char c = peek();
    if (c == '{') return pool_.index(size());
    bool special = text_.substr(at_, 4) == "inf:" || text_.substr(at_, 4) == "nan:";
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-' || special) return number();
    std::string name = word();
    if (name == "true" || name == "false") return pool_.integer(name == "true", DType::kBool);
    if (ExprRef known = reference(name)) return known;
    return call(name);
  }

  std::string_view text_;
  ExprPool& pool_;
  sym::ExprArena* arena_;
  size_t at_ = 0;
  Kernel kernel_;
  std::map<std::string, ExprRef> named_;
  std::map<int, Statement> reductions_;
};

}  // namespace

Kernel parse_kernel(std::string_view text, ExprPool& pool, sym::ExprArena* arena) {
  return Parser(text, pool, arena).parse();
}

}  // namespace braze::loop
