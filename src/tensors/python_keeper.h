// keep_object: a Python object as the owner of memory that threads without the GIL read, and let go of.
#pragma once

#include <memory>

struct _object;  // PyObject

namespace millrace::tensors {

// Keeps the object (its reference is taken over). Needs the GIL; the result may end on any thread. Where that
// thread has no GIL, the object ends with the next call of let_go_of_kept(), so memory may stay until then.
std::shared_ptr<const void> keep_object(_object* object);

// Ends the objects that threads without the GIL left. Needs the GIL; keep_object() does this, too.
void let_go_of_kept();

}  // namespace millrace::tensors
