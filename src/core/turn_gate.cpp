#include "core/turn_gate.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <string>
#include <utility>

#include "base/clock.h"
#include "millrace/error.h"

namespace millrace::core {
namespace {

constexpr uint32_t kOpen = uint32_t{1} << 30;  // more than the tasks ever on their way

static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t) &&
              std::atomic<uint32_t>::is_always_lock_free);

// Not FUTEX_PRIVATE: the other side may be another process. Spurious wake-ups do not matter: wait() checks
// the word again.
void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

}  // namespace

TurnGate::TurnGate(std::shared_ptr<State> state) : state_(std::move(state)) {}

TurnGate TurnGate::in_own_memory() { return TurnGate(std::make_shared<State>()); }

void TurnGate::add(uint32_t difference) {
  state_->allowed.fetch_add(difference, std::memory_order_relaxed);
  futex(state_->allowed, FUTEX_WAKE, INT_MAX, nullptr);
}

void TurnGate::set_limit(int limit) {
  if (limit < 1)
    throw Error(ErrorKind::invalid_argument, "at least one worker has to work, got " + std::to_string(limit));
  if (open_) return;
  const auto wanted = static_cast<uint32_t>(limit);
  if (wanted != limit_) add(wanted - limit_);
  limit_ = wanted;
}

void TurnGate::open() {
  if (!open_) add(kOpen);
  open_ = true;
}

void TurnGate::close() {
  state_->closed.store(1, std::memory_order_relaxed);
  open();  // the word changes, so a thread that is about to sleep does not
}

bool TurnGate::wait(uint32_t number, int64_t timeout_ns) const {
  const int64_t deadline = base::now_ns() + timeout_ns;
  for (;;) {
    const uint32_t allowed = state_->allowed.load(std::memory_order_relaxed);
    if (closed()) return false;
    if (static_cast<int32_t>(allowed - number) > 0) return true;
    const int64_t left = deadline - base::now_ns();
    if (left <= 0) return false;
    const timespec timeout{static_cast<time_t>(left / 1'000'000'000),
                           static_cast<long>(left % 1'000'000'000)};
    futex(state_->allowed, FUTEX_WAIT, allowed, &timeout);
  }
}

bool TurnGate::closed() const { return state_->closed.load(std::memory_order_relaxed) != 0; }

void TurnGate::end() { add(1); }

}  // namespace millrace::core
