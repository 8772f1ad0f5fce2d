// RaggedStore: rows of ragged fields on their way from the threads that made them to the consumer, which
// gathers them.
//
// A row of a ragged field is of any length, so the row of the batch holds a ticket instead, for memory that
// lies here.
// Invariant: a ticket is given once in the store's life and never again; take() removes it. Tickets of
// batches that were thrown away are removed by clear(), when an epoch begins; a ticket that a thread puts in
// after that, for a row that no caller waits for any more, is removed by the next clear(). So at most two
// epochs' thrown-away rows lie here, and they are rows of batches that were in work. Any thread; one lock,
// held for the insertion of a pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

namespace millrace::api {

struct RaggedRow {
  std::unique_ptr<std::byte[]> data;
  size_t bytes = 0;
  int64_t rows = 0;
};

class RaggedStore {
 public:
  uint64_t put(RaggedRow row) {
    const std::lock_guard lock(mutex_);
    rows_.emplace(++last_, std::move(row));
    return last_;
  }
  // No rows for a ticket that is not there, 0 say.
  RaggedRow take(uint64_t ticket) {
    const std::lock_guard lock(mutex_);
    auto found = rows_.extract(ticket);
    return found ? std::move(found.mapped()) : RaggedRow{};
  }
  void clear() {
    std::unordered_map<uint64_t, RaggedRow> gone;  // freed without the lock
    const std::lock_guard lock(mutex_);
    gone.swap(rows_);
  }
  size_t size() const {
    const std::lock_guard lock(mutex_);
    return rows_.size();
  }

 private:
  mutable std::mutex mutex_;  // guards everything below
  std::unordered_map<uint64_t, RaggedRow> rows_;
  uint64_t last_ = 0;
};

}  // namespace millrace::api
