// Where an operation runs, and the two ways to run a kernel: a loop on the CPU (reference_*.cpp), a grid on
// the GPU (src/cuda; src/nocuda where there was no CUDA toolkit at build time).
#pragma once

#include <string>

namespace millrace::device {

struct ColorKernel;  // batch_kernels.h
struct FusedKernel;  // fused_kernels.h
struct CountKernel;  // line_kernels.h

// The CPU, or a stream of a CUDA device. The caller's memory must be of that place and stay until the stream
// has done the work.
struct Place {
  int device = -1;         // -1: the CPU
  void* stream = nullptr;  // a cudaStream_t; null: the device's default stream
  bool on_cpu() const { return device < 0; }
};

// launch() is instantiated for every struct with operator()(sample, group) that all_kernels.h lists.
// The reference has returned when it is done; CUDA's work is enqueued. Any thread. Throws Error(unavailable)
// when there is no such device, or CUDA refuses.
namespace reference {
template <class Kernel>
void launch(const Kernel& kernel);
void add_grey_sums(const ColorKernel& kernel);  // kernel.grey_sums[sample] += kernel.grey_sum(...)
void resample(const FusedKernel& kernel);
void count_levels(const CountKernel& kernel);  // ++ of the entries that kernel(...) names
}  // namespace reference

}  // namespace millrace::device

namespace millrace::cuda {
template <class Kernel>
void launch(const Kernel& kernel, const device::Place& place);
void add_grey_sums(const device::ColorKernel& kernel, const device::Place& place);
void resample(const device::FusedKernel& kernel, const device::Place& place);
void count_levels(const device::CountKernel& kernel, const device::Place& place);

// Why no CUDA device can be used, as a sentence with the remedy; empty when one can.
std::string missing_reason();
}  // namespace millrace::cuda

namespace millrace::device {

template <class Kernel>
void launch(const Kernel& kernel, const Place& place) {
  if (place.on_cpu()) return reference::launch(kernel);
  cuda::launch(kernel, place);
}
inline void add_grey_sums(const ColorKernel& kernel, const Place& place) {
  if (place.on_cpu()) return reference::add_grey_sums(kernel);
  cuda::add_grey_sums(kernel, place);
}
inline void resample(const FusedKernel& kernel, const Place& place) {
  if (place.on_cpu()) return reference::resample(kernel);
  cuda::resample(kernel, place);
}
inline void count_levels(const CountKernel& kernel, const Place& place) {
  if (place.on_cpu()) return reference::count_levels(kernel);
  cuda::count_levels(kernel, place);
}

}  // namespace millrace::device
