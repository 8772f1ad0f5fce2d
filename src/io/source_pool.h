// SourcePool: any number of sources of which only a few are open at once, so that thousands of objects of
// stores cost the descriptors and the memory of `max_open`.
//
// What add() returns reads like any other source. A read opens the source if it is closed, and lets go of
// another one if max_open are open: the one not read for longest, by the start of its last read. A source let
// go stays open until its reads end, so at most max_open plus one per reading thread are open. If several
// threads find a source closed, one opens it and the others wait; if `open` throws, that thread throws the
// same error, and the next thread tries again.
//
// Locks: `opening` of a source, held while its `open` runs, then `mutex_` (which are open, in which order),
// under which nothing is opened, closed or read. `open` may need the interpreter, so call read_at() without
// the interpreter's lock. Sources keep the pool alive. In a forked child they throw Error(unavailable).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "io/byte_source.h"

namespace millrace::io {

class SourcePool : public std::enable_shared_from_this<SourcePool> {
 public:
  using Open = std::function<std::shared_ptr<const ByteSource>()>;

  explicit SourcePool(size_t max_open);  // 1 or more, else Error(invalid_argument)

  // `size`: in bytes, as every opening will find it.
  std::shared_ptr<const ByteSource> add(std::string name, int64_t size, Open open);

  size_t open_now() const;

 private:
  class Pooled;
  std::shared_ptr<const ByteSource> opened(const Pooled& source);

  const size_t max_open_;
  const uint64_t generation_;  // of fork()
  mutable std::mutex mutex_;
  std::list<const Pooled*> open_;  // the one read last in front
};

}  // namespace millrace::io
