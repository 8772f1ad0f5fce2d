// ShardStream: the samples of tar shards in the order of an epoch, and where each one's picture lies.
//
//   shards of this rank ──▶ headers ──▶ sample: picture (a place in its file, or bytes), label ──▶ buffer ──▶
//   next()
//
// A function of (seed, epoch): whoever runs through it again meets the same samples. Of plain shards headers
// and labels are read here, and pictures where they are decoded; of packed ones everything is read here. One
// thread. Memory: the buffer's samples, and of these only those of packed shards have their bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/philox.h"
#include "io/byte_source.h"
#include "millrace/shards.h"
#include "sources/shard_reader.h"
#include "sources/stream_samples.h"

namespace millrace::api {

struct StreamedSample {
  sources::StreamSamples::Sample picture;
  int64_t label = 0;
};

class ShardStream {
 public:
  // Both outlive it.
  ShardStream(const std::vector<std::string>& shards, const StreamOptions& options, uint64_t epoch);

  // False at the end. Throws what is wrong with a shard or a sample; the stream has ended then.
  bool next(StreamedSample& sample);

 private:
  bool read(StreamedSample& sample);  // the next one of this rank, as they lie in the shards
  bool open_next();
  void take(const sources::ShardFile& file, StreamedSample& sample);
  bool read_sample(StreamedSample& sample);
  std::string content(int64_t bytes);
  uint64_t below(uint64_t end);

  const std::vector<std::string>& paths_;
  const StreamOptions& options_;
  std::vector<int64_t> order_;  // of the shards that this rank reads
  int64_t stride_ = 1;          // every so many samples is this rank's
  uint64_t epoch_;

  size_t shard_ = 0;    // in order_; the one that is open is the one before
  int64_t number_ = 0;  // of the next sample in the open shard
  std::shared_ptr<const io::ByteSource> source_;
  std::unique_ptr<sources::ShardReader> reader_;
  sources::ShardFile file_;  // read ahead of the sample it belongs to
  bool has_file_ = false, ended_ = false;
  size_t picture_rank_ = 0, label_rank_ = 0;  // of the best suffixes seen in the sample so far
  std::vector<std::string> suffixes_;         // of the sample so far

  std::vector<StreamedSample> buffer_;
  int64_t taken_ = 0, given_ = 0;  // put into the buffer, and given from it
  bool drained_ = false;
};

}  // namespace millrace::api
