#include "cuda/nvjpeg_decoder.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr size_t kAlignment = 256;  // of a picture in the memory, and of the hardware's output
constexpr size_t kLanes = 4;        // pictures between host and device at a time
constexpr int kBackends[] = {kNvjpegGpuHybrid,
                             kNvjpegHybrid};  // Huffman on the GPU, or (progressive) on the CPU

void check(int status, const char* what) {
  if (status != kNvjpegSuccess)
    throw Error(ErrorKind::unavailable, std::string(what) + ": " + nvjpeg_problem(status));
}

// An nvJPEG object and the function that ends it.
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : object_(std::exchange(other.object_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(object_, other.object_);
    std::swap(destroy_, other.destroy_);
    return *this;
  }
  ~Owned() {
    if (object_) destroy_(object_);
  }
  template <class Create>
  Owned(int (*destroy)(void*), const char* what, Create&& create) : destroy_(destroy) {
    check(create(&object_), what);
  }
  void* get() const { return object_; }

 private:
  void* object_ = nullptr;
  int (*destroy_)(void*) = nullptr;
};

// Where nvJPEG's memory comes from; the device's is counted.
struct CountedMemory {
  DeviceCalls& device;
  size_t ceiling;
  std::atomic<size_t> own{0};  // nvJPEG may allocate on threads of its own
  size_t results = 0;          // of the call in progress

  static int allocate(void* self, void** memory, size_t bytes, void*) noexcept {
    auto& m = *static_cast<CountedMemory*>(self);
    if (m.own.load() + m.results + bytes > m.ceiling || !m.device.allocate(memory, bytes)) return 1;
    m.own += bytes;
    return 0;
  }
  static int release(void* self, void* memory, size_t bytes, void*) noexcept {
    auto& m = *static_cast<CountedMemory*>(self);
    m.device.release(memory);
    m.own -= bytes;
    return 0;
  }
  static int allocate_pinned(void* self, void** memory, size_t bytes, void*) noexcept {
    return static_cast<CountedMemory*>(self)->device.allocate_pinned(memory, bytes) ? 0 : 1;
  }
  static int release_pinned(void* self, void* memory, size_t, void*) noexcept {
    static_cast<CountedMemory*>(self)->device.release_pinned(memory);
    return 0;
  }
};

// The moment when the device has done the work enqueued before record(). The destructor waits for it, so the
// objects that it guards are declared before it.
class Done {
 public:
  explicit Done(DeviceCalls& device) : device_(device), event_(device.new_event()) {}
  ~Done() {
    try {
      wait();
    } catch (const Error&) {  // the device is lost, and nothing is under way there
    }
    device_.delete_event(event_);
  }
  Done(const Done&) = delete;
  Done& operator=(const Done&) = delete;
  void record(void* stream) { device_.record(event_, stream); }
  void wait() { device_.wait(event_); }

 private:
  DeviceCalls& device_;
  void* const event_;
};

// Buffers of one picture on its way; they are used again when the device has read them.
struct Lane {
  Owned stream, params, pinned, memory;
  std::array<Owned, std::size(kBackends)> states;
  std::unique_ptr<Done> done;
};

class NvjpegDecoder final : public device::GpuDecoder {
 public:
  NvjpegDecoder(std::shared_ptr<const NvjpegLibrary> library, std::unique_ptr<DeviceCalls> device,
                size_t ceiling)
      : lib_(std::move(library)), device_(std::move(device)), memory_{*device_, ceiling},
        on_device_{&CountedMemory::allocate, &CountedMemory::release, &memory_},
        pinned_{&CountedMemory::allocate_pinned, &CountedMemory::release_pinned, &memory_} {
    device_->make_current();
    handle_ = open_handle();
    void* const handle = handle_.get();
    unsigned engines = 0, cores = 0;
    hardware_ = lib_->hardware_info(handle, &engines, &cores) == kNvjpegSuccess && engines > 0;
    if (hardware_) {
      batch_state_ = Owned(lib_->state_destroy, "nvJPEG's batch state",
                           [&](void** o) { return lib_->state_create(handle, o); });
      batch_done_ = std::make_unique<Done>(*device_);
    }
    for (size_t b = 0; b < decoders_.size(); ++b) {
      const auto create = [&](void** o) { return lib_->decoder_create(handle, kBackends[b], o); };
      decoders_[b] = Owned(lib_->decoder_destroy, "nvJPEG's decoder", create);
    }
    parsed_ = Owned(lib_->stream_destroy, "nvJPEG's stream",
                    [&](void** o) { return lib_->stream_create(handle, o); });
    for (Lane& lane : lanes_) open_lane(lane);
  }

  bool has_hardware() const override { return hardware_; }

  size_t plan(std::span<const device::JpegRequest> requests,
              std::vector<device::JpegResult>& results) override {
    results.assign(requests.size(), {});
    memory_.results = 0;
    for (size_t i = 0; i < requests.size(); ++i) results[i].problem = place(i, requests[i], results[i]);
    return memory_.results;
  }

