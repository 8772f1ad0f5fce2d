// StreamSamples: samples of a stream on their way. Each gets a ticket, its index for the engine, and is
// forgotten when told so.
//
// The code that draws from the stream add()s a sample before it submits the ticket, and drops the samples of
// batches that came back. One lock guards everything and is held briefly; sources are read outside it.
// Tickets are never used again.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "io/byte_source.h"
#include "sources/sample_files.h"

namespace millrace::sources {

class StreamSamples final : public SampleFiles {
 public:
  struct Sample {
    std::shared_ptr<const io::ByteSource> source;  // none: the file of the name `key`
    int64_t offset = 0, size = 0;
    std::string key;
    int64_t number = 0;  // with `pass`, the key of its random numbers
    uint32_t pass = 0;
    std::shared_ptr<const SampleFiles> in =
        nullptr;  // instead of a source: files of which this is sample `offset`
  };

  int64_t add(Sample sample);
  void drop_before(int64_t ticket);
  int64_t held() const;

  int64_t size() const override;  // larger than any ticket
  std::string name(int64_t ticket) const override;
  void read(int64_t ticket, io::FileBuffer& into) const override;
  std::optional<Pixels> pixels(int64_t ticket) const override;  // which stay until it is dropped
  void identify(base::SampleKey& key) const override;

 private:
  Sample sample(int64_t ticket) const;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<Sample> samples_;
  int64_t first_ = 0;  // ticket of samples_.front()
};

}  // namespace millrace::sources
