// Chains of dicts, as lowering makes them, to TransformSpecs.
#pragma once

#include "bindings.h"
#include "millrace/transform_spec.h"

namespace millrace::python {

// ValueError naming the field that is missing or not known.
TransformSpec make_spec(const py::dict& op);

}  // namespace millrace::python
