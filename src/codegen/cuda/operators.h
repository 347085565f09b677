// The arithmetic of elements as CUDA C++.
#pragma once

#include <span>
#include <string>

#include "loop/ir.h"

namespace braze::codegen::cuda {

// "f32", "i64", "bool"; halves are the u16 that holds them.
std::string type_of(graph::DType dtype);
// As it lies in memory: a bool is a u8.
std::string storage_type_of(graph::DType dtype);

std::string literal(loop::ExprRef constant);
std::string cast(const std::string& value, graph::DType from, graph::DType to);
// An op of the list in loop/ops.h, but for those that hold other code or memory back. `operand`:
// dtype of the operands, `type`: of integers that are not i64 as such, the type to compute in.
std::string operation(loop::ExprKind kind, graph::DType operand, const std::string& type,
                      std::span<const std::string> args);

// "Sum<f32>" and so on: the partial result of a reduction.
std::string accumulator_of(const loop::Statement& reduction);
// What a kReduced of it is.
std::string result_of(const loop::Statement& reduction, int component, const std::string& name);

}  // namespace braze::codegen::cuda
