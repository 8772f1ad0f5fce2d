// States of JSON's types: copied, and summed up, in one walk.
//
// What python/millrace/_common/states.py does for any state, for the usual ones in a tenth of the time. All
// members need the GIL, and run no code of the state's objects: these are exactly of JSON's types.
#pragma once

#include <optional>
#include <string>

#include "bindings.h"

namespace millrace::python {

struct PlainState {
  py::object copy;  // dicts and lists are new; the rest is shared
  std::string sum;  // CRC-32 of its canonical JSON, which has a few letters in place of each long text
};

// nullopt: the state has something else than dicts with keys of text, lists, text, numbers, True, False and
// None; or is too deep, or has a lone half of a surrogate pair. `names`: the entries of the outermost
// dict that the sum is of; null: all.
std::optional<PlainState> plain_state(PyObject* state, PyObject* names);

}  // namespace millrace::python
