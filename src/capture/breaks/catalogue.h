// The catalogue of everything that Braze says to its users: breaks (reason.h) and errors of
// use. docs/breaks.md is made from it, and a test runs every example.
#pragma once

#include <span>

#include "capture/breaks/reason.h"

namespace braze::capture {

struct BreakWords {
  BreakKind kind;
  const char *id, *number, *why, *way_out;
  // A Python script whose last line is a call of a function `f` that breaks so; empty for a defect
  // of Braze and what takes too long to show.
  const char* example;
};
const BreakWords& words_of(BreakKind kind);

// An error of use: raised by Python, with its number at the end of the message.
struct ErrorWords {
  const char *number, *exception, *what, *way_out;
  const char* example;  // a script that raises it
};

std::span<const BreakWords> break_catalogue();
std::span<const ErrorWords> error_catalogue();

}  // namespace braze::capture
