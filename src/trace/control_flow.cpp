#include "trace/control_flow.h"

#include <ATen/ops/clone.h>

#include <set>

#include "graph/stages.h"
#include "trace/shapes/common.h"
#include "trace/trace_state.h"

namespace braze::trace {
namespace {

const graph::Op* mark(const char* name) {
  return &graph::find_or_add_op(name, graph::Effects{.opaque = true});
}

at::Tensor fake_of_type(const graph::TensorType& type, sym::ShapeEnv& shapes) {
  auto put = [&](const sym::Dims& dims) {
    Dims result;
    for (const sym::Int& dim : dims) result.push_back(to_symint(dim, shapes));
    return result;
  };
  return make_fake(put(type.sizes), put(type.strides), scalar_type_of(type.dtype));
}

bool same(const graph::TensorType& a, const graph::TensorType& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.dtype == b.dtype && a.device == b.device;
}

bool is_flag(const graph::TensorType& type) {
  if (type.dtype != graph::DType::kBool) return false;
  for (const sym::Int& size : type.sizes)
    if (size != sym::Int(1)) return false;
  return true;
}

}  // namespace

std::string ControlFlow::why_not() const {
  return state_.may_run_again() ? ""
                                : "an input has been changed before it, or a random number drawn";
}

int ControlFlow::begin() {
  Region region;
  region.first_value = state_.graph_.value_count();
  region.first_storage = state_.graph_.new_storage();
  region.data_capture = std::exchange(state_.data_capture, {});
  static const graph::Op* const op = mark(graph::kRegionBegin);
  state_.graph_.add_node(*op, {sym::Int(count_)}, {}, state_.origin());
  regions_[count_] = std::move(region);
  open_.push_back(count_);
  return count_++;
}

std::string ControlFlow::end(int number, std::vector<at::Tensor> outputs) {
  BRAZE_CHECK(!open_.empty() && open_.back() == number, "regions end in order");
  std::set<int> storages;
  std::vector<graph::Value*> values;
  Region& region = regions_.at(number);
  for (at::Tensor& output : outputs) {
    FakeTensorImpl* fake = state_.fake_of(output, graph::Op{});
    if (is_outer_storage(fake->value->storage())) {
      const graph::TensorType before = type_of(output);
      output = at::clone(output);
      if (!same(before, type_of(output))) return "it gives a view whose copy lies otherwise";
      region.copies = true;
      fake = state_.fake_of(output, graph::Op{});
    }
    if (!storages.insert(fake->value->storage()).second) return "two of its results share memory";
    values.push_back(fake->value);
    region.types.push_back(type_of(output));
    region.types.back().offset = 0;
  }
  static const graph::Op* const op = mark(graph::kRegionEnd);
  state_.graph_.add_node(*op, {sym::Int(number), std::move(values)}, {}, state_.origin());
  region.end_value = state_.graph_.value_count();
  state_.data_capture = region.data_capture;
  open_.pop_back();
  return "";
}

bool ControlFlow::is_outer_storage(int storage) const {
  return state_.is_outside_storage(storage) || storage < regions_.at(open_.back()).first_storage;
}

bool ControlFlow::is_gone(const graph::Value& value) const {
  if (regions_.empty() || !value.producer()) return false;
  for (const auto& [number, region] : regions_)
    if (value.id() >= region.first_value && value.id() < region.end_value) return true;
  return false;
}

std::vector<at::Tensor> ControlFlow::add(const graph::Op& op,
                                         std::vector<graph::Argument> arguments,
                                         const std::vector<graph::TensorType>& types) {
  std::vector<at::Tensor> fakes;
  std::vector<int> storages;
  for (const graph::TensorType& type : types) {
    fakes.push_back(fake_of_type(type, state_.shapes));
    storages.push_back(state_.storage_number(as_fake(fakes.back())->unsafe_storage()));
  }
  graph::Node* node = state_.graph_.add_node(op, std::move(arguments), types, state_.origin(),
                                             nullptr, std::move(storages));
  for (size_t i = 0; i < fakes.size(); ++i)
    state_.bind(as_fake(fakes[i]), node->result(static_cast<int>(i)));
  return fakes;
}

at::Tensor ControlFlow::parameter(const at::Tensor& like, int number) {
  FakeTensorImpl* fake = state_.fake_of(like, graph::Op{});
  graph::TensorType type = fake->value->type();
  type.offset = 0;
  static const graph::Op* const op = mark(graph::kRegionParameter);
  return add(*op, {sym::Int(number)}, {type})[0];
}

std::vector<at::Tensor> ControlFlow::cond(const at::Tensor& predicate, int yes, int no,
                                          std::string* why) {
  graph::Value* flag = state_.fake_of(predicate, graph::Op{})->value;
  const std::vector<graph::TensorType>&types = regions_.at(yes).types,
        &others = regions_.at(no).types;
  if (!is_flag(flag->type())) *why = "its predicate is no bool of one element";
  if (!std::equal(types.begin(), types.end(), others.begin(), others.end(), same))
    *why = "its branches give tensors of different sizes, strides or dtypes";
  if (!why->empty()) return {};
  static const graph::Op* const op = mark(graph::kCond);
  return add(*op, {flag, sym::Int(yes), sym::Int(no)}, types);
}

std::vector<at::Tensor> ControlFlow::loop(int condition, int body,
                                          const std::vector<at::Tensor>& carried,
                                          std::string* why) {
  std::vector<graph::Value*> values;
  std::vector<graph::TensorType> types;
  for (const at::Tensor& tensor : carried) {
    values.push_back(state_.fake_of(tensor, graph::Op{})->value);
    types.push_back(values.back()->type());
    types.back().offset = 0;
  }
  const std::vector<graph::TensorType>&flags = regions_.at(condition).types,
        &given = regions_.at(body).types;
  for (const at::Tensor& tensor : carried)
    if (!tensor.is_non_overlapping_and_dense()) *why = "it carries a tensor whose memory has gaps";
  if (regions_.at(body).copies) *why = "its body gives memory that is not its own";
  if (flags.size() != 1 || !is_flag(flags[0])) *why = "its condition is no bool of one element";
  if (!std::equal(types.begin(), types.end(), given.begin(), given.end(), same))
    *why = "its body gives tensors of other sizes, strides or dtypes than it takes";
  if (!why->empty()) return {};
  static const graph::Op* const op = mark(graph::kWhile);
  return add(*op, {sym::Int(condition), sym::Int(body), std::move(values)}, types);
}

}  // namespace braze::trace
