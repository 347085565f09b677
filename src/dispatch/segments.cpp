#include "dispatch/segments.h"

#include <cstdio>
#include <map>

#include "base/error.h"
#include "base/log.h"
#include "cpython/text.h"

namespace braze::dispatch {

using cpython::Instruction;
using cpython::Opcode;

CodeState::CodeState(PyCodeObject* code) : decoded(cpython::decode(code)) {
  try {
    depths = cpython::stack_depths(decoded);
  } catch (const std::exception& error) {
    readable = false;
    left_to_cpython = true;
    std::fprintf(stderr,
                 "braze: internal error: the code of %s is not understood; CPython runs it behind "
                 "its first break. Please report this: %s\n",
                 cpython::utf8_of(code->co_qualname), error.what());
  }
}

const cpython::StopCode* CodeState::step_code(int offset) {
  if (auto known = steps_.find(offset); known != steps_.end()) return known->second.get();
  const int at = decoded.index_of_offset(offset);
  const Instruction& in = decoded.instructions[static_cast<size_t>(at)];
  std::vector<int> stops;
  const int count = static_cast<int>(decoded.instructions.size());
  auto add = [&](int index) {
    // CPython does what stands before an enterable instruction together with it. EndSend drops what
    // was awaited, and all that this alone held: a segment would keep it to its own end.
    while (index >= 0 && index < count &&
           (!decoded.instructions[static_cast<size_t>(index)].enterable ||
            decoded.instructions[static_cast<size_t>(index)].op == Opcode::kEndSend))
      ++index;
    if (index < 0 || index >= count) return;
    stops.push_back(decoded.instructions[static_cast<size_t>(index)].offset);
  };
  const bool ends = cpython::is_exit(in) || in.op == Opcode::kReraise ||
                    in.op == Opcode::kRaiseVarargs || in.op == Opcode::kJump;
  int next = at + 1;
  while (next < count && !decoded.instructions[static_cast<size_t>(next)].enterable) ++next;
  if (!ends) add(next);
  for (int i = at; i < next; ++i) {
    add(decoded.instructions[static_cast<size_t>(i)].target);
    if (const auto* handler = decoded.handler(i)) add(handler->target);
  }
  auto& made = steps_[offset];
  if (!stops.empty()) made = make_stops(std::move(stops));
  return made.get();
}

const cpython::StopCode* CodeState::call_code() {
  if (calls_ || left_to_cpython) return calls_.get();
  std::vector<int> stops;
  for (size_t i = 0; i < decoded.instructions.size(); ++i) {
    const Opcode op = decoded.instructions[i].op;
    if (op != Opcode::kCall && op != Opcode::kCallKw && op != Opcode::kCallFunctionEx &&
        op != Opcode::kForIter && op != Opcode::kSend)
      continue;
    size_t at = i;
    while (at > 0 && !decoded.instructions[at].enterable) --at;
    if (const int offset = decoded.instructions[at].offset;
        offset > decoded.code->_co_firsttraceable && (stops.empty() || stops.back() != offset))
      stops.push_back(offset);
  }
  if (!stops.empty()) calls_ = make_stops(std::move(stops));
  return calls_.get();
}

std::unique_ptr<cpython::StopCode> CodeState::make_stops(std::vector<int> offsets) {
  try {
    return std::make_unique<cpython::StopCode>(
        decoded.code, cpython::with_generator_exits(decoded.code, std::move(offsets)));
  } catch (const InternalError& error) {
    log::warning(std::string("it cannot be run piece by piece, so it is left to CPython: ") +
                 error.what());
    left_to_cpython = true;
    return nullptr;
  }
}

int CodeState::return_offset(PyObject* value, bool* pushed) const {
  *pushed = true;
  for (const Instruction& in : decoded.instructions)
    if (in.op == Opcode::kReturnValue && in.enterable) return in.offset;
  *pushed = false;
  for (const Instruction& in : decoded.instructions)
    if (in.op == Opcode::kReturnConst && in.enterable &&
        PyTuple_GET_ITEM(decoded.code->co_consts, in.arg) == value)
      return in.offset;
  return -1;
}

std::shared_ptr<CodeState> Segments::of(PyCodeObject* code) {
  if (auto known = codes.find(code); known != codes.end()) return known->second;
  auto state = std::make_shared<CodeState>(code);
  order_.push_back(code);
  return codes[code] = std::move(state);
}

void Segments::each(const std::function<void(const Entry&)>& visit) const {
  for (PyCodeObject* code : order_) {
    auto found = codes.find(code);
    if (found == codes.end()) continue;
    std::map<int, const std::vector<std::shared_ptr<Entry>>*> sorted;
    for (const auto& [offset, entries] : found->second->entries) sorted[offset] = &entries;
    for (const auto& [offset, entries] : sorted)
      for (const auto& entry : *entries) visit(*entry);
  }
}

}  // namespace braze::dispatch
