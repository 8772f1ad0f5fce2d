// An nvJPEG for tests: "files" are four numbers, pictures their first byte everywhere, the device a list of
// work that is done late.
//
// A file: {magic 0xFA, components, width, height, kind, colour}. Kinds: 'b' any decoder takes it, 'p' only
// the hybrid one, 'x' none, 'd' its header is right and its data damaged.
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "cuda/nvjpeg_decoder.h"

namespace millrace::cuda::fake {

using cuda::NvjpegAllocator;
using cuda::NvjpegImage;
using cuda::NvjpegLibrary;

struct Params {
  int x = 0, y = 0, width = -1, height = -1;
};
struct Pinned {
  std::vector<uint8_t> bytes;
};
struct State {
  Pinned* pinned = nullptr;
};
struct Jpeg {
  const uint8_t* data = nullptr;
};
struct Decoder {
  int backend;
};

inline struct World {
  bool hardware = true;
  int live = 0;  // objects of nvJPEG and events that exist
  int batches = 0, singles = 0, batch_size = 0;
  NvjpegAllocator* allocator = nullptr;
  std::deque<std::function<void()>> queue;  // the stream: nothing happens before somebody waits
  void run_all() {
    while (!queue.empty()) {
      queue.front()();
      queue.pop_front();
    }
  }
} world;

template <class T>
int make(void** object, T value = {}) {
  return *object = new T(value), ++world.live, 0;
}
template <class T>
int destroy(void* object) {
  return delete static_cast<T*>(object), --world.live, 0;
}
template <class T>
T& as(void* object) {
  return *static_cast<T*>(object);
}

inline void fill(const NvjpegImage& image, const Params& p, const uint8_t* file) {
  const int width = p.width < 0 ? file[2] : p.width, height = p.height < 0 ? file[3] : p.height;
  for (int y = 0; y < height; ++y)
    std::memset(image.channel[0] + static_cast<size_t>(y) * image.pitch[0], file[5],
                static_cast<size_t>(width) * 3);
}

inline std::shared_ptr<const NvjpegLibrary> library() {
  auto l = std::make_shared<NvjpegLibrary>();
  l->create = [](int backend, NvjpegAllocator* allocator, NvjpegAllocator* pinned, unsigned, void** handle) {
    if (!allocator || !pinned) return 2;  // as the real one
    if (backend == cuda::kNvjpegHardware && !world.hardware) return 7;
    world.allocator = allocator;
    return make<int>(handle);
  };
  l->destroy = destroy<int>;
  l->hardware_info = [](void*, unsigned* engines, unsigned* cores) {
    return *engines = world.hardware ? 7 : 0, *cores = 1, 0;
  };
  l->stream_create = [](void*, void** s) { return make<Jpeg>(s); };
  l->stream_destroy = destroy<Jpeg>;
  l->stream_parse = [](void*, const unsigned char* data, size_t length, int, int, void* s) {
    as<Jpeg>(s).data = data;
    return length == 6 && data[0] == 0xFA ? 0 : 3;
  };
  l->stream_size = [](void* s, unsigned* w, unsigned* h) {
    return *w = as<Jpeg>(s).data[2], *h = as<Jpeg>(s).data[3], 0;
  };
  l->stream_components = [](void* s, unsigned* n) { return *n = as<Jpeg>(s).data[1], 0; };
  l->params_create = [](void*, void** p) { return make<Params>(p); };
  l->params_destroy = destroy<Params>;
  l->params_set_format = [](void*, int format) { return format == cuda::kNvjpegRgbInterleaved ? 0 : 2; };
  l->params_set_region = [](void* p, int x, int y, int w, int h) { return as<Params>(p) = {x, y, w, h}, 0; };
  l->state_create = [](void*, void** s) { return make<State>(s); };
  l->state_destroy = destroy<State>;
  l->batch_supported = [](void*, void* s, void*, int* no) {
    return *no = as<Jpeg>(s).data[4] == 'b' || as<Jpeg>(s).data[4] == 'd' ? 0 : 1, 0;
  };
  l->batch_initialize = [](void*, void*, int size, int, int) { return world.batch_size = size, 0; };
  l->batch_decode = [](void*, void*, const unsigned char* const* data, const size_t*, NvjpegImage* images,
                       void* const* params, void*) {
    ++world.batches;
    for (int i = 0; i < world.batch_size; ++i) {
      if (data[i][4] == 'd') return 3;
      world.queue.push_back(
          [image = images[i], params = params[i], file = data[i]] { fill(image, as<Params>(params), file); });
    }
    return 0;
  };
  l->decoder_create = [](void*, int backend, void** d) { return make<Decoder>(d, {backend}); };
  l->decoder_destroy = destroy<Decoder>;
  l->decoder_supported = [](void* d, void* s, void*, int* no) {
    const uint8_t kind = as<Jpeg>(s).data[4];
    return *no = kind == 'b' || kind == 'd' || (kind == 'p' && as<Decoder>(d).backend == cuda::kNvjpegHybrid)
                     ? 0
                     : 1,
           0;
  };
  l->decoder_state_create = [](void*, void*, void** s) { return make<State>(s); };
  l->pinned_create = [](void*, NvjpegAllocator*, void** b) { return make<Pinned>(b); };
  l->pinned_destroy = destroy<Pinned>;
  l->device_create = [](void*, NvjpegAllocator*, void** b) { return make<int>(b); };
  l->device_destroy = destroy<int>;
  l->attach_pinned = [](void* state, void* buffer) {
    return as<State>(state).pinned = static_cast<Pinned*>(buffer), 0;
  };
  l->attach_device = [](void*, void*) { return 0; };
  l->decode_host = [](void*, void*, void* state, void* params, void* s) {
    ++world.singles;
    const uint8_t* data = as<Jpeg>(s).data;
    if (data[4] == 'd') return 3;
    auto& bytes =
        as<State>(state)
            .pinned->bytes;  // overwritten while an earlier picture still needs it, unless somebody waited
    bytes.assign(data, data + 6);
    bytes.resize(6 + sizeof(Params));
    std::memcpy(bytes.data() + 6, params, sizeof(Params));
    return 0;
  };
  l->decode_transfer = [](void*, void*, void*, void*, void*) { return 0; };
  l->decode_device = [](void*, void*, void* state, NvjpegImage* image, void*) {
    world.queue.push_back([image = *image, pinned = as<State>(state).pinned] {
      Params p;
      std::memcpy(&p, pinned->bytes.data() + 6, sizeof(p));
      fill(image, p, pinned->bytes.data());
    });
    return 0;
  };
  return l;
}

// The latest moment: work is done when an event behind it is waited for.
class Device final : public cuda::DeviceCalls {
 public:
  void make_current() override {}
  bool allocate(void** memory, size_t bytes) override { return *memory = new char[bytes], true; }
  void release(void* memory) override { delete[] static_cast<char*>(memory); }
  bool allocate_pinned(void** memory, size_t bytes) override { return allocate(memory, bytes); }
  void release_pinned(void* memory) override { release(memory); }
  void* new_event() override { return ++world.live, new std::shared_ptr<bool>(); }
  void delete_event(void* event) override { --world.live, delete static_cast<std::shared_ptr<bool>*>(event); }
  void record(void* event, void*) override {
    auto& done = as<std::shared_ptr<bool>>(event);
    done = std::make_shared<bool>(false);
    world.queue.push_back([done] { *done = true; });
  }
  void wait(void* event) override {
    const auto done = as<std::shared_ptr<bool>>(event);
    while (done && !*done) {
      world.queue.front()();
      world.queue.pop_front();
    }
  }
};

}  // namespace millrace::cuda::fake
