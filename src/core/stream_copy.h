// copy_to_memory: memcpy for what the copying core will not read again soon.
//
// The destination goes past the caches, which saves reading it first and keeps the source's cache lines: for rows of batches that
// are larger than the caches, whose reader is another core or a device (measured: 12 % more batches per second where the consumer
// reads all of them, 28 % where it does not). For small copies memcpy is faster. Any thread; done when it returns.
#pragma once

#include <cstddef>

namespace millrace {

void copy_to_memory(void* to, const void* from, size_t bytes);

// Whether a row of a batch is worth it: larger than a core's own caches, in a batch larger than most shared ones.
inline bool worth_streaming(size_t row_bytes, size_t batch_bytes) {
  return row_bytes >= size_t{256} << 10 && batch_bytes >= size_t{16} << 20;
}

}  // namespace millrace
