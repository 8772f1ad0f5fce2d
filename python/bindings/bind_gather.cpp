// RowGather: rows of tensors, arrays and mapped files as batches. int64_array: indices that Python holds, as
// numbers.
#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <span>
#include <utility>

#include "base/clock.h"
#include "bindings.h"
#include "collate/gather_engine.h"
#include "collate/row_gather.h"
#include "gather_field.h"
#include "interruptible.h"
#include "tensors/tensor.h"
#include "trace/stage_times.h"

namespace millrace::python {
namespace {

// Threads copy fields of this size and more, into the ring's warm pages: a fresh page costs as much as
// copying 10 kB. Copying a smaller field takes less time than handing the work to another thread. The threads
// always copy rows of mapped files, because each row may wait for the disk. A piece is a few such rows, so
// that the threads wait at the same time.
constexpr size_t kLargeFieldBytes = size_t{256} << 10;
constexpr size_t kMappedRowsPerPiece = 16;

bool is_exact_array(py::handle object) {
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) ==
         reinterpret_cast<PyObject*>(py::detail::npy_api::get().PyArray_Type_);
}

// Returns whether `indices` are numbers that mean the same to every dataset: a list or tuple of ints or
// numpy.int64, or an array of int64 in one dimension. Torch handles anything else (bools, floats, tensors,
// subclasses).
bool read_indices(py::handle indices, std::vector<int64_t>& numbers) {
  static PyObject* const numpy_int64 = py::object(py::dtype::of<int64_t>().attr("type")).release().ptr();
  numbers.clear();
  if (is_exact_array(indices)) {
    if (!Int64Array::check_(indices)) return false;
    const auto array = py::reinterpret_borrow<Int64Array>(indices);
    if (array.ndim() != 1) return false;
    numbers.assign(array.data(), array.data() + array.size());
    return true;
  }
  if (!PyList_CheckExact(indices.ptr()) && !PyTuple_CheckExact(indices.ptr())) return false;
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(indices.ptr());
  PyObject* const* items = PySequence_Fast_ITEMS(indices.ptr());
  numbers.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* item = items[i];
    if (!PyLong_CheckExact(item) && reinterpret_cast<PyObject*>(Py_TYPE(item)) != numpy_int64) return false;
    const int64_t number = PyLong_AsLongLong(item);
    if (number == -1 && PyErr_Occurred()) {  // more than 64 bits
      PyErr_Clear();
      return false;
    }
    numbers.push_back(number);
  }
  return true;
}

py::object int64_array(const py::object& sequence) {
  std::vector<int64_t> numbers;
  if (!read_indices(sequence, numbers)) return py::none();
  return py::array_t<int64_t>(static_cast<py::ssize_t>(numbers.size()), numbers.data());
}

// A submitted batch: the tensors of its small fields, which are copied at once, and the numbers of the fields
// that the engine makes.
struct Pending {
  size_t rows = 0;
  std::vector<py::object> tensors;
  std::vector<size_t> large;
};

// Threads: the GIL is the lock. It is released only inside the engine's calls, where another thread may call
// close().
// Ends: close() sets `closed_`, closes the engine (so a consumer that waits in the engine returns; see
// gather_engine.h), and empties `pending_` with the GIL. A consumer that gets the GIL back later checks
// `closed_` before it uses `pending_`.
class RowGather {
 public:
  RowGather(const py::sequence& fields, int64_t samples, int threads, int slots, const std::string& memory)
      : samples_(samples), threads_(threads), slots_(slots), memory_(block_source(memory)) {
    io::FileMappings mappings;
    for (const py::handle field : fields)
      fields_.push_back(std::make_unique<GatherField>(py::cast<py::tuple>(field), mappings));
    addresses_.resize(fields_.size());
  }
  ~RowGather() {
    py::gil_scoped_release release;
    engine_.reset();
  }

  void start_epoch() {
    if (engine_) engine_->discard_all();
    pending_.clear();
  }

