// Page-locking of memory that somebody else allocated, such as the ring that worker processes fill. In
// src/cuda, or src/nocuda.
#pragma once

#include <cstddef>
#include <string>

namespace millrace::cuda {

// Locks whole pages for copies to every CUDA device, in the context of `device`. Returns why it failed, with
// the remedy; empty: done. About 0.3 ms per MiB the first time that pages are locked. Locked pages must be
// unlocked before they are unmapped.
std::string lock_pages(void* data, size_t bytes, int device);
void unlock_pages(void* data) noexcept;

}  // namespace millrace::cuda
