#include "capture/frames/frame_stack.h"

#include "base/identity_map.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

constexpr int kMaximalDepth = 900;
constexpr size_t kStackBytes = 4 << 20;  // of the C stack, below which evaluation goes no deeper

}  // namespace

const CodeInfo& code_info(PyCodeObject* code, PyObject* globals) {
  static auto& memo = *new IdentityMap<CodeInfo*>;
  CodeInfo*& info = memo[code];
  if (!info) {
    const cpython::DecodedCode& decoded = cpython::decode(code);
    std::string function = cpython::utf8_of(code->co_qualname);
    info = new CodeInfo{.decoded = &decoded,
                        .policy = code_policy(code, globals),
                        .library_break = library_break(globals, function),
                        .file = cpython::utf8_of(code->co_filename),
                        .function = std::move(function),
                        .lines = std::vector<int>(decoded.instructions.size())};
  }
  return *info;
}

FrameStack::FrameStack()
    : stack_limit_(reinterpret_cast<const char*>(
          reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kStackBytes)) {}

std::unique_ptr<Frame> FrameStack::make(const CodeInfo& info) {
  std::unique_ptr<Frame> frame;
  if (spare_.empty()) {
    frame = std::make_unique<Frame>();
  } else {
    frame = std::move(spare_.back());
    spare_.pop_back();
  }
  frame->info = &info;
  frame->locals.resize(static_cast<size_t>(info.code()->co_nlocalsplus));
  frame->stack.reserve(static_cast<size_t>(info.code()->co_stacksize));
  return frame;
}

void FrameStack::recycle(std::unique_ptr<Frame> frame) {
  ++depth_;  // finalisers of what the frame held are not the root
  // They may come back here: it is emptied before it is spare.
  frame->stack.clear();
  frame->locals.clear();
  frame->function = frame->globals = frame->builtins = frame->names = frame->kwnames = Ref();
  frame->back = nullptr;
  frame->pc = 0;
  frame->executed = 0;
  frame->outside_function = false;
  spare_.push_back(std::move(frame));
  --depth_;
}

bool FrameStack::is_full() const {
  // The address of a local would do, but not where a sanitizer moves locals to the heap.
  auto* here = static_cast<const char*>(__builtin_frame_address(0));
  return depth_ > kMaximalDepth || here < stack_limit_;
}

}  // namespace braze::capture
