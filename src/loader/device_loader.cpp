#include "loader/device_loader.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "core/consumer_seat.h"
#include "core/fork_guard.h"
#include "core/thread_group.h"
#include "device/chain_augmentation.h"
#include "loader/decode_share.h"
#include "loader/device_batches.h"
#include "loader/engine.h"
#include "loader/worker.h"
#include "millrace/error.h"

namespace millrace::loader {
namespace {

constexpr int kSliceMs = 10;  // how long start_epoch() and close() may have to wait for the device thread

}  // namespace

class DeviceLoader::Impl {
 public:
  Impl(std::shared_ptr<const ImageDataset> dataset, const DeviceLoaderOptions& options,
       std::shared_ptr<device::Device> device, DeviceDecoding decoding)
      : options_(options), share_(std::make_shared<DecodeShare>(
                               options.balances, std::max(1, options.loader.threads), options.decoded_bytes)),
        batches_(dataset->views, device, std::move(decoding), share_), device_(std::move(device)),
        engine_(source(std::move(dataset)), engine_options(options)) {
    threads_.start("millrace-device", [this] { run(); });
  }
  ~Impl() { close(); }

  bool on_own_thread() const { return threads_.holds_current() || engine_.on_own_thread(); }

  void start_epoch(uint64_t seed, uint64_t epoch) {
    const auto sitting = seat_.sit();
    std::deque<Made> gone;
    std::unique_lock lock(mutex_);
    runs_ = false;
    idle_.wait(lock, [this] { return parked_; });
    gone.swap(ready_);
    engine_.start_epoch(seed, epoch);
    batches_.forget();
    submitted_ = made_ = handed_out_ = 0;
    all_submitted_ = ended_ = false;
    runs_ = true;
    lock.unlock();
  }

  void submit(std::vector<int64_t> indices) {
    engine_.submit(std::move(indices));
    const std::lock_guard lock(mutex_);
    ++submitted_;
    work_.notify_one();
  }

  void skip(std::span<const int64_t> indices) { engine_.skip(indices); }

  void end_epoch() {
    engine_.end_epoch();
    const std::lock_guard lock(mutex_);
    all_submitted_ = true;
    work_.notify_one();
  }

  Status next(DeviceBatch& out, int timeout_ms) {
    if (seat_.closed()) return Status::end;
    const auto sitting = seat_.sit();
    const int64_t start = base::now_ns();
    std::optional<Made> made;
    {
      std::unique_lock lock(mutex_);
      if (options_.loader.on_error == ErrorPolicy::skip && !all_submitted_ && submitted_ > 0)
        throw Error(ErrorKind::invalid_argument,
                    "on_error='skip' fills holes from the epoch's end: submit all batches and call "
                    "end_epoch() before next()");
      const auto settled = [this] {
        return stops_ || !ready_.empty() || ended_ || handed_out_ == submitted_;
      };
      if (trace::current_stage_clock != nullptr)
        trace::current_stage_clock->note_ready(static_cast<int>(ready_.size()));
      const trace::StageScope scope(trace::Stage::wait);
      const bool found = ready_batch_.wait_for(lock, std::chrono::milliseconds(timeout_ms), settled);
      waited_ns_ += base::now_ns() - start;
      seat_.throw_if_closed();
      if (!found) return Status::pending;
      if (ready_.empty()) return Status::end;
      made = std::move(ready_.front());
      ready_.pop_front();
      counted_ = std::move(made->then);
      ++handed_out_;
      work_.notify_one();
    }
    if (made->end) return Status::end;
    if (made->error) std::rethrow_exception(made->error);
    out = std::move(made->batch);
    std::vector<device::DeviceBlock> blocks{out.labels};
    for (const DeviceBatch::View& view : out.views) blocks.push_back(view.images);
    batches_.copier().hand_out(made->ticket, blocks, device_->current_stream());
    const std::lock_guard lock(mutex_);
    used_tickets_.push_back(std::move(made->ticket));
    return Status::ready;
  }

  void close() {
    seat_.close();
    {
      const std::lock_guard lock(mutex_);
      stops_ = true;
      work_.notify_all();
      ready_batch_.notify_all();
    }
    if (on_own_thread() || seat_.holds_current())
      return;  // the destructor, on another thread or after that call, does the rest
    const auto sitting = seat_.last();
    threads_.join();
    engine_.close();
    batches_.close();
    std::deque<Made> gone;  // dropped without the lock
    const std::lock_guard lock(mutex_);
    gone.swap(ready_);
  }

  LoaderStats stats() const {
    LoaderStats result = engine_.stats();
    const std::lock_guard lock(mutex_);
    result.samples = counted_.samples;
    result.batches = counted_.batches;
    result.bytes = counted_.bytes;
    result.left_out = counted_.left_out;
    result.errors = counted_.errors;
    result.wait_seconds =
        static_cast<double>(waited_ns_) * 1e-9;  // the engine knows only how long the device thread waited
    return result;
  }
  LoaderSnapshot snapshot() const {
    LoaderSnapshot result = engine_.snapshot();
    const std::lock_guard lock(mutex_);
    result.outstanding = submitted_ - handed_out_;
    result.complete = static_cast<int64_t>(ready_.size());
    return result;
  }
  int64_t left_to_device() const { return share_->left(); }
  std::vector<trace::StageReading> clocks() const {
    std::vector<trace::StageReading> result = engine_.clocks();
    result.push_back(clock_->read());
    return result;
  }

 private:
  // A batch on its way to the consumer, or the error in its place.
  struct Made {
    DeviceBatch batch;
    device::BatchCopier::Ticket ticket;
    std::exception_ptr error;
    bool end = false;
    LoaderStats then;  // the engine's, so that stats() speaks of what was handed out
  };

