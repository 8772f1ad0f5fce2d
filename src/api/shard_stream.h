// ShardStream: the samples of tar shards in the order of an epoch, and where each one's picture lies.
//
//   shards of this rank ──▶ headers ──▶ sample: picture (a place in its file, or bytes), label ──▶ buffer ──▶
//   next()
//
// The order is that of Python's WebDataset(..., shardshuffle=, seed=).shuffle(): a function of (seed, epoch,
// rank). So are its places, from which Python or C++ can go on: [shards passed, samples passed of the present
// one], and with a buffer [samples given, samples in all once they are known, number of the next sample after
// the first place]. The samples that the buffer held are read again. Plain shards: headers and labels are
// read here, pictures where they are decoded. Packed shards: everything is read here.
// One thread.
// Memory: the buffer's samples, and of these only those of packed shards have their bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/byte_source.h"
#include "json/json_value.h"
#include "millrace/shards.h"
#include "samplers/keyed_words.h"
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

  // False at the end. Throws the error of a shard or a sample; the stream has ended then.
  bool next(StreamedSample& sample);

  json::Value places() const;
  // Goes on at such places; call it before the first next(). StateError for places of another stream.
  void go_on(const json::Value& places);

 private:
  struct Place {
    int64_t shard = 0, sample = 0;
  };

  Place place() const;
  void go_to(const Place& place);
  int64_t wanted(int64_t given) const;  // samples that the buffer takes before output `given`
  bool take_one();                      // into the buffer
  void mark();
  std::vector<int64_t> held_behind(int64_t given);
  bool read(StreamedSample& sample);  // the next one of this rank, as they lie in the shards
  bool open_next();
  void take(const sources::ShardFile& file, StreamedSample& sample);
  bool read_sample(StreamedSample& sample);
  std::string content(int64_t bytes);

  const std::vector<std::string>& paths_;
  const StreamOptions& options_;
  std::vector<int64_t> order_;  // of the shards that this rank reads
  int64_t stride_ = 1;          // every so many samples is this rank's

  size_t shard_ = 0;    // in order_; the one that is open is the one before
  int64_t number_ = 0;  // of the next sample in the open shard
  std::shared_ptr<const io::ByteSource> source_;
  std::unique_ptr<sources::ShardReader> reader_;
  sources::ShardFile file_;  // read ahead of the sample it belongs to
  bool has_file_ = false, ended_ = false;
  size_t picture_rank_ = 0, label_rank_ = 0;  // of the best suffixes seen in the sample so far
  std::vector<std::string> suffixes_;         // of the sample so far

  samplers::KeyedWords draws_;
  const int64_t first_,
      every_;  // the buffer gives its first sample when it has so many; samples between two marks
  std::vector<StreamedSample> buffer_;
  std::vector<int64_t> numbers_;   // of its samples
  int64_t taken_ = 0, given_ = 0;  // put into the buffer, and given from it
  int64_t total_ = -1;             // samples of the stream, once it has ended
  std::deque<std::pair<int64_t, Place>>
      marks_;  // places before samples, the first one before all in the buffer
};

}  // namespace millrace::api
