#include "runtime/bound_plan.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/detach_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstring>

#include "base/options.h"
#include "runtime/executable.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;

// Plans run on data, below everything that watches or rewrites ATen calls.
const c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

bool is_dense(const graph::TensorType& type) { return type.is_contiguous(); }

}  // namespace

struct BoundPlan::Context {
  explicit Context(BoundPlan& bound)
      : tensors(bound.plan_.slots.size()), pointers(bound.plan_.slots.size(), nullptr) {
    for (size_t i = 0; i < bound.constants_.size() && i < tensors.size(); ++i) {
      if (!bound.constants_[i].defined()) continue;
      tensors[i] = bound.constants_[i];
      pointers[i] = bound.constants_[i].data_ptr();
    }
    if (bound.arenas_ == nullptr) attach(bound, std::make_unique<Arena>(bound.plan_.arena_bytes));
  }

  // Slots whose memory is there for all calls lie in this arena now.
  void attach(BoundPlan& bound, std::unique_ptr<Arena> from) {
    arena = std::move(from);
    if (arena->data() == attached && is_attached) return;
    attached = arena->data();
    is_attached = true;
    for (size_t i = 0; i < bound.plan_.slots.size(); ++i) {
      const plan::Slot& slot = bound.plan_.slots[i];
      const Geometry& geometry = bound.geometry_[i];
      if (slot.kind == SlotKind::kArena) {
        pointers[i] = arena->data() + slot.byte_offset;
        if (bound.has_externs_)
          tensors[i] = borrow_tensor(pointers[i], geometry.sizes, geometry.strides, geometry.dtype,
                                     slot.bytes);
      } else if (slot.kind == SlotKind::kView && bound.survives_[i]) {
        bound.bind_view(static_cast<SlotId>(i), *this);
      }
    }
  }

  std::unique_ptr<Arena> arena;  // null while the context is idle and arenas are shared
  char* attached = nullptr;
  bool is_attached = false;
  std::vector<at::Tensor> tensors;  // by slot
  std::vector<void*> pointers;      // by slot
  std::vector<void*> kernel_args;
};

BoundPlan::BoundPlan(plan::Plan plan, std::vector<at::Tensor> constants,
                     std::vector<KernelFunction> functions, ArenaPool* arenas,
                     const BoundPlan* like)
    : plan_(std::move(plan)),
      constants_(std::move(constants)),
      functions_(std::move(functions)),
      arenas_(arenas) {
  prepare(like);
}
BoundPlan::~BoundPlan() = default;

