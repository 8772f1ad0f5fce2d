// TarReader: the files in a tar archive, one after the other: ustar, PAX and GNU, plain or packed
// (io/byte_stream.h).
//
//   next() -> entry    read(entry.size bytes, in pieces as you like)    next() ...
//
// Only regular files are given; folders, links and devices are skipped. The archive ends at its first block
// of zeros, or where the file ends between entries; a packed one is unpacked to its end all the same, so that
// its checksums are looked at. Throws Error(corrupt_data) with the offset of the header for a wrong checksum,
// a size that is no number, or larger than the archive's rest or than kMostEntryBytes, and for an archive cut
// short, even in the padding after an entry; Error(unavailable) for sparse files.
// An error at a header ends the archive: where the next header begins cannot be known. Source of the
// formats: POSIX pax, and the GNU tar manual.
// One thread.
// Memory: the stream's buffer and long names, of kMostNameBytes at most.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "io/byte_stream.h"

namespace millrace::sources {

inline constexpr int64_t kMostEntryBytes = int64_t{16} << 30;
inline constexpr int64_t kMostNameBytes = 1 << 20;

struct TarEntry {
  std::string name;    // bytes as they are in the archive
  int64_t offset = 0;  // of the content, in the unpacked archive
  int64_t size = 0;    // of the content
  int64_t header = 0;  // offset of its header, for messages
};

class TarReader {
 public:
  TarReader(std::unique_ptr<io::ByteStream> stream, std::string archive);

  bool next(TarEntry& entry);          // false at the end. What was not read of the entry before is skipped
  void read(std::span<uint8_t> into);  // the next bytes of the entry; never more than it has left

  bool next_is_buffered() const;  // next() probably does not wait
  size_t buffered() const { return stream_->buffered(); }
  bool packed() const { return stream_->packed(); }
  const std::string& archive() const { return archive_; }

 private:
  struct Overrides;  // what PAX records and GNU entries say of the entry after them
  bool read_header(uint8_t* block);
  void read_records(int64_t size, Overrides& overrides);
  std::string read_text(int64_t size);
  void skip_padding();
  [[noreturn]] void fail(const std::string& reason) const;

  const std::unique_ptr<io::ByteStream> stream_;
  const std::string archive_;
  int64_t header_ = 0;   // offset of the header in work
  int64_t left_ = 0;     // of the entry's content
  int64_t padding_ = 0;  // after it
  bool ended_ = false;
};

}  // namespace millrace::sources
