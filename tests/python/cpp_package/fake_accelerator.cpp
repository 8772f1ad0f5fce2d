#include "fake_accelerator.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

namespace fake {
namespace {

constexpr auto kLate = std::chrono::milliseconds(2);
constexpr c10::DeviceType kType = c10::DeviceType::PrivateUse1;
const c10::Device kDevice(kType, 0);

// What an event is each time that it is recorded.
class Flag {
 public:
  void set() {
    const std::lock_guard lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return set_; });
  }
  bool is_set() {
    const std::lock_guard lock(mutex_);
    return set_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool set_ = false;
};

// Its thread is never joined: streams last as long as the process, as a GPU's do.
class Queue {
 public:
  Queue() {
    std::thread([this] { run(); }).detach();
  }
  void push(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    works_.push_back(std::move(work));
    changed_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return !works_.empty(); });
      const std::function<void()> work = std::move(works_.front());
      works_.pop_front();
      lock.unlock();
      work();
    }
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> works_;
};

Queue& queue(c10::StreamId id) {
  static std::mutex mutex;
  static auto& queues = *new std::map<c10::StreamId, Queue>;
  const std::lock_guard lock(mutex);
  return queues[id];
}

thread_local c10::StreamId current = 0;
std::atomic<c10::StreamId> last_stream{0};

c10::Stream stream_of(c10::StreamId id) { return c10::Stream(c10::Stream::UNSAFE, kDevice, id); }

using Event = std::shared_ptr<Flag>;
Event& event_of(void* event) { return *static_cast<Event*>(event); }

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kType; }
  c10::Device exchangeDevice(c10::Device) const override { return kDevice; }
  c10::Device getDevice() const override { return kDevice; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(c10::Device) const override { return stream_of(current); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream_of(0); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream_of(++last_stream); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream_of(++last_stream); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(std::exchange(current, stream.id()));
  }
  void record(void** event, const c10::Stream& stream, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Event;
    const Event flag = event_of(*event) = std::make_shared<Flag>();
    queue(stream.id()).push([flag] { flag->set(); });
  }
  void block(void* event, const c10::Stream& stream) const override {
    queue(stream.id()).push([flag = event_of(event)] { flag->wait(); });
  }
  bool queryEvent(void* event) const override { return event_of(event)->is_set(); }
  void synchronizeEvent(void* event) const override { event_of(event)->wait(); }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Event*>(event);
  }
  void synchronizeStream(const c10::Stream& stream) const override { synchronize(stream); }
};

struct Block {
  void* data;
  size_t bytes;
  c10::StreamId made_on;
  std::mutex mutex;
  std::set<c10::StreamId> used_on;
};

struct DeviceMemory final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    auto* block = new Block{std::malloc(bytes + 1), bytes, current, {}, {}};
    std::memset(block->data, 0xFF, bytes);
    return {block->data, block, &give_back, kDevice};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }

  static void give_back(void* context) {
    std::unique_ptr<Block> block(static_cast<Block*>(context));
    Queue& made_on = queue(block->made_on);
    for (const c10::StreamId used : block->used_on) {
      const auto done = std::make_shared<Flag>();
      queue(used).push([done] { done->set(); });
      made_on.push([done] { done->wait(); });
    }
    made_on.push([data = block->data, bytes = block->bytes] {
      std::memset(data, 0xEE, bytes);  // not freed: that it is read too late shall be seen, and not crash
    });
  }
};
DeviceMemory device_memory;

// Remembers its addresses, for is_pinned().
struct PinnedMemory final : c10::Allocator {
  static inline std::mutex mutex;
  static inline std::map<const void*, size_t> given;

  c10::DataPtr allocate(size_t bytes) override {
    void* data = std::aligned_alloc(64, (bytes / 64 + 1) * 64);
    const std::lock_guard lock(mutex);
    given[data] = bytes;
    return {data, data,
            [](void* held) {
              const std::lock_guard gone(mutex);
              given.erase(held);
              std::free(held);
            },
            c10::kCPU};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override { std::memcpy(to, from, bytes); }
};
PinnedMemory pinned;

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned; }
  bool isPinnedPtr(const void* data) const override {
    const std::lock_guard lock(PinnedMemory::mutex);
    auto behind = PinnedMemory::given.upper_bound(data);
    if (behind == PinnedMemory::given.begin()) return false;
    const auto& [begin, bytes] = *--behind;
    return static_cast<const char*>(data) < static_cast<const char*>(begin) + bytes;
  }
};
Hooks hooks;

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_memory,
                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   dtype.value_or(at::kFloat), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<at::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(strides),
                                           &device_memory, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           dtype.value_or(at::kFloat));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  TORCH_CHECK(from.is_contiguous() && to.is_contiguous() && from.scalar_type() == to.scalar_type());
  queue(current).push([source = from.const_data_ptr(), target = to.data_ptr(), bytes = from.nbytes()] {
    std::this_thread::sleep_for(kLate);
    if (bytes > 0) std::memcpy(target, source, bytes);
  });
  if (!non_blocking || to.is_cpu()) synchronize(current_stream());
  return to;
}

void record_stream(at::Tensor& tensor, at::Stream stream) {
  auto* block = static_cast<Block*>(tensor.storage().data_ptr().get_context());
  const std::lock_guard lock(block->mutex);
  block->used_on.insert(stream.id());
}

}  // namespace

void enqueue(const c10::Stream& stream, std::function<void()> work) {
  queue(stream.id()).push(std::move(work));
}

void synchronize(const c10::Stream& stream) {
  const auto done = std::make_shared<Flag>();
  enqueue(stream, [done] { done->set(); });
  done->wait();
}

c10::Stream current_stream() { return stream_of(current); }
c10::Stream new_stream() { return stream_of(++last_stream); }

namespace {

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

const bool registered = [] {
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kType, &device_memory);
  return true;
}();

}  // namespace
}  // namespace fake

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &fake::empty);
  library.impl("empty_strided", &fake::empty_strided);
  library.impl("_copy_from", &fake::copy_from);
  library.impl("record_stream", &fake::record_stream);
}
