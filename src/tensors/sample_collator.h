// collate_samples, convert_sample: torch's default_collate and default_convert.
//
// Batches are those of torch to the last bit and stride: the same tree as the first sample's, each leaf a
// tensor with one row per sample. default_collate goes through the list once for each leaf, and makes a
// tensor of each number. Samples that tensors/sample_tree.h takes, all alike. Need the GIL, which is released
// while large rows are copied, by as many threads as torch would take.
#pragma once

#include "core/batch_ring.h"

struct _object;  // PyObject

namespace millrace::tensors {

// Large fields are in slots of the ring as long as it has free ones; its bound follows the number of such
// fields. New memory costs a page fault for each 4 KiB where malloc gives such blocks back to the system
// (glibc: 32 MiB and more).
//
// A new reference; or null without an error: the caller must ask default_collate, which makes the batch or
// raises the samples' error. Null, too, while a mode of torch is active (set_default_device() is one), which
// may make other tensors. Throws PythonError.
_object* collate_samples(_object* samples, core::BatchRing& ring);

// The result of torch's default_convert for one sample: containers of these very types are walked here,
// `others` is asked about every leaf that it might change. A new reference. Throws PythonError.
_object* convert_sample(_object* sample, _object* others);

// Whether a profiler or another listener gets the ranges of torch's record_function(). True if this torch
// does not tell.
bool ranges_are_heard();
bool knows_who_listens();

}  // namespace millrace::tensors
