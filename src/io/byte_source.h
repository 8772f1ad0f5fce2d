// ByteSource: bytes that do not change and can be read at any offset: a file, or an object in a store.
//
// Immutable from outside; any number of threads read at once, into their own memory. read_at() gives all
// bytes asked for or throws: Error(corrupt_data) past the end, Error(not_found | system) with errno for
// files. A source that waits for its bytes (a store's) is woken when they come, when they cannot, and when it
// is closed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace::io {

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  virtual const std::string& name() const = 0;  // path or URL, for messages
  virtual int64_t size() const = 0;             // in bytes
  virtual void read_at(int64_t offset, std::span<uint8_t> into) const = 0;

  // All bytes are on a disk here, and stay there: reads wait for nothing else, and may be put off.
  virtual bool is_here() const { return false; }

  // A hint: these bytes are read soon. Costs a system call at most.
  virtual void will_read(int64_t /*offset*/, int64_t /*bytes*/) const {}
};

// A regular file, else Error(system) at once; `name` is what messages call it, the path when empty. Its
// descriptor is kept; without `keep_open` each read opens it anew, in microseconds: thousands of sources can
// be, and another file in its place is Error(corrupt_data). Throws Error(not_found | system).
std::shared_ptr<const ByteSource> open_local_file(const std::string& path, std::string name = {},
                                                  bool keep_open = true);

}  // namespace millrace::io
