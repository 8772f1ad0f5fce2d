#include "fake_device.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "millrace/error.h"

namespace millrace::device {

struct FakeDevice::Moment {
  bool reached = false;
};

struct FakeDevice::Event : DeviceEvent {
  std::shared_ptr<Moment> moment;
};

struct FakeDevice::Block {
  std::vector<uint8_t> bytes;
  StreamId stream = 0;
  std::vector<StreamId> used_on;
  std::vector<std::shared_ptr<Moment>> last_uses;  // on other streams, at the time it was freed
};

struct FakeDevice::Memory : DeviceMemory {
  std::shared_ptr<FakeDevice> device;
  std::unique_ptr<Block> block;
  ~Memory() override { device->free_block(std::move(block)); }
  void* data() const override { return block->bytes.data(); }
};

namespace {

size_t sum_of(const uint8_t* bytes, size_t count) {
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(bytes), count});
}

}  // namespace

// Freed, its bytes are others, but they stay readable: code that reads them all the same is to be noticed,
// not to crash.
struct FakeDevice::Host : HostMemory {
  std::shared_ptr<FakeDevice> device;
  std::vector<uint8_t> bytes;
  ~Host() override {
    std::fill(bytes.begin(), bytes.end(), uint8_t{0xDD});
    const std::lock_guard lock(device->mutex_);
    device->host_graves_.push_back(std::move(bytes));
  }
  uint8_t* data() const override { return const_cast<uint8_t*>(bytes.data()); }
};

FakeDevice::FakeDevice(Options options) : options_(options), random_(options.seed) { new_stream(); }

FakeDevice::~FakeDevice() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (Stream& stream : streams_)
    if (stream.thread.joinable()) stream.thread.join();
}

StreamId FakeDevice::new_stream() {
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_.emplace_back();
  if (options_.threads) stream.thread = std::thread([this, &stream] { work(stream); });
  return static_cast<StreamId>(streams_.size() - 1);
}

std::unique_ptr<DeviceEvent> FakeDevice::new_event() { return std::make_unique<Event>(); }

void FakeDevice::push(StreamId stream, Op op) {
  {
    const std::lock_guard lock(mutex_);
    streams_.at(static_cast<size_t>(stream)).queue.push_back(std::move(op));
  }
  changed_.notify_all();
}

void FakeDevice::record(DeviceEvent& event, StreamId stream) {
  auto moment = std::make_shared<Moment>();
  static_cast<Event&>(event).moment = moment;
  push(stream, {{}, moment, {}});
}

void FakeDevice::wait(StreamId stream, DeviceEvent& event) {
  if (auto moment = static_cast<Event&>(event).moment) push(stream, {{}, {}, moment});
}

bool FakeDevice::is_done(DeviceEvent& event) {
  const auto moment = static_cast<Event&>(event).moment;
  if (moment == nullptr) return true;
  std::unique_lock lock(mutex_);
  some_steps(lock);
  return moment->reached;
}

void FakeDevice::synchronize(DeviceEvent& event) {
  const auto moment = static_cast<Event&>(event).moment;
  if (moment == nullptr) return;
  std::unique_lock lock(mutex_);
  while (!moment->reached) {
    if (options_.threads || somebody_works())
      changed_.wait(lock);
    else if (!step(lock))
      throw std::logic_error("an event that nothing will ever reach");
  }
}

void FakeDevice::finish() {
  std::unique_lock lock(mutex_);
  const auto idle = [this] {
    return std::all_of(streams_.begin(), streams_.end(),
                       [](const Stream& s) { return s.queue.empty() && !s.running; });
  };
  while (!idle()) {
    if (options_.threads || somebody_works())
      changed_.wait(lock);
    else if (!step(lock))
      throw std::logic_error("streams that wait for each other");
  }
}

void FakeDevice::launch(StreamId stream, std::function<void()> kernel) {
  push(stream, {std::move(kernel), {}, {}});
}

void FakeDevice::copy_to_device(void* to, const void* from, size_t bytes, StreamId stream) {
  ++copies_;
  auto* target = static_cast<uint8_t*>(to);
  const auto* source = static_cast<const uint8_t*>(from);
  const size_t before = sum_of(source, bytes);
  const size_t half = bytes / 2;
  push(stream, {[=] { std::memcpy(target, source, half); }, {}, {}});
  push(stream, {[=, this] {
                  std::memcpy(target + half, source + half, bytes - half);
                  if (sum_of(source, bytes) != before || sum_of(target, bytes) != before) ++changed_sources_;
                },
                {},
                {}});
}

