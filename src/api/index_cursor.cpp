#include "api/index_cursor.h"

#include <utility>

namespace millrace::api {

IndexCursor::IndexCursor(const BatchSampler::Impl* sampler, int64_t batch_size, const ReadFrom& from,
                         const Place& start)
    : lists_(sampler != nullptr ? sampler->read(from) : nullptr), batch_size_(batch_size), place_(start) {}

bool IndexCursor::draw(std::vector<int64_t>& list) {
  if (!lists_)
    list.assign(static_cast<size_t>(batch_size_), 0);
  else if (!lists_->next(list))
    return false;
  ahead_.push_back({std::ssize(list), lists_ ? lists_->position() : 0});
  return true;
}

void IndexCursor::handed_out() {
  if (ahead_.empty()) return;
  ++place_.lists;
  ++place_.batches;
  place_.samples += ahead_.front().samples;
  place_.position = ahead_.front().position;
  ahead_.pop_front();
}

std::vector<int64_t> IndexCursor::before(const BatchSampler::Impl& sampler, ReadFrom from, int64_t samples) {
  from.position = 0;
  const auto lists = sampler.read(from);
  std::vector<int64_t> found, list;
  while (std::ssize(found) < samples && lists->next(list))
    found.insert(found.end(), list.begin(), list.end());
  found.resize(static_cast<size_t>(std::min(std::ssize(found), samples)));
  return found;
}

}  // namespace millrace::api