  void decode(std::span<const device::JpegRequest> requests, std::vector<device::JpegResult>& results,
              void* memory, void* stream) override {
    if (results.size() != requests.size())
      throw Error(ErrorKind::invalid_argument,
                  "decode() needs the results of plan() for the same requests; call plan() first");
    device_->make_current();
    std::vector<size_t> others;
    std::vector<size_t> batch = choose_batch(requests, results, others);
    if (!batch.empty() && !decode_batch(batch, requests, results, memory, stream))
      others.insert(others.end(), batch.begin(), batch.end());
    for (const size_t i : others) {
      const int status = decode_one(requests[i], results[i], memory, stream);
      if (status != kNvjpegSuccess) results[i].problem = nvjpeg_problem(status);
    }
  }

  void wait() override {
    if (batch_done_) batch_done_->wait();
    for (Lane& lane : lanes_) lane.done->wait();
  }

 private:
  // The hardware's handle serves the other decoders, too. Old versions know no smooth upsampling.
  Owned open_handle() {
    int status = kNvjpegSuccess;
    for (const int backend : {kNvjpegHardware, kNvjpegDefault})
      for (const unsigned flags : {kNvjpegSmoothUpsampling, 0u}) {
        Owned handle;
        const auto create = [&](void** o) {
          status = lib_->create(backend, &on_device_, &pinned_, flags, o);
          if (status != kNvjpegSuccess) *o = nullptr;
          return kNvjpegSuccess;
        };
        handle = Owned(lib_->destroy, "", create);
        if (status == kNvjpegSuccess) return handle;
      }
    check(status, "nvJPEG cannot be opened");
    return {};
  }

  void open_lane(Lane& lane) {
    void* const handle = handle_.get();
    lane.stream = Owned(lib_->stream_destroy, "nvJPEG's stream",
                        [&](void** o) { return lib_->stream_create(handle, o); });
    lane.params = new_params();
    lane.pinned = Owned(lib_->pinned_destroy, "nvJPEG's pinned buffer",
                        [&](void** o) { return lib_->pinned_create(handle, &pinned_, o); });
    lane.memory = Owned(lib_->device_destroy, "nvJPEG's buffer",
                        [&](void** o) { return lib_->device_create(handle, &on_device_, o); });
    for (size_t b = 0; b < lane.states.size(); ++b) {
      const auto create = [&](void** o) { return lib_->decoder_state_create(handle, decoders_[b].get(), o); };
      lane.states[b] = Owned(lib_->state_destroy, "nvJPEG's state", create);
      check(lib_->attach_pinned(lane.states[b].get(), lane.pinned.get()), "nvJPEG's pinned buffer");
      check(lib_->attach_device(lane.states[b].get(), lane.memory.get()), "nvJPEG's buffer");
    }
    lane.done = std::make_unique<Done>(*device_);
  }

  Owned new_params() {
    Owned params(lib_->params_destroy, "nvJPEG's parameters",
                 [&](void** o) { return lib_->params_create(handle_.get(), o); });
    check(lib_->params_set_format(params.get(), kNvjpegRgbInterleaved), "nvJPEG's parameters");
    return params;
  }

  int parse(const device::JpegRequest& request, void* jpeg) const {
    return lib_->stream_parse(handle_.get(), request.bytes.data(), request.bytes.size(), 0, 0, jpeg);
  }

  int set_region(void* params, const base::Rect& r) const {
    const bool all = r.width == 0 || r.height == 0;
    return all ? lib_->params_set_region(params, 0, 0, -1, -1)
               : lib_->params_set_region(params, r.left, r.top, r.width, r.height);
  }

  // Where the picture will lie; the result is the reason why it will not.
  std::string place(size_t i, const device::JpegRequest& request, device::JpegResult& result) {
    void* const jpeg = parsed_.get();
    unsigned width = 0, height = 0, components = 0;
    int status = parse(request, jpeg);
    if (status == kNvjpegSuccess) status = lib_->stream_size(jpeg, &width, &height);
    if (status == kNvjpegSuccess) status = lib_->stream_components(jpeg, &components);
    if (status != kNvjpegSuccess) return nvjpeg_problem(status);
    if (components != 1 && components != 3)
      return "it has " + std::to_string(components) + " colour components, which the CPU decodes";
    const base::Rect& r = request.region;
    const bool all = r.width == 0 || r.height == 0;
    const bool inside = r.left >= 0 && r.top >= 0 && r.width >= 0 && r.height >= 0 &&
                        int64_t{r.left} + r.width <= width && int64_t{r.top} + r.height <= height;
    if (!all && !inside)
      throw Error(ErrorKind::invalid_argument,
                  "the region of JPEG " + std::to_string(i) + " does not lie inside its " +
                      std::to_string(height) + " x " + std::to_string(width) + " pixels (height x width)");
    result.width = all ? static_cast<int32_t>(width) : r.width;
    result.height = all ? static_cast<int32_t>(height) : r.height;
    result.pitch_bytes = result.width * 3;
    size_t bytes = static_cast<size_t>(result.pitch_bytes) * static_cast<size_t>(result.height);
    bytes = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    if (memory_.own.load() + memory_.results + bytes > memory_.ceiling)
      return "its " + std::to_string(bytes) + " bytes are over the ceiling of device memory, " +
             std::to_string(memory_.ceiling) + " bytes";
    result.offset = memory_.results;
    memory_.results += bytes;
    return "";
  }

