#include "api/index_cursor.h"

#include <algorithm>
#include <utility>

namespace millrace::api {

IndexCursor::IndexCursor(const BatchSampler::Impl* sampler, int64_t batch_size, const ReadFrom& from,
                         const Place& start, const std::optional<EqualSteps>& steps, Lists again)
    : lists_(sampler != nullptr ? sampler->read(from) : nullptr), batch_size_(batch_size), steps_(steps),
      own_(steps ? sampler->size() : 0), again_(std::move(again)), place_(start) {}

bool IndexCursor::draw(std::vector<int64_t>& list) {
  const int64_t number = place_.lists + std::ssize(ahead_);
  if (steps_ && number >= steps_->steps) {
    // Draws one more list and drops it: the generator is then in the same state as in a run resumed here.
    if (!std::exchange(passed_end_, true)) lists_->next(list);
    return false;
  }
  if (!lists_) {
    list.assign(static_cast<size_t>(batch_size_), 0);
  } else if (!lists_->next(list)) {
    if (again_.empty()) return false;
    list = again_[static_cast<size_t>((number - own_) % std::ssize(again_))];
  } else if (steps_ && steps_->again == EqualSteps::Again::last) {
    again_ = {list};
  } else if (steps_ && number < steps_->steps - own_) {
    again_.push_back(list);
  }
  ahead_.push_back({std::ssize(list), lists_ ? lists_->position() : 0});
  return true;
}

IndexCursor::Lists IndexCursor::again() const {
  if (!steps_ || (steps_->again == EqualSteps::Again::last && place_.lists < own_)) return {};
  return {again_.begin(), again_.begin() + std::min(std::ssize(again_), place_.lists)};
}

void IndexCursor::handed_out() {
  if (ahead_.empty()) return;
  ++place_.lists;
  ++place_.batches;
  place_.samples += ahead_.front().samples;
  place_.position = ahead_.front().position;
  ahead_.pop_front();
}

std::vector<int64_t> IndexCursor::before(const BatchSampler::Impl& sampler, ReadFrom from, int64_t samples,
                                         const std::optional<EqualSteps>& steps) {
  from.position = 0;
  IndexCursor lists(&sampler, 0, from, {}, steps);
  std::vector<int64_t> found, list;
  while (std::ssize(found) < samples && lists.draw(list)) found.insert(found.end(), list.begin(), list.end());
  found.resize(static_cast<size_t>(std::min(std::ssize(found), samples)));
  return found;
}

}  // namespace millrace::api
