// Tensors filled with one number (results of aten.full), and arithmetic on them.
#pragma once

#include <optional>

#include "graph/graph.h"

namespace braze::passes {

// The number in every element: of a real scalar argument, or of a tensor made by aten.full, as its
// dtype holds it. Integers that a double does not hold exactly count as not uniform.
std::optional<double> uniform_value(const graph::Argument& argument);

// The number that fills the result of a view of, or of elementwise arithmetic on, uniform tensors,
// as an argument for aten.full. Only ops that are exact or correctly rounded (no exp), and only
// dtypes f32, f64, bool and integers without overflow.
std::optional<graph::Argument> fold_to_uniform(const graph::Node& node);

}  // namespace braze::passes
