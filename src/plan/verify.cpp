#include <algorithm>
#include <limits>
#include <set>

#include "base/error.h"
#include "graph/devices.h"
#include "plan/binder.h"
#include "plan/module.h"

namespace braze::plan {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int kNever = -1;

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result = 0;
  BRAZE_CHECK(!__builtin_add_overflow(a, b, &result), "sizes overflow: ", a, " + ", b);
  return result;
}

// Every slot that an argument names, in order.
struct ArgumentSlots {
  std::vector<SlotId>& slots;

  void operator()(SlotId slot) const { slots.push_back(slot); }
  void operator()(const std::vector<SlotId>& list) const {
    slots.insert(slots.end(), list.begin(), list.end());
  }
  void operator()(const graph::OptionalRefs<SlotId>& list) const {
    for (const std::optional<SlotId>& slot : list.refs) {
      if (slot) slots.push_back(*slot);
    }
  }
  template <class T>
  void operator()(const T&) const {}
};

std::vector<SlotId> slots_of(const Argument& argument) {
  std::vector<SlotId> slots;
  std::visit(ArgumentSlots{slots}, argument);
  return slots;
}

class Verifier {
 public:
  // `bound`: made by Binder::bind, without origins.
  Verifier(const Function& function, bool bound)
      : function_(function),
        bound_(bound),
        born_(function.slots.size(), kNever),
        last_use_(function.slots.size(), kNever),
        freed_(function.slots.size(), false) {}

  void run() {
    check_slots();
    if (function_.has_control()) check_control();
    for (step_ = 0; step_ < static_cast<int>(function_.steps.size()); ++step_) {
      std::visit([this](const auto& step) { check_step(step); }, function_.steps[step_]);
    }
    check_outputs();
    check_overlap();
  }

 private:
  const Slot& slot(SlotId id) const { return function_.slots[id]; }
  SlotId root(SlotId id) const { return root_of(function_, id); }

  void check_number(SlotId id) const {
    BRAZE_CHECK(id >= 0 && id < static_cast<SlotId>(function_.slots.size()), where(), "slot s", id,
                " does not exist");
  }

  std::string where() const {
    return step_ < 0 ? "in the slots: " : "in step " + std::to_string(step_) + ": ";
  }

  void check_slots() {
    int64_t count = static_cast<int64_t>(function_.slots.size());
    BRAZE_CHECK(function_.input_count >= 0 && function_.input_count <= count,
                "bad number of inputs");
    BRAZE_CHECK(function_.arena_bytes >= 0, "negative arena");
    for (SlotId id = 0; id < count; ++id) {
      const Slot& s = slot(id);
      BRAZE_CHECK((s.kind == SlotKind::kInput) == (id < function_.input_count), "slot s", id,
                  ": inputs come first, and nothing else does");
      BRAZE_CHECK(s.type.sizes.size() == s.type.strides.size(), "slot s", id,
                  ": as many strides as sizes");
      int64_t extent = extent_bytes(s.type);
      switch (s.kind) {
        case SlotKind::kInput:
          BRAZE_CHECK(s.base == -1, "slot s", id, ": an input has no base");
          BRAZE_CHECK(
              s.number < 0 || (s.type.dtype == graph::DType::kFloat64 && s.type.rank() == 0),
              "slot s", id, ": a float of the call is f64[]");
          break;
        case SlotKind::kExtern:
          BRAZE_CHECK(s.base >= -1 && s.base < id, "slot s", id, ": the base comes before it");
          break;
        case SlotKind::kArena:
          BRAZE_CHECK(s.base == -1, "slot s", id, ": arena memory has no base");
          check_device(id);
          BRAZE_CHECK(s.byte_offset >= 0 && s.byte_offset % kAlignment == 0, "slot s", id,
                      ": place in the arena not aligned to 64 bytes: ", s.byte_offset);
          BRAZE_CHECK(s.bytes >= extent, "slot s", id, ": ", s.bytes, " bytes for ", extent);
          BRAZE_CHECK(checked_add(s.byte_offset, s.bytes) <= function_.arena_bytes, "slot s", id,
                      " ends behind the arena");
          break;
        case SlotKind::kOutput:
          BRAZE_CHECK(s.base == -1, "slot s", id, ": output memory has no base");
          BRAZE_CHECK(s.bytes >= extent, "slot s", id, ": ", s.bytes, " bytes for ", extent);
          break;
        case SlotKind::kView:
          check_view(id, extent);
          break;
      }
    }
    for (SlotId id = 0; id < function_.input_count; ++id) born_[id] = 0;
  }

