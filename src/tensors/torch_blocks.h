// Blocks of torch's own memory, page-locked or not, for batches that go to a device: torch's copies know by
// its own storage how long such memory is read, as they do for pin_memory().
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/dtype.h"
#include "core/slot_memory.h"

struct _object;  // PyObject

namespace millrace::tensors {

// From torch's allocator; a lease of one becomes a tensor over that very storage. Page-locked memory that
// cannot be had is ordinary memory instead. `node`: the NUMA node that it should lie on; -1: any. Blocks are
// made and dropped on any thread, which may hold locks that a thread with the GIL waits for, so this goes by
// torch's C functions (aoti_torch_*), which need no GIL. A torch without them gives ordinary memory, in
// blocks of millrace's own.
core::BlockSource torch_blocks(bool page_locked, int node);

// Whether this torch has what torch_blocks() asks for.
bool has_torch_blocks();

// A new reference to a tensor over a part of the block that `owner` is MemoryBlock::owner() of, `offset`
// bytes in; row-major. The storage is torch's, and the tensor is no view, so each field has a version counter
// of its own. Needs the GIL; throws pybind11::error_already_set.
_object* tensor_of_block(const std::shared_ptr<void>& owner, size_t offset, const std::vector<int64_t>& sizes,
                         base::DType type);

}  // namespace millrace::tensors
