// States: what resumes a run, exactly, at any batch; the same JSON as Python's state_dict().
//
//   std::string saved = loader.state();      // put it into the checkpoint
//   ...
//   millrace::Loader again(photos, options);
//   again.load_state(saved);                 // the next batch is the one that would have come
//
// A state has a checksum and says what it is of: another dataset class, length, sampler or batch size is
// refused. It loads under any number of threads. In Python: json.loads(saved) for load_state_dict(),
// json.dumps(state) of a loader with generator=torch.Generator() and native datasets for load_state().
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/error.h"
#include "millrace/export.h"

namespace millrace {

// A state that is damaged, of another run, or not of a kind that C++ can go on with.
class MILLRACE_API StateError : public Error {
 public:
  explicit StateError(const std::string& message) : Error(ErrorKind::invalid_argument, message) {}
};

// One state for any number of ranks, from those of all ranks in their order: merge_states() in Python. Throws
// StateError for states that differ, Error(invalid_argument) for none.
// Requires: the states of all ranks of one run, taken at the same step, of a sampler with Ranks.
MILLRACE_API std::string merge_states(const std::vector<std::string>& states);

}  // namespace millrace
