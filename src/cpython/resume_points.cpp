#include "cpython/resume_points.h"

#include <opcode.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "cpython/exception.h"
#include "cpython/frame_layout.h"

namespace braze::cpython {

namespace {

#if PY_VERSION_HEX < 0x030C0000
constexpr int kCallCaches = 4;
#else
constexpr int kCallCaches = 3;
#endif
constexpr int kDelegates = 2;  // RESUME's argument: behind a `yield from`; 3: behind an `await`

std::string bytes_of(PyObject* bytes) {
  return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))};
}

// Entries of a location table (Objects/locations.md of CPython): a byte 1 code:4 (units - 1):3,
// then what the code says.
class LineTable {
 public:
  explicit LineTable(PyCodeObject* code)
      : bytes_(bytes_of(code->co_linetable)), line_(code->co_firstlineno) {
    for (size_t at = 0; at < bytes_.size();) {
      const int kind = (static_cast<uint8_t>(bytes_[at++]) >> 3) & 15;
      if (kind == kLong || kind == kNoColumns)
        line_ += read_signed(at);
      else if (kind >= kOneLine && kind < kNoColumns)
        line_ += kind - kOneLine;
      while (at < bytes_.size() && (bytes_[at] & 0x80) == 0) ++at;
    }
  }

  // `line` -1: none.
  void add(int units, int line) {
    for (; units > 0; units -= kMostUnits) {
      const int count = std::min(units, kMostUnits);
      if (line < 0) {
        bytes_.push_back(static_cast<char>(0x80 | kNone << 3 | (count - 1)));
        continue;
      }
      bytes_.push_back(static_cast<char>(0x80 | kNoColumns << 3 | (count - 1)));
      const int delta = line - std::exchange(line_, line);
      unsigned rest =
          delta < 0 ? (static_cast<unsigned>(-delta) << 1) | 1 : static_cast<unsigned>(delta) << 1;
      for (; rest >= 64; rest >>= 6) bytes_.push_back(static_cast<char>(64 | (rest & 63)));
      bytes_.push_back(static_cast<char>(rest));
    }
  }
  const std::string& bytes() const { return bytes_; }

 private:
  static constexpr int kOneLine = 10, kNoColumns = 13, kLong = 14, kNone = 15, kMostUnits = 8;

  int read_signed(size_t at) const {
    unsigned value = 0;
    for (int shift = 0; at < bytes_.size(); shift += 6) {
      const auto byte = static_cast<uint8_t>(bytes_[at++]);
      value |= static_cast<unsigned>(byte & 63) << shift;
      if ((byte & 64) == 0) break;
    }
    return value & 1 ? -static_cast<int>(value >> 1) : static_cast<int>(value >> 1);
  }

  std::string bytes_;
  int line_;
};

// Entries of an exception table (Objects/exception_handling_notes.txt of CPython): start, size,
// target, depth and whether the offset is pushed, in groups of 6 bits, the first byte marked.
class HandlerTable {
 public:
  explicit HandlerTable(PyCodeObject* code) : bytes_(bytes_of(code->co_exceptiontable)) {}

  void add(int start, int units, int target, int depth, bool push_offset) {
    const size_t first = bytes_.size();
    for (const int value : {start, units, target, depth << 1 | (push_offset ? 1 : 0)}) put(value);
    bytes_[first] = static_cast<char>(bytes_[first] | 0x80);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void put(int value) {
    for (int shift = 24; shift > 0; shift -= 6)
      if (value >> shift) bytes_.push_back(static_cast<char>(64 | ((value >> shift) & 63)));
    bytes_.push_back(static_cast<char>(value & 63));
  }
  std::string bytes_;
};

// Writes the tails of one code object.
class TailWriter {
 public:
  explicit TailWriter(PyCodeObject* code)
      : decoded_(decode(code)),
        gate_(static_cast<int>(PyTuple_GET_SIZE(code->co_consts))),
        lines_(code),
        handlers_(code) {
    const Ref bytes = Ref::steal(PyCode_GetCode(code));
    BRAZE_CHECK(bytes, "out of memory while reading bytecode");
    units_ = bytes_of(bytes.get());
  }

