// Copies of data that is larger than the caches and not read again soon: a batch for a later step, or for a
// device.
#pragma once

#include <cstddef>

namespace millrace::collate {

// Copies the bytes [from, from + size) to `to`; the two do not overlap. A usual copy reads the destination's
// lines before it writes them, and memcpy() avoids that only for much larger sizes. These stores do not, and
// leave other data in the caches. Any thread, any alignment.
void streamed_copy(const void* from, size_t size, void* to);

}  // namespace millrace::collate
