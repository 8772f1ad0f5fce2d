// SourcePool: any number of sources of which only a few are open at once, so that thousands of objects of
// stores cost the descriptors and the memory of `max_open`.
//
// What add() returns reads like any other source. A read opens it where it is not open, and lets go of the
// one whose last read began longest ago; one that is let go stays open until its reads end, so at most
// max_open and one per reading thread are. Threads that find a source closed open it once, the others wait;
// who fails to open it throws what `open` threw, and the next one tries again.
//
// Locks: `opening` of a source, held while its `open` runs, then `mutex_` (which are open, in which order),
// under which nothing is opened, closed or read. `open` may need the interpreter, so reads must come without
// its lock. Sources keep the pool. In a forked child they throw Error(unavailable).
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
