// ShardReader: the files of a tar shard with the samples they belong to, by WebDataset's naming rule.
//
// A file's key is its path up to the first dot of its base name; the part after that dot is its
// suffix, lower-case where ASCII. Consecutive files with equal keys are one sample. Left out: names without a
// dot, and those with a first folder `__like_this__`. Throws what TarReader throws. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/byte_source.h"
#include "sources/tar_reader.h"

namespace millrace::sources {

struct ShardFile {
  std::string key, suffix;
  TarEntry entry;
};

class ShardReader {
 public:
  // May change a name before its key is looked for; false leaves the file out.
  using NameFilter = std::function<bool(std::string& name)>;

  explicit ShardReader(const std::shared_ptr<const io::ByteSource>& source, NameFilter filter = {});

  bool next(ShardFile& file);                              // false at the shard's end
  void read(std::span<uint8_t> into) { tar_.read(into); }  // content of the file that next() gave

  bool next_is_buffered() const { return tar_.next_is_buffered(); }  // both probably do not wait
  bool is_buffered(int64_t bytes) const { return static_cast<int64_t>(tar_.buffered()) >= bytes; }
  bool packed() const { return tar_.packed(); }

 private:
  TarReader tar_;
  const NameFilter filter_;
};

// False for names that belong to no sample.
bool split_sample_name(std::string_view name, std::string& key, std::string& suffix);

}  // namespace millrace::sources