  void check_view(SlotId id, int64_t extent) const {
    const Slot& s = slot(id);
    BRAZE_CHECK(s.base >= 0 && s.base < id, "slot s", id, ": the base of a view comes before it");
    const Slot& base = slot(s.base);
    if (base.kind != SlotKind::kArena && base.kind != SlotKind::kOutput) return;
    if (extent == 0) return;  // where an empty view begins does not matter
    BRAZE_CHECK(s.byte_offset >= 0 && checked_add(s.byte_offset, extent) <= base.bytes, "slot s",
                id, ": the view leaves its base s", s.base);
  }

  void use(SlotId id) {
    check_number(id);
    SlotId memory = root(id);
    BRAZE_CHECK(born_[memory] != kNever, where(), "slot s", id, " is used before it is defined");
    BRAZE_CHECK(!freed_[memory], where(), "slot s", id, " is used after it was freed");
    touch(memory);
  }

  void touch(SlotId id) {
    for (; id >= 0; id = slot(id).base) last_use_[id] = step_;
  }

  void define(SlotId id) {
    SlotId memory = root(id);
    BRAZE_CHECK(slot(memory).number < 0, where(), "slot s", id,
                ", a float of the call, is written");
    BRAZE_CHECK(!freed_[memory], where(), "slot s", id, " is written after it was freed");
    if (born_[memory] == kNever) born_[memory] = step_;
    touch(memory);
  }

  void check_origin(graph::OriginId origin) const {
    BRAZE_CHECK(bound_ || (origin >= -1 && origin < static_cast<int64_t>(function_.origins.size())),
                where(), "origin ", origin, " does not exist");
  }

  // A GPU is given a number by value.
  void check_device(SlotId id) const {
    if (slot(id).number >= 0) return;
    BRAZE_CHECK(graph::same_device(slot(id).type.device, function_.device), where(), "slot s", id,
                " is not on the device of the function");
  }

  void check_launch(const Launch& launch) const {
    const bool on_gpu = function_.device.type == graph::Device::Type::kCUDA;
    BRAZE_CHECK(std::holds_alternative<Grid>(launch) == on_gpu, where(),
                "a grid is for a GPU, chunks are for a CPU");
    if (const auto* chunks = std::get_if<Chunks>(&launch)) {
      BRAZE_CHECK(chunks->extent.constant() >= 0 && chunks->grain.constant() >= 1, where(),
                  "bad extent or grain");
    } else {
      const Grid& grid = std::get<Grid>(launch);
      for (sym::Int count : grid.blocks)
        BRAZE_CHECK(count.constant() >= 0, where(), "a negative number of blocks");
      for (sym::Int count : grid.threads)
        BRAZE_CHECK(count.constant() >= 1, where(), "a block without threads");
      BRAZE_CHECK(grid.shared_bytes.constant() >= 0, where(), "negative shared memory");
    }
  }

  void check_step(const KernelStep& step) {
    BRAZE_CHECK(step.kernel >= 0 && step.kernel < static_cast<int64_t>(function_.kernels.size()),
                where(), "kernel ", step.kernel, " does not exist");
    check_launch(step.launch);
    check_origin(step.origin);
    const KernelSignature& kernel = function_.kernels[step.kernel];
    BRAZE_CHECK(kernel.written.size() == step.args.size(), where(), "kernel ", kernel.name,
                " takes ", kernel.written.size(), " arguments, not ", step.args.size());
    BRAZE_CHECK(kernel.alignment.empty() || kernel.alignment.size() == step.args.size(), where(),
                "kernel ", kernel.name, " has ", kernel.alignment.size(), " alignments");
    for (size_t i = 0; i < step.args.size(); ++i) {
      check_number(step.args[i]);
      check_device(step.args[i]);
      if (!kernel.written[i]) use(step.args[i]);
    }
    for (size_t i = 0; i < step.args.size(); ++i) {
      if (!kernel.written[i]) continue;
      BRAZE_CHECK(slot(root(step.args[i])).kind != SlotKind::kExtern, where(), "slot s",
                  step.args[i], " belongs to an extern call; a kernel cannot write to it");
      define(step.args[i]);
    }
  }

