// IndexCursor: the index lists of one epoch, drawn ahead of what the consumer has, and where the consumer is.
//
//   sampler ──▶ draw() ──▶ engine ... batch handed out ──▶ handed_out() ──▶ place()
//
// The sampler is ahead of the training loop; so the cursor keeps, for each list drawn and not yet handed out,
// the position after it: 24 bytes. One thread, the consumer's.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "api/saved_state.h"
#include "api/sampler_impl.h"

namespace millrace::api {

class IndexCursor {
 public:
  using Lists = std::vector<std::vector<int64_t>>;

  // `sampler` outlives it; null: a stream, with endless lists of `batch_size` numbers each. `steps`: how many
  // lists there are, if not as many as the sampler has; `again`: see again(), of the state at the start.
  IndexCursor(const BatchSampler::Impl* sampler, int64_t batch_size, const ReadFrom& from, const Place& start,
              const std::optional<EqualSteps>& steps = {}, Lists again = {});

  // False: there is none left.
  bool draw(std::vector<int64_t>& list);
  // Takes back the list drawn last: a stream had nothing for it.
  void undraw() { ahead_.pop_back(); }
  // The oldest list that is out was made into a batch, or into an error.
  void handed_out();

  const Place& place() const { return place_; }
  size_t outstanding() const { return ahead_.size(); }
  // The lists handed out so far that come again after the sampler's last one: a state has them, as the
  // sampler is not read again from its beginning.
  Lists again() const;
  // What the sampler says of its draws; see IndexReader.
  json::Value origin() const { return lists_ ? lists_->origin() : json::Value{}; }

  // The samples that came before `start` in an epoch that may give one twice. `from.generator` moves.
  static std::vector<int64_t> before(const BatchSampler::Impl& sampler, ReadFrom from, int64_t samples,
                                     const std::optional<EqualSteps>& steps);

 private:
  struct Note {
    int64_t samples, position;
  };
  std::unique_ptr<ListReader> lists_;
  const int64_t batch_size_;
  const std::optional<EqualSteps> steps_;
  const int64_t own_;  // lists that the sampler has in an epoch
  Lists again_;        // lists that come again, as far as they were drawn
  bool passed_end_ = false;
  Place place_;
  std::deque<Note> ahead_;
};

}  // namespace millrace::api
