// NvjpegLibrary: the functions of libnvjpeg that we call, looked up at run time, so that a build needs
// neither it nor its header.
//
// Types and numbers are those of nvJPEG's C interface, which has kept them from CUDA 12 on. Immutable once
// loaded; never unloaded.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace millrace::cuda {

struct NvjpegImage {
  unsigned char* channel[4];
  size_t pitch[4];
};
struct NvjpegAllocator {
  int (*allocate)(void* context, void** memory, size_t bytes, void* stream);
  int (*release)(void* context, void* memory, size_t bytes, void* stream);
  void* context;
};

inline constexpr int kNvjpegSuccess = 0, kNvjpegUnsupported = 4, kNvjpegRgbInterleaved = 5;
inline constexpr int kNvjpegDefault = 0, kNvjpegHybrid = 1, kNvjpegGpuHybrid = 2,
                     kNvjpegHardware = 3;  // backends
inline constexpr unsigned kNvjpegSmoothUpsampling =
    1 << 5;  // chroma as libjpeg's; refused by versions before CUDA 12.1

struct NvjpegLibrary {
  // `path`: one file; empty: the usual names. Throws Error(unavailable) that lists the tried names and says
  // what to install.
  static std::shared_ptr<const NvjpegLibrary> load(const std::string& path);

  // Handles are opaque pointers. Everything returns a status.
  int (*create)(int backend, NvjpegAllocator* device, NvjpegAllocator* pinned, unsigned flags,
                void** handle);  // needs both
  int (*destroy)(void* handle);
  int (*hardware_info)(void* handle, unsigned* engines, unsigned* cores);

  int (*stream_create)(void* handle, void** stream);
  int (*stream_destroy)(void* stream);
  int (*stream_parse)(void* handle, const unsigned char* data, size_t length, int save_metadata,
                      int save_stream, void* stream);
  int (*stream_size)(void* stream, unsigned* width, unsigned* height);
  int (*stream_components)(void* stream, unsigned* count);

  int (*params_create)(void* handle, void** params);
  int (*params_destroy)(void* params);
  int (*params_set_format)(void* params, int format);
  int (*params_set_region)(void* params, int x, int y, int width, int height);  // (0, 0, -1, -1): all

  int (*state_create)(void* handle, void** state);
  int (*state_destroy)(void* state);
  int (*batch_supported)(void* handle, void* stream, void* params, int* zero_if_supported);
  int (*batch_initialize)(void* handle, void* state, int size, int cpu_threads, int format);
  int (*batch_decode)(void* handle, void* state, const unsigned char* const* data, const size_t* lengths,
                      NvjpegImage* images, void* const* params, void* cuda_stream);

  int (*decoder_create)(void* handle, int backend, void** decoder);
  int (*decoder_destroy)(void* decoder);
  int (*decoder_supported)(void* decoder, void* stream, void* params, int* zero_if_supported);
  int (*decoder_state_create)(void* handle, void* decoder, void** state);
  int (*pinned_create)(void* handle, NvjpegAllocator*, void** buffer);
  int (*pinned_destroy)(void* buffer);
  int (*device_create)(void* handle, NvjpegAllocator*, void** buffer);
  int (*device_destroy)(void* buffer);
  int (*attach_pinned)(void* state, void* buffer);
  int (*attach_device)(void* state, void* buffer);
  int (*decode_host)(void* handle, void* decoder, void* state, void* params, void* stream);
  int (*decode_transfer)(void* handle, void* decoder, void* state, void* stream, void* cuda_stream);
  int (*decode_device)(void* handle, void* decoder, void* state, NvjpegImage* image, void* cuda_stream);
};

// A status in words.
const char* nvjpeg_problem(int status);

}  // namespace millrace::cuda