void BoundPlan::prepare(const BoundPlan* like) {
  for (const plan::Slot& slot : plan_.slots)
    geometry_.push_back({sym::constants(slot.type.sizes), sym::constants(slot.type.strides),
                         scalar_type(slot.type.dtype)});
  survives_.assign(plan_.slots.size(), 0);
  for (size_t i = 0; i < plan_.slots.size(); ++i) {
    const plan::Slot& slot = plan_.slots[i];
    if (slot.kind == SlotKind::kArena) survives_[i] = 1;
    if (slot.kind == SlotKind::kInput && i < constants_.size() && constants_[i].defined())
      survives_[i] = 1;
    if (slot.kind == SlotKind::kView) survives_[i] = survives_[slot.base];
    if (slot.kind == SlotKind::kOutput) output_slots_.push_back(static_cast<SlotId>(i));
    if (slot.kind == SlotKind::kView && !survives_[i])
      input_views_.push_back(static_cast<SlotId>(i));
  }
  views_of_.resize(plan_.slots.size());
  for (SlotId view : input_views_) views_of_[root_of(view)].push_back(view);
  std::vector<uint8_t> used(plan_.slots.size(), 0);
  written_.assign(plan_.input_count, 0);
  for (const plan::Step& step : plan_.steps) {
    if (auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      steps_.push_back(PreparedKernel{functions_.at(kernel->kernel), kernel->args,
                                      sym::constants(plan_.kernels[kernel->kernel].sizes),
                                      kernel->extent.constant(), kernel->grain.constant()});
    } else if (auto* call = std::get_if<plan::ExternStep>(&step)) {
      has_externs_ = true;
      steps_.push_back(
          like == nullptr ? std::make_unique<ExternCall>(plan_, *call)
                          : std::make_unique<ExternCall>(
                                *std::get<std::unique_ptr<ExternCall>>(like->steps_[steps_.size()]),
                                plan_, *call));
      auto mark = [&](SlotId slot) { used[root_of(slot)] = 1; };
      for (const plan::Argument& argument : call->args) {
        if (auto* slot = std::get_if<SlotId>(&argument)) mark(*slot);
        if (auto* list = std::get_if<std::vector<SlotId>>(&argument))
          for (SlotId slot : *list) mark(slot);
        if (auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
          for (const auto& slot : list->refs)
            if (slot) mark(*slot);
      }
    } else if (auto* copy = std::get_if<plan::CopyStep>(&step)) {
      const auto& target = plan_.slots[copy->target].type;
      const auto& source = plan_.slots[copy->source].type;
      bool plain = target.dtype == source.dtype && is_dense(target) && is_dense(source);
      int64_t bytes = plain ? target.numel().constant() * graph::size_of(target.dtype) : -1;
      if (SlotId root = root_of(copy->target); root < plan_.input_count) written_[root] = 1;
      used[root_of(copy->target)] = 1;
      used[root_of(copy->source)] = 1;
      steps_.push_back(PreparedCopy{copy->target, copy->source, bytes});
      has_externs_ = true;
    } else {
      steps_.push_back(std::get<plan::FreeStep>(step));
    }
  }
  for (SlotId slot : plan_.outputs) {
    BRAZE_CHECK(plan_.slots[root_of(slot)].kind != SlotKind::kArena, "output ", slot,
                " in the arena");
    while (plan_.slots[slot].base >= 0) slot = plan_.slots[slot].base;
    used[slot] = 1;
  }
  for (SlotId slot = 0; slot < plan_.input_count; ++slot)
    if (used[slot] && !survives_[slot]) extern_inputs_.push_back(slot);
}

std::unique_ptr<BoundPlan::Context> BoundPlan::take_context() {
  std::unique_ptr<Context> context;
  {
    std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      context = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (context == nullptr) context = std::make_unique<Context>(*this);
  if (arenas_ != nullptr) context->attach(*this, arenas_->take(plan_.arena_bytes));
  return context;
}

void BoundPlan::return_context(std::unique_ptr<Context> context) {
  // Nothing of the caller's is kept alive between calls.
  for (SlotId slot : extern_inputs_) context->tensors[slot].reset();
  for (SlotId slot : input_views_) context->tensors[slot].reset();
  for (SlotId slot : output_slots_) context->tensors[slot].reset();
  if (arenas_ != nullptr) arenas_->give(std::move(context->arena));
  std::lock_guard lock(mutex_);
  idle_.push_back(std::move(context));
}

void BoundPlan::bind_view(SlotId slot, Context& context) {
  const plan::Slot& view = plan_.slots[slot];
  context.pointers[slot] = static_cast<char*>(context.pointers[view.base]) + view.byte_offset;
  if (!has_externs_) return;
  const at::Tensor& base = context.tensors[view.base];
  if (!base.defined()) return;
  const Geometry& shape = geometry_[slot];
  context.tensors[slot] = at::_ops::as_strided::call(
      base, c10::fromIntArrayRefSlow(shape.sizes), c10::fromIntArrayRefSlow(shape.strides),
      base.storage_offset() + view.byte_offset / graph::size_of(view.type.dtype));
}

void BoundPlan::run_kernel(const PreparedKernel& kernel, Context& context) {
  if (kernel.extent == 0) return;  // empty tensors: not even a hoisted load may run
  auto& args = context.kernel_args;
  args.resize(kernel.args.size());
  for (size_t i = 0; i < args.size(); ++i) args[i] = context.pointers[kernel.args[i]];
  int64_t status = 0;
  if (kernel.extent <= kernel.grain || at::get_num_threads() == 1 || at::in_parallel_region()) {
    status = kernel.function(args.data(), kernel.sizes.data(), 0, kernel.extent);
  } else {
    std::atomic<int64_t> failed{0};
    at::parallel_for(0, kernel.extent, kernel.grain, [&](int64_t begin, int64_t end) {
      if (int64_t code = kernel.function(args.data(), kernel.sizes.data(), begin, end))
        failed = code;
    });
    status = failed;
  }
  if (status != 0) throw NeedsEager();
}

void BoundPlan::run_copy(const PreparedCopy& copy, Context& context) {
  const at::Tensor& target = context.tensors[copy.target];
  if (copy.bytes >= 0) {
    std::memmove(context.pointers[copy.target], context.pointers[copy.source], copy.bytes);
  } else {
    // A source that a kernel wrote has a tensor only when some extern call needed one.
    at::_ops::copy_::call(const_cast<at::Tensor&>(target), context.tensors[copy.source], false);
  }
  auto* impl = target.unsafeGetTensorImpl();
  if (plan_.slots[root_of(copy.target)].kind == SlotKind::kInput && !impl->is_inference())
    impl->bump_version();
}

void BoundPlan::run(Context& context, std::span<c10::TensorImpl* const> inputs,
                    std::vector<at::Tensor>& outputs) {
  for (SlotId slot = 0; slot < plan_.input_count; ++slot)
    if (!survives_[slot])  // a plain read leaves copy-on-write storage shared
      context.pointers[slot] =
          written_[slot] ? inputs[slot]->mutable_data() : const_cast<void*>(inputs[slot]->data());
  for (SlotId slot : extern_inputs_)
    context.tensors[slot] = at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(inputs[slot]));
  for (SlotId slot : output_slots_) {
    context.tensors[slot] = allocate_tensor(geometry_[slot].sizes, geometry_[slot].strides,
                                            geometry_[slot].dtype, plan_.slots[slot].bytes);
    context.pointers[slot] = context.tensors[slot].unsafeGetTensorImpl()->mutable_data();
  }
  bool check = has_externs_ && (!checked_.load(std::memory_order_relaxed) || options().verify);
#ifdef BRAZE_CHECKS
  check = has_externs_;
#endif
  {
    c10::impl::ExcludeDispatchKeyGuard below(kExcluded);
    // Views whose base is there from the start; those of extern results are bound when it exists.
    for (SlotId slot : input_views_)
      if (plan_.slots[root_of(slot)].kind != SlotKind::kExtern) bind_view(slot, context);
    for (const PreparedStep& step : steps_) {
      if (auto* kernel = std::get_if<PreparedKernel>(&step)) {
        run_kernel(*kernel, context);
      } else if (auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step)) {
        (*call)->run(context.tensors, check);
        for (SlotId result : (*call)->results())
          if (result >= 0 && plan_.slots[result].kind == SlotKind::kExtern) {
            const at::Tensor& tensor = context.tensors[result];
            context.pointers[result] =
                tensor.defined() ? tensor.unsafeGetTensorImpl()->mutable_data() : nullptr;
            for (SlotId view : views_of_[result]) bind_view(view, context);
          }
      } else if (auto* copy = std::get_if<PreparedCopy>(&step)) {
        run_copy(*copy, context);
      } else {
        SlotId freed = std::get<plan::FreeStep>(step).slot;
        context.tensors[freed].reset();
        for (SlotId view : views_of_[freed]) context.tensors[view].reset();
      }
    }
  }
  if (check) checked_ = true;
  for (SlotId slot : plan_.outputs) outputs.push_back(make_output(slot, context));
}