  static NvjpegImage image_of(const device::JpegResult& result, void* memory) {
    NvjpegImage image{};
    image.channel[0] = static_cast<unsigned char*>(memory) + result.offset;
    image.pitch[0] = static_cast<size_t>(result.pitch_bytes);
    return image;
  }

  // The requests that the hardware takes; all others that have no problem yet are added to `others`.
  std::vector<size_t> choose_batch(std::span<const device::JpegRequest> requests,
                                   const std::vector<device::JpegResult>& results,
                                   std::vector<size_t>& others) {
    std::vector<size_t> batch;
    for (size_t i = 0; i < requests.size(); ++i) {
      if (!results[i].problem.empty()) continue;
      (hardware_takes(requests[i], batch.size()) ? batch : others).push_back(i);
    }
    return batch;
  }

  bool hardware_takes(const device::JpegRequest& request, size_t slot) {
    if (!hardware_) return false;
    if (slot == 0) batch_done_->wait();  // the parameters may still be looked at
    while (batch_params_.size() <= slot) batch_params_.push_back(new_params());
    void *const jpeg = parsed_.get(), *const params = batch_params_[slot].get();
    int no = 1;
    return parse(request, jpeg) == kNvjpegSuccess && set_region(params, request.region) == kNvjpegSuccess &&
           lib_->batch_supported(handle_.get(), jpeg, params, &no) == kNvjpegSuccess && no == 0;
  }

  // False: one of them is damaged, and nvJPEG does not say which.
  bool decode_batch(const std::vector<size_t>& batch, std::span<const device::JpegRequest> requests,
                    const std::vector<device::JpegResult>& results, void* memory, void* stream) {
    std::vector<const unsigned char*> data;
    std::vector<size_t> lengths;
    std::vector<NvjpegImage> images;
    std::vector<void*> params;
    for (const size_t i : batch) {
      params.push_back(batch_params_[data.size()].get());
      data.push_back(requests[i].bytes.data());
      lengths.push_back(requests[i].bytes.size());
      images.push_back(image_of(results[i], memory));
    }
    void* const state = batch_state_.get();
    int status = lib_->batch_initialize(handle_.get(), state, static_cast<int>(batch.size()), 1,
                                        kNvjpegRgbInterleaved);
    if (status == kNvjpegSuccess)
      status = lib_->batch_decode(handle_.get(), state, data.data(), lengths.data(), images.data(),
                                  params.data(), stream);
    batch_done_->record(stream);
    return status == kNvjpegSuccess;
  }

  int decode_one(const device::JpegRequest& request, const device::JpegResult& result, void* memory,
                 void* stream) {
    Lane& lane = lanes_[next_lane_++ % kLanes];
    lane.done->wait();  // its pinned buffer may still be read
    void *const handle = handle_.get(), *const jpeg = lane.stream.get(), *const params = lane.params.get();
    int status = parse(request, jpeg);
    if (status == kNvjpegSuccess) status = set_region(params, request.region);
    if (status != kNvjpegSuccess) return status;
    size_t backend = 0;
    int no = 1;
    while (backend < decoders_.size()) {
      if (lib_->decoder_supported(decoders_[backend].get(), jpeg, params, &no) == kNvjpegSuccess && no == 0)
        break;
      ++backend;
    }
    if (backend == decoders_.size()) return kNvjpegUnsupported;
    void *const decoder = decoders_[backend].get(), *const state = lane.states[backend].get();
    NvjpegImage image = image_of(result, memory);
    status = lib_->decode_host(handle, decoder, state, params, jpeg);
    if (status != kNvjpegSuccess) return status;
    status = lib_->decode_transfer(handle, decoder, state, jpeg, stream);
    if (status == kNvjpegSuccess) status = lib_->decode_device(handle, decoder, state, &image, stream);
    lane.done->record(stream);  // even after a failure: a part may be on its way
    return status;
  }

  const std::shared_ptr<const NvjpegLibrary> lib_;
  const std::unique_ptr<DeviceCalls> device_;
  CountedMemory memory_;
  NvjpegAllocator on_device_, pinned_;
  Owned handle_;  // declared before the objects made from it, so destroyed after them
  Owned parsed_;  // the header looked at last
  bool hardware_ = false;
  Owned batch_state_;
  std::vector<Owned> batch_params_;  // one per picture of the largest batch so far
  std::unique_ptr<Done> batch_done_;
  std::array<Owned, std::size(kBackends)> decoders_;
  std::array<Lane, kLanes> lanes_;
  size_t next_lane_ = 0;
};

}  // namespace

std::unique_ptr<device::GpuDecoder> make_nvjpeg_decoder(std::shared_ptr<const NvjpegLibrary> library,
                                                        std::unique_ptr<DeviceCalls> device,
                                                        size_t memory_ceiling_bytes) {
  return std::make_unique<NvjpegDecoder>(std::move(library), std::move(device), memory_ceiling_bytes);
}

}  // namespace millrace::cuda