  bool submit(const py::object& indices) {
    throw_if_closed();
    const trace::StageTimer timer(&made_, trace::Stage::collate);
    if (!read_indices(indices, indices_) || indices_.empty()) return false;
    const auto waits_for_disk = [&](const GatherField& field) { return field.mapped && threads_ > 0; };
    const auto is_for_threads = [&](const GatherField& field) {
      return waits_for_disk(field) || field.made_bytes() * indices_.size() >= kLargeFieldBytes;
    };
    // Comes first, because it may run Python code: the fields must not change once the loop below reads one.
    for (const auto& field : fields_)
      if (is_for_threads(*field)) field->hold_tensors();
    for (size_t i = 0; i < fields_.size(); ++i) {
      addresses_[i].resize(indices_.size());
      const GatherField& field = *fields_[i];
      if (!field.in_place() || !collate::locate_rows(field.native, samples_, indices_, addresses_[i].data()))
        return false;
      if (field.reads_ahead) field.read_ahead(addresses_[i]);
    }
    Pending batch{indices_.size(), std::vector<py::object>(fields_.size()), {}};
    std::vector<collate::RowCopy> copies;
    for (size_t i = 0; i < fields_.size(); ++i) {
      const GatherField& field = *fields_[i];
      const size_t row_bytes = field.made_bytes();
      if (is_for_threads(field) && field.stays()) {
        batch.large.push_back(i);
        copies.push_back({i, row_bytes, std::exchange(addresses_[i], {})});
        copies.back().maker = field.maker();
        if (waits_for_disk(field))
          copies.back().piece_bytes = std::min(copies.back().piece_bytes, kMappedRowsPerPiece * row_bytes);
        continue;
      }
      void* data = nullptr;
      batch.tensors[i] = py::reinterpret_steal<py::object>(
          tensors::new_tensor(field.batch_shape(batch.rows), field.type, &data));
      field.write(addresses_[i],
                  static_cast<uint8_t*>(data));  // with the GIL: asking for it again may take longer
    }
    if (!copies.empty()) engine().submit(std::move(copies));
    throw_if_closed();
    pending_.push_back(std::move(batch));
    return true;
  }

  py::object next(double timeout) {
    throw_if_closed();
    if (pending_.empty()) return py::none();
    if (!pending_.front().large.empty()) wait_for_large(timeout);
    Pending batch = std::move(pending_.front());
    pending_.pop_front();
    py::tuple tensors(batch.tensors.size());
    for (size_t i = 0; i < batch.tensors.size(); ++i) {
      bytes_ += static_cast<int64_t>(fields_[i]->made_bytes() * batch.rows);
      tensors[i] = std::move(batch.tensors[i]);
    }
    ++batches_;
    rows_ += static_cast<int64_t>(batch.rows);
    return tensors;
  }

  void set_limits(int threads, int slots) {
    if (threads < 1 || slots < 1)
      throw py::value_error("at least one thread and one slot, got " + std::to_string(threads) + " and " +
                            std::to_string(slots));
    active_ = threads;
    slots_ = slots;
    if (engine_) engine_->set_limits(threads, slots);
  }

  void close() {
    closed_ = true;
    if (engine_) {
      py::gil_scoped_release release;
      engine_->close();
    }
    pending_.clear();
  }

  py::list clocks() const {
    return to_list(engine_ ? engine_->clocks() : std::vector<trace::StageReading>{});
  }

  py::dict stats() const {
    py::dict seconds;
    for (const char* stage : {"read", "decode", "transform"}) seconds[stage] = 0.0;
    seconds["collate"] =
        static_cast<double>(made_.ns(trace::Stage::collate) + (engine_ ? engine_->copy_ns() : 0)) * 1e-9;
    py::dict result;
    result["samples"] = rows_;
    result["batches"] = batches_;
    result["bytes"] = bytes_;
    result["seconds"] = seconds;
    result["wait_seconds"] = static_cast<double>(made_.ns(trace::Stage::collate) + wait_ns_) * 1e-9;
    result["slots"] = engine_ ? engine_->slots() : 0;
    result["overflow_slots"] = engine_ ? engine_->overflow_count() : 0;
    result["errors"] = py::list();
    result["left_out"] = 0;
    return result;
  }

