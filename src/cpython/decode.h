// Inside of the decoder: what is common to all versions hands raw instructions to `translate`, of
// which decode_311.cpp and decode_312.cpp have their own.
#pragma once

#include <cstdint>
#include <vector>

#include "cpython/code.h"

namespace braze::cpython::internal {

struct RawInstruction {
  uint8_t op = 0;
  int arg = 0;
  int offset = 0;  // code unit of the first EXTENDED_ARG, or of the instruction
  int next = 0;    // code unit after the instruction and its caches
};

// Collects decoded instructions; jump targets are code units until all are there.
class Emitter {
 public:
  explicit Emitter(std::vector<Instruction>& out) : out_(out) {}

  void begin(const RawInstruction& raw) {
    raw_ = raw;
    first_ = true;
  }
  // The first one of each raw instruction is where a frame can be entered.
  Instruction& emit(Opcode op, int arg = 0);
  void jump(Opcode op, int target_unit, int arg = 0);
  // Pushes or takes a callable with NULL beside it.
  void emit_call(Opcode op, int arg, bool null_below) { emit(op, arg).null_below = null_below; }
  void unsupported() { emit(Opcode::kUnsupported, raw_.arg); }
  // The next raw instruction belongs to this one.
  void skip_next_pop() { skip_pop_ = true; }
  bool take_skip_pop() { return std::exchange(skip_pop_, false); }
  // 3.11: a Send that ends leaves the result alone; an EndSend is put before that target.
  void end_send_before(int unit) { end_sends_.push_back(unit); }
  const std::vector<int>& end_sends() const { return end_sends_; }

 private:
  std::vector<Instruction>& out_;
  std::vector<int> end_sends_;
  RawInstruction raw_;
  bool first_ = true;
  bool skip_pop_ = false;
};

void translate(const RawInstruction& raw, Emitter& out);

// Opcodes whose numbers the common part needs.
extern const uint8_t kCache, kExtendedArg;

}  // namespace braze::cpython::internal