at::Tensor BoundPlan::make_output(SlotId slot, const Context& context) const {
  SlotId base = slot;
  while (plan_.slots[base].base >= 0) base = plan_.slots[base].base;
  if (base == slot) return context.tensors[slot];
  // A view of an input or of another output is made above autograd's keys, so that it knows its
  // base and shares its version counter, as eager's does.
  at::Tensor origin = context.tensors[base];
  // No output requires grad; one that views a parameter was detached.
  if (origin.defined() && origin.requires_grad()) origin = at::_ops::detach::call(origin);
  if (plan_.slots[slot].kind == SlotKind::kExtern) {
    const at::Tensor& view = context.tensors[slot];
    if (!origin.defined() || view.dtype() != origin.dtype()) return view;
    return at::_ops::as_strided::call(origin, view.sym_sizes(), view.sym_strides(),
                                      view.sym_storage_offset());
  }
  const Geometry& shape = geometry_[slot];
  if (shape.dtype != origin.scalar_type()) return context.tensors[slot];
  int64_t bytes =
      static_cast<char*>(context.pointers[slot]) - static_cast<char*>(context.pointers[base]);
  return at::_ops::as_strided::call(
      origin, c10::fromIntArrayRefSlow(shape.sizes), c10::fromIntArrayRefSlow(shape.strides),
      origin.storage_offset() + bytes / graph::size_of(plan_.slots[slot].type.dtype));
}

void BoundPlan::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs) {
  BRAZE_CHECK(static_cast<int64_t>(inputs.size()) == plan_.input_count);
  auto context = take_context();
  size_t before = outputs.size();
  try {
    run(*context, inputs, outputs);
  } catch (...) {
    // The context may hold half-made tensors: it is not used again. Nothing is swallowed.
    outputs.resize(before);
    throw;
  }
  return_context(std::move(context));
}

bool BoundPlan::writes_inputs_early() const {
  for (const PreparedStep& step : steps_)
    if (auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step))
      if ((*call)->writes_arguments()) return true;
  return false;
}

}  // namespace braze::runtime
