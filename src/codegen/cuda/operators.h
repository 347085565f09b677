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
// Of a parameter, or of what it points to.
std::string parameter_type(const loop::BufferParam& param);

std::string literal(loop::ExprRef constant);
std::string cast(const std::string& value, graph::DType from, graph::DType to);
// An op of loop/ops.h, except those that load, mask or check. `operand`: dtype of the operands.
// `type`: what i64 is computed in: "i32" for index arithmetic that fits.
std::string operation(loop::ExprKind kind, graph::DType operand, const std::string& type,
                      std::span<const std::string> args);

// "Sum<f32>" and so on: the partial result of a reduction. `place`: the type of an inner point's
// number.
std::string accumulator_of(const loop::Statement& reduction, const std::string& place);
// The value of a kReduced: a component of the accumulator `name`.
std::string result_of(const loop::Statement& reduction, int component, const std::string& name);

}  // namespace braze::codegen::cuda
