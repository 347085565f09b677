// Arguments of a graph's nodes and of a plan's steps as PyTorch's operators take them: boxed.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include "graph/argument.h"
#include "pytorch/convert.h"

namespace braze::pytorch {

// Values for the parameter `formal` of an operator. A number may stand for a tensor there, and what
// a list holds is told by the parameter alone where the list is empty.
c10::IValue boxed_none(const c10::Argument& formal);
c10::IValue boxed_number(const c10::Scalar& number, const c10::Argument& formal);
c10::IValue boxed_list(const std::vector<int64_t>& numbers, const c10::Argument& formal);
c10::IValue boxed_list(const std::vector<double>& numbers, const c10::Argument& formal);
c10::IValue boxed_list(const std::vector<bool>& flags);
int64_t boxed_format(graph::MemoryFormat format);

// `tensor_of(Ref)` and `number_of(sym::Int)` give what stands for the argument's tensors and
// integers.
template <class Ref, class TensorOf, class NumberOf>
c10::IValue boxed(const graph::BasicArgument<Ref>& argument, const c10::Argument& formal,
                  const TensorOf& tensor_of, const NumberOf& number_of) {
  return std::visit(
      [&](const auto& value) -> c10::IValue {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, graph::None>) {
          return boxed_none(formal);
        } else if constexpr (std::is_same_v<T, Ref>) {
          return tensor_of(value);
        } else if constexpr (std::is_same_v<T, std::vector<Ref>>) {
          c10::List<at::Tensor> list;
          for (const Ref& element : value) list.push_back(tensor_of(element));
          return list;
        } else if constexpr (std::is_same_v<T, graph::OptionalRefs<Ref>>) {
          c10::List<std::optional<at::Tensor>> list;
          for (const std::optional<Ref>& element : value.refs)
            list.push_back(element ? std::optional<at::Tensor>(tensor_of(*element)) : std::nullopt);
          return list;
        } else if constexpr (std::is_same_v<T, sym::Int>) {
          return boxed_number(int64_t{number_of(value)}, formal);
        } else if constexpr (std::is_same_v<T, double> || std::is_same_v<T, bool>) {
          return boxed_number(value, formal);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          return boxed_number(c10::complex<double>(value.real(), value.imag()), formal);
        } else if constexpr (std::is_same_v<T, std::vector<sym::Int>>) {
          std::vector<int64_t> numbers;
          for (sym::Int element : value) numbers.push_back(number_of(element));
          return boxed_list(numbers, formal);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          return boxed_list(value, formal);
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          return boxed_list(value);
        } else if constexpr (std::is_same_v<T, graph::DType>) {
          return static_cast<int64_t>(scalar_type_of(value));
        } else if constexpr (std::is_same_v<T, graph::Device>) {
          return device_of(value);
        } else if constexpr (std::is_same_v<T, graph::MemoryFormat>) {
          return boxed_format(value);
        } else if constexpr (std::is_same_v<T, graph::Layout>) {
          return static_cast<int64_t>(at::kStrided);
        } else {
          static_assert(std::is_same_v<T, std::string>);
          return value;
        }
      },
      argument);
}

}  // namespace braze::pytorch