  void check_step(const ExternStep& step) {
    check_origin(step.origin);
    std::vector<SlotId> arguments;
    for (const Argument& argument : step.args) {
      for (SlotId id : slots_of(argument)) {
        use(id);
        arguments.push_back(id);
      }
    }
    std::set<SlotId> seen;
    for (SlotId id : step.results) {
      if (id == -1) continue;
      check_number(id);
      BRAZE_CHECK(seen.insert(id).second, where(), "slot s", id, " is two results");
      if (std::find(arguments.begin(), arguments.end(), id) != arguments.end()) continue;
      BRAZE_CHECK(slot(id).kind != SlotKind::kView && slot(id).kind != SlotKind::kInput, where(),
                  "result s", id, " must be memory of its own or an argument");
      BRAZE_CHECK(born_[id] == kNever, where(), "slot s", id, " is defined twice");
      define(id);
    }
  }

  void check_step(const CopyStep& step) {
    use(step.source);
    use(step.target);
    BRAZE_CHECK(
        slot(root(step.target)).kind == SlotKind::kInput && slot(root(step.target)).number < 0,
        where(), "the target s", step.target, " of a copy is no input");
    BRAZE_CHECK(slot(step.target).type.sizes == slot(step.source).type.sizes, where(),
                "a copy between different sizes");
  }

  void check_step(const FreeStep& step) {
    check_number(step.slot);
    const Slot& freed = slot(step.slot);
    BRAZE_CHECK(freed.kind != SlotKind::kArena && freed.kind != SlotKind::kView && freed.number < 0,
                where(), "slot s", step.slot, " is freed but has no memory of its own");
    BRAZE_CHECK(born_[step.slot] != kNever && !freed_[step.slot], where(), "slot s", step.slot,
                " is freed before it is defined, or twice");
    freed_[step.slot] = true;
  }

  void check_step(const AllocateStep& step) {
    check_number(step.slot);
    BRAZE_CHECK(slot(step.slot).kind == SlotKind::kOutput, where(), "slot s", step.slot,
                " is allocated but is no output memory");
    BRAZE_CHECK(born_[step.slot] == kNever && allocated_.insert(step.slot).second, where(),
                "slot s", step.slot, " is allocated after it is defined, or twice");
  }

  void check_control() const {
    BRAZE_CHECK(function_.kernels.empty() && function_.arena_bytes == 0 &&
                    std::ranges::all_of(function_.slots,
                                        [](const Slot& s) {
                                          return s.kind == SlotKind::kInput ||
                                                 s.kind == SlotKind::kExtern;
                                        }),
                "a function of control steps has no kernels and no memory of its own");
  }

  void use_all(const std::vector<SlotId>& slots) {
    for (SlotId id : slots) use(id);
  }
  void give(const std::vector<SlotId>& results) {
    for (SlotId id : results) {
      check_number(id);
      BRAZE_CHECK(slot(id).kind == SlotKind::kExtern && born_[id] == kNever, where(), "result s",
                  id, " must be a kExtern slot that nothing else defines");
      define(id);
    }
  }
  void check_call(const Callee& callee, size_t carried) {
    for (SlotId id : callee.args) {
      if (id >= 0)
        use(id);
      else
        BRAZE_CHECK(static_cast<size_t>(-1 - id) < carried, where(), "nothing is carried as ",
                    -1 - id);
    }
  }
  void check_step(const CallStep& step) {
    check_call(step.callee, 0);
    give(step.results);
  }
  void check_step(const BranchStep& step) {
    use(step.predicate);
    check_call(step.yes, 0);
    check_call(step.no, 0);
    give(step.results);
  }
  void check_step(const LoopStep& step) {
    use_all(step.carried);
    check_call(step.condition, step.carried.size());
    check_call(step.body, step.carried.size());
    BRAZE_CHECK(step.results.size() == step.carried.size(), where(),
                "a loop gives what it carries");
    give(step.results);
  }
  void check_step(const ReadStep& step) {
    use(step.slot);
    BRAZE_CHECK(step.dim >= -1 && step.dim < slot(step.slot).type.rank(), where(), "no dimension ",
                step.dim);
    BRAZE_CHECK(bound_ || (step.symbol >= 0 &&
                           step.symbol < static_cast<int64_t>(function_.symbols.size())),
                where(), "no symbol ", step.symbol);
  }
  void check_step(const ExpectStep& step) { use(step.slot); }
  void check_step(const AssertStep&) {}

