#include "cuda/nvjpeg_library.h"

#include <dlfcn.h>

#include <vector>

#include "millrace/error.h"

namespace millrace::cuda {
namespace {

constexpr const char* kRemedy =
    "; install the PyPI package nvidia-nvjpeg (nvidia-nvjpeg-cu12 for CUDA 12) or the CUDA toolkit's "
    "libnvjpeg, or decode on the CPU";

void* open_library(const std::string& path) {
  const std::vector<std::string> names =
      path.empty() ? std::vector<std::string>{"libnvjpeg.so.13", "libnvjpeg.so.12", "libnvjpeg.so"}
                   : std::vector<std::string>{path};
  std::string tried;
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    const char* why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  }
  throw Error(ErrorKind::unavailable, "nvJPEG cannot be loaded (" + tried + ")" + kRemedy);
}

}  // namespace

std::shared_ptr<const NvjpegLibrary> NvjpegLibrary::load(const std::string& path) {
  void* const library = open_library(path);  // for good: its own threads may outlive any decoder
  auto functions = std::make_shared<NvjpegLibrary>();
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function)
      throw Error(ErrorKind::unavailable,
                  std::string("this libnvjpeg is too old: it has no ") + name + kRemedy);
  };
  find(functions->create, "nvjpegCreateExV2");
  find(functions->destroy, "nvjpegDestroy");
  find(functions->hardware_info, "nvjpegGetHardwareDecoderInfo");
  find(functions->stream_create, "nvjpegJpegStreamCreate");
  find(functions->stream_destroy, "nvjpegJpegStreamDestroy");
  find(functions->stream_parse, "nvjpegJpegStreamParse");
  find(functions->stream_size, "nvjpegJpegStreamGetFrameDimensions");
  find(functions->stream_components, "nvjpegJpegStreamGetComponentsNum");
  find(functions->params_create, "nvjpegDecodeParamsCreate");
  find(functions->params_destroy, "nvjpegDecodeParamsDestroy");
  find(functions->params_set_format, "nvjpegDecodeParamsSetOutputFormat");
  find(functions->params_set_region, "nvjpegDecodeParamsSetROI");
  find(functions->state_create, "nvjpegJpegStateCreate");
  find(functions->state_destroy, "nvjpegJpegStateDestroy");
  find(functions->batch_supported, "nvjpegDecodeBatchedSupportedEx");
  find(functions->batch_initialize, "nvjpegDecodeBatchedInitialize");
  find(functions->batch_decode, "nvjpegDecodeBatchedEx");
  find(functions->decoder_create, "nvjpegDecoderCreate");
  find(functions->decoder_destroy, "nvjpegDecoderDestroy");
  find(functions->decoder_supported, "nvjpegDecoderJpegSupported");
  find(functions->decoder_state_create, "nvjpegDecoderStateCreate");
  find(functions->pinned_create, "nvjpegBufferPinnedCreateV2");
  find(functions->pinned_destroy, "nvjpegBufferPinnedDestroy");
  find(functions->device_create, "nvjpegBufferDeviceCreateV2");
  find(functions->device_destroy, "nvjpegBufferDeviceDestroy");
  find(functions->attach_pinned, "nvjpegStateAttachPinnedBuffer");
  find(functions->attach_device, "nvjpegStateAttachDeviceBuffer");
  find(functions->decode_host, "nvjpegDecodeJpegHost");
  find(functions->decode_transfer, "nvjpegDecodeJpegTransferToDevice");
  find(functions->decode_device, "nvjpegDecodeJpegDevice");
  return functions;
}

const char* nvjpeg_problem(int status) {
  switch (status) {
    case 1: return "nvJPEG is not initialised";
    case 2: return "nvJPEG was given an invalid parameter";
    case 3: return "the JPEG is damaged";
    case 4: return "nvJPEG does not support this kind of JPEG";
    case 5: return "nvJPEG got no memory";
    case 6: return "nvJPEG's work on the device failed";
    case 7: return "this GPU does not support the decoder";
    case 8: return "nvJPEG has an internal error";
    case 9: return "nvJPEG has no decoder for this";
    case 10: return "the JPEG ends too early";
    default: return "nvJPEG failed for an unknown reason";
  }
}

}  // namespace millrace::cuda
