// An accelerator that libtorch takes for one: its memory is the host's, its streams are threads, and all it
// does comes late. Registered by linking it; it is device "privateuseone:0".
//
// Works of a stream hold nothing but addresses, as on a GPU: memory that is given back too early is read when
// it has other values. Device memory that nobody has any more is filled with 0xEE, in the order of the stream
// that it was made on, and behind the streams that record_stream() named.
#pragma once

#include <c10/core/Stream.h>

#include <functional>

namespace fake {

// Behind what the stream has to do already.
void enqueue(const c10::Stream& stream, std::function<void()> work);
void synchronize(const c10::Stream& stream);
c10::Stream current_stream();
c10::Stream new_stream();

}  // namespace fake
