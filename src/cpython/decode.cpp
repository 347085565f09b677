#include "cpython/decode.h"

#include <opcode.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"

namespace braze::cpython {

namespace internal {

Instruction& Emitter::emit(Opcode op, int arg) {
  Instruction& instruction = out_.emplace_back();
  instruction.op = op;
  instruction.raw = raw_.op;
  instruction.enterable = std::exchange(first_, false);
  instruction.arg = arg;
  instruction.offset = raw_.offset;
  return instruction;
}

void Emitter::jump(Opcode op, int target_unit, int arg) { emit(op, arg).target = target_unit; }

}  // namespace internal

namespace {

std::vector<internal::RawInstruction> raw_instructions(const uint8_t* bytes, int units) {
  std::vector<internal::RawInstruction> result;
  result.reserve(units);
  uint32_t extended = 0;
  int start = -1;
  for (int unit = 0; unit < units; ++unit) {
    const uint8_t op = bytes[2 * unit];
    const uint32_t arg = extended | bytes[2 * unit + 1];
    if (start < 0) start = unit;
    if (op == internal::kExtendedArg) {
      extended = arg << 8;
      continue;
    }
    int next = unit + 1;
    while (next < units && bytes[2 * next] == internal::kCache) ++next;
    result.push_back({op, static_cast<int>(arg), start, next});
    unit = next - 1;
    extended = 0;
    start = -1;
  }
  return result;
}

// CPython 3.11 drops the receiver when Send ends; later versions leave that to END_SEND. An EndSend
// of our own in front of the target makes them alike.
void insert_end_sends(std::vector<Instruction>& instructions, std::vector<int> units) {
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  for (int unit : units) {
    auto at = std::find_if(instructions.begin(), instructions.end(),
                           [&](const Instruction& i) { return i.offset >= unit; });
    Instruction end_send;
    end_send.op = Opcode::kEndSend;
    end_send.enterable = false;
    end_send.offset = unit;
    instructions.insert(at, end_send);
  }
}

void resolve_targets(DecodedCode& code) {
  for (Instruction& instruction : code.instructions) {
    if (instruction.target < 0) continue;
    instruction.target = code.index_of_offset(instruction.target);
    if (instruction.op != Opcode::kSend || instruction.target == 0) continue;
    const Instruction& before = code.instructions[instruction.target - 1];
    if (before.op == Opcode::kEndSend && !before.enterable) --instruction.target;
  }
}

// The format is described in CPython's Objects/exception_handling_notes.txt: big-endian groups of
// six bits, 64 marks that another follows.
std::vector<ExceptionHandler> parse_handlers(const DecodedCode& code) {
  PyObject* table = code.code->co_exceptiontable;
  auto at = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(table));
  const uint8_t* end = at + PyBytes_GET_SIZE(table);
  auto number = [&] {
    int value = *at & 63;
    while (*at++ & 64) value = value << 6 | (*at & 63);
    return value;
  };
  std::vector<ExceptionHandler> handlers;
  while (at < end) {
    const int start = number();
    const int length = number();
    const int target = number();
    const int depth_and_lasti = number();
    handlers.push_back({code.index_of_offset(start), code.index_of_offset(start + length),
                        code.index_of_offset(target), depth_and_lasti >> 1,
                        (depth_and_lasti & 1) != 0});
  }
  return handlers;
}

std::unique_ptr<DecodedCode> decode_new(PyCodeObject* code) {
  Py_INCREF(code);
  auto result = std::make_unique<DecodedCode>();
  result->code = code;
  // PyCode_GetCode undoes specialisation and instrumentation.
  const Ref bytes = Ref::steal(PyCode_GetCode(code));
  BRAZE_CHECK(bytes, "out of memory while reading bytecode");
  const int units = static_cast<int>(PyBytes_GET_SIZE(bytes.get()) / 2);
  const auto raw =
      raw_instructions(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get())), units);
  result->instructions.reserve(raw.size() + 4);
  internal::Emitter out(result->instructions);
  for (const internal::RawInstruction& instruction : raw) {
    out.begin(instruction);
    internal::translate(instruction, out);
  }
  insert_end_sends(result->instructions, out.end_sends());
  resolve_targets(*result);
  result->handlers = parse_handlers(*result);
  return result;
}

}  // namespace

const ExceptionHandler* DecodedCode::handler(int instruction) const {
  // Entries are sorted and do not overlap: CPython writes the innermost one for each range.
  auto after = std::upper_bound(
      handlers.begin(), handlers.end(), instruction,
      [](int index, const ExceptionHandler& handler) { return index < handler.start; });
  if (after == handlers.begin()) return nullptr;
  const ExceptionHandler& candidate = *std::prev(after);
  return instruction < candidate.end ? &candidate : nullptr;
}

int DecodedCode::line(int instruction) const {
  const auto unit = static_cast<size_t>(instructions.at(instruction).offset);
  return PyCode_Addr2Line(code, static_cast<int>(unit * kBytesPerUnit));
}

int DecodedCode::index_of_offset(int code_units) const {
  auto at = std::lower_bound(
      instructions.begin(), instructions.end(), code_units,
      [](const Instruction& instruction, int unit) { return instruction.offset < unit; });
  while (at != instructions.end() && !at->enterable) ++at;
  return static_cast<int>(at - instructions.begin());
}

const char* asynchronous_part(const Instruction& instruction) {
  if (instruction.op != Opcode::kUnsupported) return nullptr;
  switch (instruction.raw) {
    case GET_AWAITABLE:
      return "await";
    case GET_AITER:
    case GET_ANEXT:
    case END_ASYNC_FOR:
      return "async for";
    case BEFORE_ASYNC_WITH:
      return "async with";
#if PY_VERSION_HEX < 0x030C0000
    case ASYNC_GEN_WRAP:
      return "a yield of an asynchronous generator";
#else
    case CALL_INTRINSIC_1:
      constexpr int kAsyncGenWrap = 4;  // pycore_intrinsics.h
      return instruction.arg == kAsyncGenWrap ? "a yield of an asynchronous generator" : nullptr;
#endif
  }
  return nullptr;
}

const DecodedCode& decode(PyCodeObject* code) {
  static auto& memo = *new std::unordered_map<PyCodeObject*, std::unique_ptr<DecodedCode>>;
  if (auto found = memo.find(code); found != memo.end()) return *found->second;
  auto decoded = decode_new(code);
  return *memo.emplace(code, std::move(decoded)).first->second;
}

}  // namespace braze::cpython
