// The memory under tensors that others own: kept where it is while threads read it, and whether it is still
// what it was. All need the GIL.
#pragma once

#include <memory>

#include "torch_bridge/tensor.h"

namespace millrace::torch_bridge {

// Whether a Python object is a torch.Tensor, or of a class derived from it.
bool is_tensor(_object* value);

// The element type, sizes and strides (always given) of a tensor at this moment, without an offset; and
// whether they are these, and the tensor asks for no gradients.
TensorField form_of(_object* tensor);
bool has_form(_object* tensor, const TensorField& form);

// Keeps a CPU tensor's memory, where it lies, as long as the result lives, whatever is done to the tensor:
// resize_(), set_(), share_memory_() and an assignment to .data give it other memory and would end this one.
// Writes are seen as before. Memory that is shared already is kept, too, but not against a change of torch's
// sharing strategy; page-locked memory not against resize_(): torch knows both by the very owner that would
// have to be exchanged. The result may end on any thread. Some 1 us.
std::shared_ptr<const void> hold_memory(_object* tensor);

// False: the memory is certainly no file's.
bool may_be_mapped(_object* tensor);

}  // namespace millrace::torch_bridge