 private:
  void throw_if_closed() const {
    if (closed_)
      throw Error(ErrorKind::unavailable,
                  "the loader was closed while a batch was asked for; make a new iterator: iter(loader)");
  }

  // Made for the first large field: most loaders of small rows never need a thread.
  collate::GatherEngine& engine() {
    if (!engine_) {
      engine_ = std::make_unique<collate::GatherEngine>(threads_, slots_, fields_.size(), memory_);
      engine_->set_limits(active_, slots_);
    }
    return *engine_;
  }

  void wait_for_large(double timeout) {
    const int64_t start = base::now_ns();
    std::vector<core::Lease> leases;
    try {
      wait_interruptibly(timeout, [&](int slice_ms) { return engine_->next(leases, slice_ms); });
    } catch (const Error&) {  // no memory, or a file that was cut short: the batch is lost
      if (!closed_) pending_.pop_front();
      throw;
    }
    throw_if_closed();
    wait_ns_ += base::now_ns() - start;
    Pending& batch = pending_.front();
    for (size_t i = 0; i < leases.size(); ++i) {
      batch.tensors[batch.large[i]] =
          py::reinterpret_steal<py::object>(batch_tensor(*fields_[batch.large[i]], batch.rows, leases[i]));
    }
    batch.large.clear();
  }

  // Returns the batch's tensor of a field. A small field is copied out of its slot: otherwise users that keep
  // every batch's labels would keep the threads from working ahead.
  static PyObject* batch_tensor(const GatherField& field, size_t rows, core::Lease& lease) {
    const size_t bytes = field.made_bytes() * rows;
    if (bytes >= core::kSmallFieldBytes)
      return tensors::tensor_from_lease(std::move(lease), field.batch_shape(rows), field.type);
    void* data = nullptr;
    PyObject* tensor = tensors::new_tensor(field.batch_shape(rows), field.type, &data);
    std::memcpy(data, lease.data(), bytes);
    lease = {};
    return tensor;
  }

  const int64_t samples_;
  const int threads_;
  int slots_, active_ = std::max(1, threads_);
  const core::BlockSource memory_;
  std::vector<std::unique_ptr<GatherField>> fields_;  // outlives the engine: its threads read from there
  std::vector<int64_t> indices_;
  std::vector<std::vector<const uint8_t*>> addresses_;  // by field; kept for their memory
  std::deque<Pending> pending_;
  bool closed_ = false;
  int64_t rows_ = 0, batches_ = 0, bytes_ = 0, wait_ns_ = 0;
  trace::StageTimes made_;  // time spent in submit()
  std::unique_ptr<collate::GatherEngine> engine_;
};

}  // namespace

void bind_gather(py::module_& m) {
  bind_mapped_files(m);
  m.def("int64_array", &int64_array, py::arg("sequence"));
  py::class_<RowGather>(m, "RowGather")
      .def(py::init<const py::sequence&, int64_t, int, int, const std::string&>(), py::arg("fields"),
           py::arg("samples"), py::arg("threads") = 0, py::arg("slots") = 3, py::arg("memory") = "system")
      .def("start_epoch", &RowGather::start_epoch)
      .def("submit", &RowGather::submit, py::arg("indices"))
      .def("next", &RowGather::next, py::arg("timeout") = 0.0)
      .def("set_limits", &RowGather::set_limits, py::arg("threads"), py::arg("slots"))
      .def("close", &RowGather::close)
      .def("clocks", &RowGather::clocks)
      .def("stats", &RowGather::stats);
}

}  // namespace millrace::python
