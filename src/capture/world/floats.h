// Python floats that vary: tensors of one element in the graph, torch.SymFloats in the traced code.
#pragma once

#include <optional>
#include <vector>

#include "capture/dynamic.h"
#include "capture/recording/recording.h"
#include "capture/world/guards.h"
#include "capture/world/tracked.h"

namespace braze::capture {

class World;

struct VaryingFloat {
  Ref object;  // a torch.SymFloat
  Ref tensor;  // the fake that has its value, f64[]
  Ref real;    // the tensor in whose place that is; empty for what is computed
  Ref number;  // its value in this call
  std::vector<const Source*> sources;  // that decide it
  const Source* host = nullptr;        // where it comes from without the graph; null: nowhere
  bool fits_float32 = false;           // guarded
};

class VaryingFloats {
 public:
  VaryingFloats(World& world, Recording& recording, TraceGuards& guards,
                const DynamicSizes* dynamic)
      : world_(world), recording_(recording), guards_(guards), dynamic_(dynamic) {}
  VaryingFloats(const VaryingFloats&) = delete;

  // In the order in which they were read or computed.
  const std::vector<VaryingFloat>& all() const { return floats_; }
  // A float from outside. An empty Tracked without a break: it is a number.
  Tracked read(PyObject* value, const Source* source);
  // Of a torch.SymFloat.
  const VaryingFloat& of(PyObject* object) const;
  // The result of arithmetic on others.
  Tracked computed(Ref tensor, Ref number, std::vector<const Source*> sources,
                   const Source* host = nullptr);
  // What a pure function of numbers gives for the constants with the float `object` at `place`
  // among them: a float that varies itself, or another number, guarded as what is read from
  // outside. It is computed by the guards of each call. Empty, with nothing pending, where that
  // cannot be.
  Tracked apply(PyObject* function, PyObject* object, size_t place,
                const std::vector<PyObject*>& constants);
  // An integer: where it comes from, null for a constant, and what it is in this call.
  struct Integer {
    const Source* source = nullptr;
    Ref number;
  };
  // What a function of two makes of them. Without a number where that raises, or one has none.
  Integer combined(PyObject* function, const Integer& a, const Integer& b);
  // What a function gives for it, or for two, if that is a float that varies.
  Tracked apply_to_integer(PyObject* function, const Integer& integer, size_t place,
                           const std::vector<PyObject*>& constants);
  Tracked apply_to_integers(PyObject* function, const Integer& a, const Integer& b);
  const Source* computed_source(PyObject* function, const Source* base, size_t place,
                                const std::vector<PyObject*>& constants,
                                const Source* other = nullptr);
  // The same of two floats that vary.
  Tracked apply_to_two(PyObject* function, PyObject* a, PyObject* b);
  // What a tensor that counts has after the traced code's additions, as a float that varies. Empty
  // where that cannot be.
  Tracked item(const Source* tensor, const Recording::Counter& counter);
  // Whether a tensor of float32 can hold it as it is: a guard.
  bool fits_float32(PyObject* object);
  // The number itself: the code works for this one only.
  Ref number_of(PyObject* object);
  // How the float compares with a number, as a guard; nothing where that cannot be a guard.
  std::optional<bool> compare(PyObject* object, PyObject* number, int op);
  // The same of two floats that vary.
  std::optional<bool> compare_two(PyObject* a, PyObject* b, int op);
  // Sources of floats that had to be numbers.
  std::vector<const Source*> fixed() const;

 private:
  Tracked make(PyObject* value, const Source* source);
  // As `make`, where calls before have not shown that the code needs the number.
  Tracked make_again(PyObject* value, const Source* source);

  World& world_;
  Recording& recording_;
  TraceGuards& guards_;
  const DynamicSizes* dynamic_;
  std::vector<VaryingFloat> floats_;
  std::vector<const Source*> computed_sources_;
};

}  // namespace braze::capture