  void check_outputs() {
    for (SlotId id : function_.outputs) {
      use(id);
      for (SlotId memory = id; memory >= 0; memory = slot(memory).base) {
        BRAZE_CHECK(slot(memory).kind != SlotKind::kArena, "output s", id, " lives in the arena");
      }
    }
  }

  // Slots sorted by birth; each is compared with those that are still live then.
  void check_overlap() const {
    std::vector<SlotId> order;
    for (SlotId id = 0; id < static_cast<SlotId>(function_.slots.size()); ++id) {
      if (slot(id).kind == SlotKind::kArena && born_[id] != kNever && slot(id).bytes > 0) {
        order.push_back(id);
      }
    }
    std::sort(order.begin(), order.end(),
              [this](SlotId a, SlotId b) { return born_[a] < born_[b]; });
    std::vector<SlotId> live;
    for (SlotId id : order) {
      std::erase_if(live, [&](SlotId other) { return last_use_[other] < born_[id]; });
      for (SlotId other : live) check_pair(other, id);
      live.push_back(id);
    }
  }

  void check_pair(SlotId a, SlotId b) const {
    const Slot& x = slot(a);
    const Slot& y = slot(b);
    bool apart =
        x.byte_offset + x.bytes <= y.byte_offset || y.byte_offset + y.bytes <= x.byte_offset;
    bool in_place = last_use_[a] == born_[b] && born_[a] < born_[b] &&
                    x.byte_offset == y.byte_offset &&
                    std::holds_alternative<KernelStep>(function_.steps[born_[b]]);
    BRAZE_CHECK(apart || in_place, "slots s", a, " and s", b,
                " share bytes of the arena while both are live");
  }

  const Function& function_;
  bool bound_;
  int step_ = -1;
  std::vector<int> born_;      // by root slot: step of definition
  std::vector<int> last_use_;  // by root slot
  std::vector<bool> freed_;
  std::set<SlotId> allocated_;
};

}  // namespace

SlotId root_of(const Function& function, SlotId slot) {
  while (function.slots[slot].kind == SlotKind::kView) slot = function.slots[slot].base;
  return slot;
}

void verify(const Function& function) {
  if (!function.is_symbolic()) return Verifier(function, false).run();
  BRAZE_CHECK(
      function.arena && function.arena->symbol_count() == static_cast<int>(function.symbols.size()),
      "symbols of the arena are those of the function");
  const auto count = static_cast<SlotId>(function.slots.size());
  for (const Symbol& symbol : function.symbols) {
    if (symbol.kind == Symbol::Kind::kScalar) continue;
    BRAZE_CHECK(symbol.input >= 0 && symbol.input < function.input_count && symbol.input < count &&
                    symbol.index >= 0 && symbol.index < function.slots[symbol.input].type.rank(),
                "symbol ", symbol.name, " is bound to a dimension that is not there");
  }
  for (SlotId id = 0; id < count; ++id)
    BRAZE_CHECK(function.slots[id].place < count && function.slots[id].base < id, "slot s", id,
                ": what it refers to comes before it");
  for (SlotId id = 0; id < count; ++id) {
    SlotId place = function.slots[id].place;
    for (SlotId steps = 0; place >= 0; place = function.slots[place].place, ++steps)
      BRAZE_CHECK(steps < count && function.slots[place].kind == SlotKind::kArena, "slot s", id,
                  ": no place in the arena");
  }
  Verifier(plan::bind(function, hints(function)), true).run();
}

}  // namespace braze::plan