  RowSource source(std::shared_ptr<const ImageDataset> dataset) {
    RowSource result = picture_rows(dataset);
    result.make_whole_maker = std::move(result.make_maker);
    result.make_maker = [dataset, share = share_](trace::StageTimes* times) {
      return std::make_unique<Worker>(dataset, times, share);
    };
    result.complete = [this](BatchTask& task) {
      const trace::StageScope scope(trace::Stage::decode);
      return batches_.decode(task);
    };
    return result;
  }

  static LoaderOptions engine_options(const DeviceLoaderOptions& options) {
    LoaderOptions result = options.loader;
    result.threads = std::max(1, result.threads);
    return result;
  }

  bool may_work() const {
    const bool submitted = options_.loader.on_error != ErrorPolicy::skip || all_submitted_;
    return runs_ && submitted && !ended_ && made_ < submitted_ &&
           ready_.size() < static_cast<size_t>(options_.ahead);
  }

  // The device thread.
  void run() {
    const trace::StageLife life(clock_, trace::Stage::send);
    std::unique_lock lock(mutex_);
    while (!stops_) {
      if (!may_work() && !batches_.under_way()) {
        parked_ = true;
        idle_.notify_all();
        const trace::StageScope scope(trace::Stage::idle);
        work_.wait(lock);
        continue;
      }
      parked_ = false;
      auto tickets = std::exchange(used_tickets_, {});
      const bool make = may_work();
      lock.unlock();
      tickets.clear();
      std::optional<Made> made;
      if (make)
        made = make_next();
      else
        batches_.land();
      lock.lock();
      if (!made) continue;
      ++made_;
      if (made->end) ended_ = true;
      ready_.push_back(std::move(*made));
      ready_batch_.notify_one();
    }
    parked_ = true;
    idle_.notify_all();
  }

  // The next batch, queued; nothing: not all of its rows are there yet.
  std::optional<Made> make_next() {
    Made made;
    try {
      Batch batch;
      const Status status = engine_.next(batch, batches_.under_way() ? 0 : kSliceMs);
      if (status == Status::pending) {
        batches_.land();
        return std::nullopt;
      }
      made.end = status == Status::end;
      if (!made.end) made.ticket = batches_.finish(std::move(batch), made.batch);
    } catch (...) {
      made.error = std::current_exception();
    }
    batches_.forget();
    made.then = engine_.stats();
    return made;
  }

  const DeviceLoaderOptions options_;
  const std::shared_ptr<DecodeShare> share_;
  DeviceBatches batches_;  // the device thread's, but for hand_out()
  const std::shared_ptr<device::Device> device_;
  Engine engine_;
  core::ConsumerSeat seat_;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable work_, idle_, ready_batch_;
  std::deque<Made> ready_;
  std::vector<device::BatchCopier::Ticket> used_tickets_;
  int64_t submitted_ = 0, made_ = 0, handed_out_ = 0;  // batches of this epoch
  int64_t waited_ns_ = 0;
  LoaderStats counted_;  // when the batch handed out last was made
  bool runs_ = false, all_submitted_ = false, ended_ = false, stops_ = false;
  bool parked_ = false;  // the device thread touches nothing until it is woken, and then looks at runs_ first

  const std::shared_ptr<trace::StageClock> clock_ =
      std::make_shared<trace::StageClock>();  // of the device thread

  core::ThreadGroup threads_;  // the last member: joined before anything it uses goes
};

DeviceLoader::DeviceLoader(std::shared_ptr<const ImageDataset> dataset, const DeviceLoaderOptions& options,
                           std::shared_ptr<device::Device> device, DeviceDecoding decoding)
    : generation_(core::fork_generation()) {
  if (dataset->forms)
    throw Error(ErrorKind::invalid_argument, "batches that are made on a device have no forms");
  for (const auto& view : dataset->views)
    if (const std::string reason = device::why_not_fused(*view); !reason.empty())
      throw Error(ErrorKind::invalid_argument, "the transforms cannot be done on a device: " + reason);
  impl_ = std::make_unique<Impl>(std::move(dataset), options, std::move(device), std::move(decoding));
}

DeviceLoader::~DeviceLoader() {
  if (in_child()) {
    static_cast<void>(impl_.release());
  } else if (impl_ && impl_->on_own_thread()) {
    impl_->close();
    core::delete_on_another_thread(std::move(impl_));
  }
}

bool DeviceLoader::in_child() const { return generation_ != core::fork_generation(); }

DeviceLoader::Impl& DeviceLoader::impl() const {
  if (in_child())
    throw Error(ErrorKind::unavailable,
                "this loader was made before fork(): its threads and its device do not exist in the child "
                "process; make a new loader in a "
                "process that was started by spawn");
  return *impl_;
}

void DeviceLoader::start_epoch(uint64_t seed, uint64_t epoch) { impl().start_epoch(seed, epoch); }
void DeviceLoader::submit(std::vector<int64_t> indices) { impl().submit(std::move(indices)); }
void DeviceLoader::skip(std::span<const int64_t> indices) { impl().skip(indices); }
void DeviceLoader::end_epoch() { impl().end_epoch(); }
DeviceLoader::Status DeviceLoader::next(DeviceBatch& out, int timeout_ms) {
  return impl().next(out, timeout_ms);
}
void DeviceLoader::close() {
  if (!in_child()) impl_->close();
}
LoaderStats DeviceLoader::stats() const { return impl().stats(); }
LoaderSnapshot DeviceLoader::snapshot() const { return impl().snapshot(); }
std::vector<trace::StageReading> DeviceLoader::clocks() const {
  return in_child() ? std::vector<trace::StageReading>{} : impl_->clocks();
}
int64_t DeviceLoader::left_to_device() const { return impl().left_to_device(); }

}  // namespace millrace::loader
