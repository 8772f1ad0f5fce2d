// TarSamples: one file of each sample of many plain tar shards, numbered shard after shard.
// Memory: 8 bytes a shard, beside the indexes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/byte_source.h"
#include "sources/sample_files.h"
#include "sources/tar_index.h"

namespace millrace::sources {

class TarSamples final : public SampleFiles {
 public:
  struct Shard {
    std::shared_ptr<const io::ByteSource> source;
    std::shared_ptr<const TarIndex> index;
  };

  // A sample's file is the one with the first suffix of `suffixes` that it has. Throws Error(corrupt_data)
  // naming a sample that has none.
  TarSamples(std::vector<Shard> shards, std::vector<std::string> suffixes);

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::string name(int64_t index) const override;
  void read(int64_t index, io::FileBuffer& into) const override;

 private:
  std::pair<const Shard*, int64_t> place(int64_t index) const;  // the shard, and the sample's number in it

  const std::vector<Shard> shards_;
  const std::vector<std::string> suffixes_;
  std::vector<int64_t> ends_;  // of each shard's samples
};

}  // namespace millrace::sources
