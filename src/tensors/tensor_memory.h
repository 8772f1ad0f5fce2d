// The memory under tensors that others own: kept where it is while threads read it, and whether it is still
// what it was. All need the GIL.
#pragma once

#include <memory>

#include "collate/row_gather.h"
#include "tensors/tensor.h"

namespace millrace::tensors {

// Whether a Python object is a torch.Tensor, or of a class derived from it.
bool is_tensor(_object* value);

// The element type, sizes and strides (always given) of a tensor at this moment, without an offset. Throws
// Error(invalid_argument) for anything but a dense CPU tensor of an ordinary element type.
TensorField form_of(_object* tensor);

// Whether a tensor is as it was: of that form, with its rows where they were, without gradients. Some 60 ns.
bool is_in_place(_object* tensor, const TensorField& form, const collate::RowTable& rows);

// Facts about a CPU tensor's memory to check before its rows are read.
struct MemoryFacts {
  bool may_be_mapped = true;  // false: it is certainly no file's
  bool is_cut_short = false;  // it ends before the last row does, as after untyped_storage().resize_()
};
MemoryFacts memory_facts(_object* tensor);

// A CPU tensor's memory, kept as long as `keeper` lives.
struct HeldMemory {
  std::shared_ptr<const void> keeper;  // may end on any thread
  // It stays where it lies whatever is done to the tensor: resize_(), set_(), share_memory_() and an
  // assignment to .data give it other memory and would end this one. Writes are seen as before. False, where
  // this torch cannot do that: then a thread that reads the memory must hold the GIL, and look first whether
  // it is still there.
  bool stays = false;
};

// Whether this torch can do that.
bool can_hold_memory();

// Memory that is shared already is kept, too, but not against a change of torch's sharing strategy;
// page-locked memory not against resize_(): torch knows both by the very owner that would have to be
// exchanged. Some 2 us.
HeldMemory hold_memory(_object* tensor);

}  // namespace millrace::tensors
