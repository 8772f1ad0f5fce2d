#include "tensors/python_keeper.h"

#include <Python.h>

#include <mutex>
#include <utility>
#include <vector>

#include "core/fork_guard.h"

namespace millrace::tensors {
namespace {

// Never destroyed: threads may let go after static destructors ran.
struct Left {
  std::mutex mutex;
  std::vector<PyObject*> objects;
};
Left& left = *new Left;

void let_go(PyObject* object, uint64_t generation) {
  if (generation != core::fork_generation())
    return;  // the lock may be closed for ever, and memory goes with the process
  if (PyGILState_Check() != 0) {
    Py_DECREF(object);
    return;
  }
  const std::lock_guard lock(left.mutex);
  left.objects.push_back(object);
}

}  // namespace

std::shared_ptr<const void> keep_object(PyObject* object) {
  let_go_of_kept();
  return {object,
          [object, generation = core::fork_generation()](const void*) { let_go(object, generation); }};
}

void let_go_of_kept() {
  std::vector<PyObject*> gone;
  {
    const std::unique_lock lock(left.mutex, std::try_to_lock);
    if (lock.owns_lock()) gone.swap(left.objects);
  }
  for (PyObject* object : gone) Py_DECREF(object);
}

}  // namespace millrace::tensors