  Tails write() {
    for (const Instruction& in : decoded_.instructions) {
      if (in.op == Opcode::kReturnGenerator) write_start(in.offset);
      if (in.op == Opcode::kYieldValue) write_yield(in.offset);
      if (in.op == Opcode::kReturnConst) write_return(in);
    }
    tails_.reraise = here();
    emit(RERAISE, 1);
    lines_.add(1, -1);
    tails_.units = std::move(units_);
    tails_.lines = lines_.bytes();
    tails_.handlers = handlers_.bytes();
    return std::move(tails_);
  }

 private:
  int here() const { return static_cast<int>(units_.size() / kBytesPerUnit); }
  uint8_t op_at(int unit) const {
    const size_t at = static_cast<size_t>(unit) * kBytesPerUnit;
    return unit >= 0 && at < units_.size() ? static_cast<uint8_t>(units_[at]) : 0;
  }
  int arg_at(int unit) const {
    return static_cast<uint8_t>(units_[static_cast<size_t>(unit) * kBytesPerUnit + 1]);
  }

  void put(int op, int arg) {
    units_.push_back(static_cast<char>(op));
    units_.push_back(static_cast<char>(arg));
  }
  void emit(int op, int arg = 0) {
    for (int shift = 24; shift > 0; shift -= 8)
      if (arg >> shift) put(EXTENDED_ARG, (arg >> shift) & 255);
    put(op, arg & 255);
  }

  void jump_back(int unit) {
    // The distance counts from behind the jump, which may need units for a long one.
    int units = 1;
    while (units < 4 && (here() + units - unit) >> (8 * units)) ++units;
    emit(JUMP_BACKWARD_NO_INTERRUPT, here() + units - unit);
  }

  void call_gate(int place, int jump_to) {
    emit(PUSH_NULL);
    emit(LOAD_CONST, gate_);
    emit(CALL, 0);
    for (int i = 0; i < kCallCaches; ++i) emit(CACHE);
    tails_.places[here()] = place;
    emit(POP_TOP);
    jump_back(jump_to);
  }

  // What was written since `begin` counts as part of the instruction at `unit`.
  void belongs(int begin, int unit) {
    const int at = decoded_.index_of_offset(unit);
    lines_.add(here() - begin, decoded_.line(at));
    const ExceptionHandler* handler = decoded_.handler(at);
    if (handler == nullptr) return;
    const auto target = static_cast<size_t>(handler->target);
    handlers_.add(begin, here() - begin, decoded_.instructions[target].offset, handler->depth,
                  handler->push_lasti);
  }

  void write_start(int unit) {
    const int begin = here();
    tails_.start = begin;
    emit(NOP);
    call_gate(unit + 1, unit + 1);
    belongs(begin, unit);
  }

  void write_yield(int unit) {
    const int resume = unit + 1;
    BRAZE_CHECK(op_at(unit) == YIELD_VALUE && op_at(resume) == RESUME, "no RESUME at ", resume);
    const int begin = here();
    const bool delegates = arg_at(resume) >= kDelegates && op_at(unit - 1) == SEND;
    if (delegates) put(SEND, 0);
    const int yield = here();
    tails_.by_offset[unit] = yield;
    put(YIELD_VALUE, arg_at(unit));
    belongs(begin, unit);
    put(RESUME, arg_at(resume));
    // A target of a jump is the start of a line to trace functions; a RESUME never is.
    call_gate(resume + 1, resume);
    belongs(yield + 1, resume);
    if (!delegates) return;
    // CPython looks for handlers, and goes on, at the unit before this one.
    const int filler = here();
    emit(NOP);
    belongs(filler, resume + 1);
    const int end = here(), target = unit + arg_at(unit - 1);
    call_gate(target, target);
    belongs(end, target);
    BRAZE_CHECK(end - yield < 256, "a tail of ", end - yield);
    units_[static_cast<size_t>(yield - 1) * kBytesPerUnit + 1] = static_cast<char>(end - yield);
  }

