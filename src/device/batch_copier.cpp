#include "device/batch_copier.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "trace/range.h"

namespace millrace::device {
namespace {

// The alignment of a block in shared memory: enough for any element type and a cache line of the device.
constexpr size_t kBlockAlignment = 256;

// Blocks up to this size also share memory on the device and travel in one copy; keeping one of them keeps
// all.
constexpr size_t kSharedBlockBytes = size_t{16} << 10;

size_t aligned(size_t bytes) {
  return base::checked_add(bytes, kBlockAlignment - 1, "batch") / kBlockAlignment * kBlockAlignment;
}

}  // namespace

BatchCopier::BatchCopier(std::shared_ptr<Device> device)
    : device_(std::move(device)), stream_(device_->new_stream()) {}

BatchCopier::~BatchCopier() {
  try {
    close();
  } catch (...) {  // the device has failed: no copy is under way any more, and the call that noticed the
                   // failure has told the user
  }
}

std::vector<DeviceBlock> BatchCopier::copy(std::span<const HostBlock> blocks) {
  const trace::TraceRange range("copy to device");
  reap();
  // In staging memory, the blocks that share device memory come first.
  const auto shares = [](const HostBlock& block) {
    return !block.page_locked && block.bytes <= kSharedBlockBytes;
  };
  std::vector<size_t> staged_at(blocks.size());
  size_t shared_bytes = 0;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (shares(blocks[i]))
      shared_bytes = aligned(base::checked_add(staged_at[i] = shared_bytes, blocks[i].bytes, "batch"));
  size_t staged_bytes = shared_bytes;
  for (size_t i = 0; i < blocks.size(); ++i)
    if (!shares(blocks[i]) && !blocks[i].page_locked)
      staged_bytes = aligned(base::checked_add(staged_at[i] = staged_bytes, blocks[i].bytes, "batch"));

  // Allocates all memory first: if that fails, no copy is under way.
  std::vector<DeviceBlock> result(blocks.size());
  std::shared_ptr<DeviceMemory> shared = device_->allocate(shared_bytes, stream_);
  for (size_t i = 0; i < blocks.size(); ++i)
    result[i] = shares(blocks[i]) ? DeviceBlock{shared, staged_at[i]}
                                  : DeviceBlock{device_->allocate(blocks[i].bytes, stream_), 0};
  uint8_t* staging = nullptr;
  if (staged_bytes > 0) {
    open_.staging.push_back(take_staging(staged_bytes));
    staging = open_.staging.back().memory->data();
  }

  for (size_t i = 0; i < blocks.size(); ++i)
    if (!blocks[i].page_locked && blocks[i].bytes > 0)
      std::memcpy(staging + staged_at[i], blocks[i].data, blocks[i].bytes);
  if (shared_bytes > 0) device_->copy_to_device(shared->data(), staging, shared_bytes, stream_);
  for (size_t i = 0; i < blocks.size(); ++i) {
    if (shares(blocks[i])) continue;
    const HostBlock& block = blocks[i];
    if (block.page_locked) open_.keepers.push_back(block.keeper);
    device_->copy_to_device(result[i].data(), block.page_locked ? block.data : staging + staged_at[i],
                            block.bytes, stream_);
  }
  return result;
}

BatchCopier::Ticket BatchCopier::seal() {
  reap();
  Ticket ticket = record(stream_);
  open_.event = ticket.event_;
  under_way_.push_back(std::exchange(open_, {}));
  return ticket;
}

BatchCopier::Ticket BatchCopier::record(StreamId stream) {
  // Takes an event without a ticket: recording an event again moves the moment that its tickets wait for.
  auto unused =
      std::find_if(events_.begin(), events_.end(), [](const auto& event) { return event.use_count() == 1; });
  if (unused == events_.end()) unused = events_.insert(unused, device_->new_event());
  Ticket ticket;
  ticket.event_ = *unused;
  device_->record(*ticket.event_, stream);
  return ticket;
}

void BatchCopier::hand_out(const Ticket& ticket, std::span<const DeviceBlock> blocks, StreamId consumer) {
  device_->wait(consumer, *ticket.event_);
  for (const DeviceBlock& block : blocks) device_->used_on(*block.memory, consumer);
}

void BatchCopier::reap() {
  while (!under_way_.empty() && device_->is_done(*under_way_.front().event)) {
    let_go(under_way_.front());
    under_way_.pop_front();
  }
}

void BatchCopier::close() {
  if (!open_.keepers.empty() || !open_.staging.empty()) seal();
  while (!under_way_.empty()) {
    device_->synchronize(*under_way_.front().event);
    let_go(under_way_.front());
    under_way_.pop_front();
  }
}

// Takes the smallest free buffer that is large enough, else a new one, which replaces the smallest free one.
BatchCopier::Staging BatchCopier::take_staging(size_t bytes) {
  const auto larger = [](const Staging& a, const Staging& b) { return a.bytes < b.bytes; };
  std::sort(free_staging_.begin(), free_staging_.end(), larger);
  auto found = std::find_if(free_staging_.begin(), free_staging_.end(),
                            [bytes](const Staging& s) { return s.bytes >= bytes; });
  if (found == free_staging_.end()) {
    if (!free_staging_.empty()) free_staging_.erase(free_staging_.begin());
    return {device_->allocate_host(bytes), bytes};
  }
  Staging staging = std::move(*found);
  free_staging_.erase(found);
  return staging;
}

void BatchCopier::let_go(Held& held) {
  for (Staging& staging : held.staging) free_staging_.push_back(std::move(staging));
}

}  // namespace millrace::device
