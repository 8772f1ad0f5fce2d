// The two refusals of a ConsumerSeat.
#include "core/consumer_seat.h"

#include "millrace/error.h"

namespace millrace::core {

ConsumerSeat::Sitting ConsumerSeat::sit() {
  if (holds_current())
    throw Error(
        ErrorKind::invalid_argument,
        "the loader was called from inside one of its own calls; ask for a batch when the last one is there");
  return Sitting(*this, true);
}

void ConsumerSeat::throw_if_closed() const {
  if (closed())
    throw Error(ErrorKind::unavailable,
                "the loader was closed while a batch was asked for; make a new iterator: iter(loader)");
}

}  // namespace millrace::core