  void write_return(const Instruction& in) {
    const int begin = here();
    tails_.by_offset[in.offset] = begin;
    emit(POP_TOP);
#if PY_VERSION_HEX >= 0x030C0000
    emit(RETURN_CONST, in.arg);
#endif
    belongs(begin, in.offset);
  }

  const DecodedCode& decoded_;
  int gate_;  // index among the constants
  std::string units_;
  LineTable lines_;
  HandlerTable handlers_;
  Tails tails_;
};

// What the gate's call needs on the value stack: NULL, the gate.
constexpr int kGateDepth = 2;

void make_room(PyCodeObject* code, int depth) {
  const int missing = depth - code->co_stacksize;
  if (missing <= 0) return;
  code->co_stacksize += missing;
#if PY_VERSION_HEX >= 0x030C0000
  code->co_framesize += missing;
#endif
}

}  // namespace

ResumePoints::ResumePoints(PyCodeObject* code, Resumable::Driver driver,
                           std::shared_ptr<void> context)
    : code_(Ref::borrow(reinterpret_cast<PyObject*>(code))),
      driver_(driver),
      context_(std::move(context)),
      tails_(TailWriter(code).write()) {
  const DecodedCode& decoded = decode(code);
  const std::vector<int> depths = stack_depths(decoded);
  int deepest = 1;
  for (size_t i = 0; i < decoded.instructions.size(); ++i)
    if (decoded.instructions[i].op == Opcode::kYieldValue) deepest = std::max(deepest, depths[i]);
  exits_ = std::make_unique<StopCode>(code, with_generator_exits(code, {}));
  for (size_t i = 0; i < decoded.instructions.size(); ++i) {
    const Instruction& in = decoded.instructions[i];
    // The gate gives the top of the stack back.
    BRAZE_CHECK(depths[i] != 0 || in.op == Opcode::kReturnConst || !is_exit(in.offset),
                "an empty stack at ", in.offset);
  }
  make_room(code, deepest + kGateDepth);
}

PyObject* ResumePoints::drive(PyThreadState* thread, FrameView view, PyCodeObject* copy) const {
  return driver_(context_.get(), thread, view, Suspension{*this, copy});
}

int ResumePoints::place_of_gate(int unit) const {
  auto found = tails_.places.find(unit);
  return found != tails_.places.end() ? found->second : -1;
}

int ResumePoints::tail_of(int offset) const {
  auto found = tails_.by_offset.find(offset);
  return found != tails_.by_offset.end() ? found->second : -1;
}

Ref ResumePoints::copy(PyObject* gate) const {
  PyObject* consts = code()->co_consts;
  const Py_ssize_t count = PyTuple_GET_SIZE(consts);
  const Ref all = Ref::steal(PyTuple_New(count + 1));
  BRAZE_CHECK(all, "out of memory");
  for (Py_ssize_t i = 0; i < count; ++i)
    PyTuple_SET_ITEM(all.get(), i, Py_NewRef(PyTuple_GET_ITEM(consts, i)));
  PyTuple_SET_ITEM(all.get(), count, Py_NewRef(gate));
  const auto size = [](const std::string& text) { return static_cast<Py_ssize_t>(text.size()); };
  return internal::replaced(
      code_.get(), Ref::steal(Py_BuildValue(
                       "{s:y#,s:y#,s:y#,s:O}", "co_code", tails_.units.data(), size(tails_.units),
                       "co_linetable", tails_.lines.data(), size(tails_.lines), "co_exceptiontable",
                       tails_.handlers.data(), size(tails_.handlers), "co_consts", all.get())));
}

}  // namespace braze::cpython