// ---- memory

std::unique_ptr<DeviceMemory> FakeDevice::allocate(size_t bytes, StreamId stream) {
  auto memory = std::make_unique<Memory>();
  memory->device = shared_from_this();
  const std::lock_guard lock(mutex_);
  auto& free = free_[{stream, bytes}];
  const auto ready = [](const std::unique_ptr<Block>& block) {
    return std::all_of(block->last_uses.begin(), block->last_uses.end(),
                       [](const auto& moment) { return moment->reached; });
  };
  const auto found = std::find_if(free.rbegin(), free.rend(), ready);
  if (found != free.rend()) {
    memory->block = std::move(*found);
    free.erase(std::next(found).base());
    memory->block->last_uses.clear();
    return memory;
  }
  memory->block = std::make_unique<Block>();
  if (bytes > options_.memory_bytes - used_bytes_)
    throw Error(ErrorKind::system,
                "the device has no " + std::to_string(bytes) + " bytes left; use a smaller batch_size", {},
                -1, ENOMEM);
  used_bytes_ += bytes;
  ++allocations_;
  memory->block->bytes.resize(bytes);
  memory->block->stream = stream;
  return memory;
}

void FakeDevice::used_on(DeviceMemory& memory, StreamId stream) {
  Block& block = *static_cast<Memory&>(memory).block;
  if (stream != block.stream) block.used_on.push_back(stream);
}

void FakeDevice::free_block(std::unique_ptr<Block> block) {
  if (block == nullptr) return;
  const std::lock_guard lock(mutex_);
  for (const StreamId stream : std::exchange(block->used_on, {})) {
    auto moment = std::make_shared<Moment>();
    streams_.at(static_cast<size_t>(stream)).queue.push_back({{}, moment, {}});
    block->last_uses.push_back(std::move(moment));
  }
  auto& free = free_[{block->stream, block->bytes.size()}];
  free.push_back(std::move(block));
  changed_.notify_all();
}

std::unique_ptr<HostMemory> FakeDevice::allocate_host(size_t bytes) {
  if (bytes > options_.host_bytes - host_bytes_)
    throw Error(ErrorKind::system, "cannot page-lock " + std::to_string(bytes) + " bytes", {}, -1, ENOMEM);
  host_bytes_ += bytes;
  ++host_allocations_;
  auto host = std::make_unique<Host>();
  host->device = shared_from_this();
  host->bytes.resize(bytes);
  return host;
}

// ---- running

bool FakeDevice::can_run(const Stream& stream) const {
  if (stream.running || stream.queue.empty()) return false;
  const auto& wait_for = stream.queue.front().wait_for;
  return wait_for == nullptr || wait_for->reached;
}

bool FakeDevice::somebody_works() const {
  return std::any_of(streams_.begin(), streams_.end(), [](const Stream& stream) { return stream.running; });
}

void FakeDevice::run_front(Stream& stream, std::unique_lock<std::mutex>& lock) {
  Op op = std::move(stream.queue.front());
  stream.queue.pop_front();
  stream.running = true;
  if (op.work) {
    lock.unlock();
    op.work();
    op.work = nullptr;  // what it held may be memory of this device
    lock.lock();
  }
  if (op.done) op.done->reached = true;
  stream.running = false;
  changed_.notify_all();
}

bool FakeDevice::step(std::unique_lock<std::mutex>& lock) {
  std::vector<Stream*> ready;
  for (Stream& stream : streams_)
    if (can_run(stream)) ready.push_back(&stream);
  if (ready.empty()) return false;
  run_front(*ready[random_() % ready.size()], lock);
  return true;
}

// As often as not, nothing has happened since somebody looked last.
void FakeDevice::some_steps(std::unique_lock<std::mutex>& lock) {
  if (options_.threads) return;
  for (size_t n = random_() % 4; n > 1; --n) step(lock);
}

void FakeDevice::work(Stream& stream) {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stop_ || can_run(stream); });
    if (stop_) return;
    const bool late = random_() % 4 == 0;
    if (late) {
      lock.unlock();
      std::this_thread::yield();
      lock.lock();
    }
    run_front(stream, lock);
  }
}

}  // namespace millrace::device
