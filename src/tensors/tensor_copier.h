// TensorCopier: BatchCopier for torch tensors, as Python objects.
//
// One thread at a time, holding the GIL but where it says otherwise.
// Ends: close() or the destructor wait for the copies under way; in a forked child these and wait_for() do
// nothing, because its parent's device cannot be used there.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "device/batch_copier.h"

struct _object;  // PyObject

namespace millrace::tensors {

class TensorDevice;

class TensorCopier {
 public:
  explicit TensorCopier(std::shared_ptr<TensorDevice> device);
  ~TensorCopier();
  TensorCopier(const TensorCopier&) = delete;
  TensorCopier& operator=(const TensorCopier&) = delete;

  // Queues copies of plain CPU tensors (is_plain_tensor()) and returns new references to tensors on the
  // device, of the same shapes, types and strides, for use on stream(). Page-locked tensors are kept until
  // they have been read, all others are read at once. Throws Error(invalid_argument) for other tensors; what
  // torch throws when the device's memory is full.
  std::vector<_object*> copy(const std::vector<_object*>& tensors);
  device::BatchCopier::Ticket seal();
  // The current stream of the device waits for the ticket; tensors on the device are marked as used there,
  // others passed over.
  void hand_out(const device::BatchCopier::Ticket& ticket, const std::vector<_object*>& tensors);
  // record() gives the moment after all work queued so far on the device's current stream; wait_for() waits
  // for a moment.
  device::BatchCopier::Ticket record();
  void wait_for(const device::BatchCopier::Ticket& ticket);
  void close();  // without the GIL

  // From enter() to leave() what the calling thread queues goes to stream(), between the copies and the seal.
  void enter();
  void leave();

  device::StreamId stream() const;
  int device_index() const;
  int device_type() const;           // torch's number of it
  std::string lock_failure() const;  // why host memory could not be page-locked; empty while it could

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace millrace::tensors
