#include "core/fork_guard.h"

#include <pthread.h>

#include <atomic>

namespace millrace::core {
namespace {

// Relaxed is enough: the child starts with one thread, the one that stored the new number.
std::atomic<uint64_t> generation{0};

[[maybe_unused]] const int registered =
    pthread_atfork(nullptr, nullptr, [] { generation.fetch_add(1, std::memory_order_relaxed); });

}  // namespace

uint64_t fork_generation() noexcept { return generation.load(std::memory_order_relaxed); }

}  // namespace millrace::core
