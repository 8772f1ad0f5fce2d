// The shared ring of worker processes: its slots, batches packed into them, and tensors over them.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>

#include "base/checked.h"
#include "bindings.h"
#include "core/memory_budget.h"
#include "core/shared_ring.h"
#include "core/stream_copy.h"
#include "core/turn_gate.h"
#include "device/host_pages.h"
#include "millrace/error.h"
#include "tensors/row_writer.h"
#include "tensors/tensor.h"

namespace millrace::python {
namespace {

void check_range(const core::SharedRing& ring, int slot, size_t offset, size_t bytes) {
  if (slot < 0 || slot >= ring.slots() || offset > ring.stride() || bytes > ring.stride() - offset)
    throw Error(ErrorKind::out_of_range, "bytes " + std::to_string(offset) + " + " + std::to_string(bytes) +
                                             " are outside slot " + std::to_string(slot));
}

// Calls ring.map(), again after a garbage collection if address space is short: unreachable iterators and
// batches may hold some.
uint8_t* mapped(const core::SharedRing& ring, int slot, size_t bytes) {
  try {
    return ring.map(slot, bytes);
  } catch (const Error& error) {
    if (error.code() != ENOMEM) throw;
  }
  py::module_::import("gc").attr("collect")();
  return ring.map(slot, bytes);
}

// A contiguous buffer of Python's, for as long as this lives.
class Buffer {
 public:
  explicit Buffer(py::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_SIMPLE) != 0) throw py::error_already_set();
  }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  const void* data() const { return view_.buf; }
  size_t size_bytes() const { return static_cast<size_t>(view_.len); }

 private:
  Py_buffer view_{};
};

size_t put(core::SharedRing& ring, int slot, size_t offset, const py::object& bytes, size_t reserved) {
  const Buffer buffer(bytes);
  check_range(ring, slot, offset, buffer.size_bytes());
  mapped(ring, slot, offset + buffer.size_bytes());
  reserved = ring.reserve(slot, reserved, offset + buffer.size_bytes());
  std::memcpy(ring.data(slot) + offset, buffer.data(), buffer.size_bytes());
  return reserved;
}

// A file for a pickler: each write() goes into the slot, after the previous one, so a large value is copied
// once. Bytes that do not fit are only counted: end() then exceeds the slot's size.
class SlotFile {
 public:
  SlotFile(std::shared_ptr<core::SharedRing> ring, int slot, size_t begin, size_t reserved)
      : ring_(std::move(ring)), slot_(slot), end_(begin), reserved_(reserved), checked_(reserved) {
    check_range(*ring_, slot, begin, 0);
    mapped(*ring_, slot, reserved);
  }

  void write(const py::handle& data) {
    const Buffer buffer(data);
    const size_t begin = std::exchange(end_, base::checked_add(end_, buffer.size_bytes(), "batch"));
    if (end_ > ring_->stride()) return;
    if (end_ <= reserved_) {
      std::memcpy(ring_->data(slot_) + begin, buffer.data(), buffer.size_bytes());
      return;
    }
    if (end_ > checked_) {  // in steps, because that reads files
      core::refuse_if_memory_is_short(std::max(end_ - reserved_, kMemoryStep), "this batch");
      checked_ = std::max(end_, reserved_ + kMemoryStep);
    }
    ring_->write(slot_, begin, buffer.data(), buffer.size_bytes());
    reserved_ = end_;
  }

  size_t end() const { return end_; }
  size_t reserved() const { return reserved_; }

 private:
  static constexpr size_t kMemoryStep = size_t{1} << 20;
  std::shared_ptr<core::SharedRing> ring_;
  int slot_;
  size_t end_, reserved_, checked_;
};

// Copies tensors and buffers into the slot, one after the other, from `begin` on. Returns (fields, end,
// reserved), or None when the slot is too short.
py::object pack(core::SharedRing& ring, int slot, size_t begin, size_t reserved, const py::list& tensors,
                const py::list& buffers) {
  std::vector<tensors::TensorSpan> spans;
  for (const py::handle tensor : tensors) spans.emplace_back(tensor.ptr());
  std::vector<std::unique_ptr<Buffer>> raw;
  for (const py::handle buffer : buffers) raw.push_back(std::make_unique<Buffer>(buffer));
  size_t end = core::aligned_field(begin);
  for (tensors::TensorSpan& span : spans)
    span.field().offset =
        std::exchange(end, core::aligned_field(base::checked_add(end, span.size_bytes(), "batch")));
  std::vector<size_t> starts;
  for (const auto& buffer : raw)
    starts.push_back(
        std::exchange(end, core::aligned_field(base::checked_add(end, buffer->size_bytes(), "batch"))));
  if (end > ring.stride()) return py::none();
  mapped(ring, slot, end);
  reserved = ring.reserve(slot, reserved, end);

  py::list fields;
  const auto add_field = [&](size_t offset, int type, const py::object& sizes, const py::object& strides) {
    fields.append(py::make_tuple(offset, type, sizes, strides));
  };
  uint8_t* base = ring.data(slot);
  for (const tensors::TensorSpan& span : spans) {
    const tensors::TensorField& field = span.field();
    core::copy_row(base + field.offset, span.data(), span.size_bytes(), end);
    add_field(field.offset, static_cast<int>(field.type), py::tuple(py::cast(field.sizes)),
              py::tuple(py::cast(field.strides)));
  }
  for (size_t i = 0; i < raw.size(); ++i) {
    std::memcpy(base + starts[i], raw[i]->data(), raw[i]->size_bytes());
    add_field(starts[i], static_cast<int>(base::DType::u8), py::make_tuple(raw[i]->size_bytes()),
              py::tuple());  // bytes
  }
  return py::make_tuple(fields, end, reserved);
}

// A lease of a slot of this process's ring: the slot is free again when the lease and all tensors and parts
// made of it are gone.
struct SlotLease {
  std::shared_ptr<core::SharedRing> ring;
  int slot;
  std::shared_ptr<const void> lease;
};

// Some of a slot's bytes as a read-only buffer; the slot stays leased while any object refers to them.
struct SlotPart {
  std::shared_ptr<const void> lease;
  uint8_t* data;
  size_t bytes;
};

SlotPart part_of(const SlotLease& lease, size_t offset, size_t bytes) {
  check_range(*lease.ring, lease.slot, offset, bytes);
  return {lease.lease, lease.ring->map(lease.slot, offset + bytes) + offset, bytes};
}

// Where the tensors of a batch lie in its slot; their first size is the number of rows when `by_rows`.
struct BatchFields {
  std::vector<tensors::TensorField> fields;
  bool by_rows;

  BatchFields(const py::list& list, bool rows) : by_rows(rows) {
    for (const py::handle item : list) {
      const auto tuple = item.cast<py::tuple>();
      tensors::TensorField field{tuple[0].cast<size_t>(),
                                 static_cast<base::DType>(tuple[1].cast<uint8_t>()),
                                 tuple[2].cast<std::vector<int64_t>>(),
                                 {}};
      if (tuple.size() > 3) field.strides = tuple[3].cast<std::vector<int64_t>>();
      if (by_rows) field.sizes.insert(field.sizes.begin(), 0);
      fields.push_back(std::move(field));
    }
  }

  py::list tensors(const SlotLease& lease, int64_t rows, bool copy) {
    return made(lease.lease, lease.ring->data(lease.slot), rows, copy);
  }

  // In any process that has the ring.
  py::list copies(const core::SharedRing& ring, int slot, int64_t rows) {
    check_range(ring, slot, 0, 0);
    return made(nullptr, ring.data(slot), rows, true);
  }

 private:
  py::list made(const std::shared_ptr<const void>& lease, uint8_t* base, int64_t rows, bool copy) {
    py::list result(fields.size());
    for (size_t i = 0; i < fields.size(); ++i) {
      if (by_rows) fields[i].sizes[0] = rows;
      result[i] = py::reinterpret_steal<py::object>(tensors::tensor_over(lease, base, fields[i], copy));
    }
    return result;
  }
};

// Makes a gate in a slot that holds nothing else.
core::TurnGate gate_on(const std::shared_ptr<core::SharedRing>& ring, int slot) {
  check_range(*ring, slot, 0, sizeof(core::TurnGate::State));
  uint8_t* zeros = ring->keep(slot, sizeof(core::TurnGate::State));  // zeros are a new state
  return core::TurnGate(
      std::shared_ptr<core::TurnGate::State>(ring, reinterpret_cast<core::TurnGate::State*>(zeros)));
}

struct Writer {
  py::object ring;  // kept alive
  tensors::RowWriter rows;
  explicit Writer(const py::object& shared) : ring(shared), rows(shared.cast<core::SharedRing&>()) {}
  bool add(const py::handle& sample) {
    try {
      return rows.add(sample.ptr());
    } catch (const tensors::PythonError&) {
      throw py::error_already_set();
    }
  }
};

}  // namespace

void bind_ring(py::module_& m) {
  m.def("memory_budget", [] {
    const core::MemoryBudget budget = core::memory_budget();
    return py::make_tuple(budget.available_bytes, budget.limit);
  });
  m.def(
      "memory_kills",
      [](const std::string& proc) {
        const core::MemoryKills kills = core::memory_kills(proc);
        return py::make_tuple(kills.count, kills.limit);
      },
      py::arg("proc") = "/proc");
  m.def(
      "is_plain_tensor", [](const py::handle& value) { return tensors::is_plain_tensor(value.ptr()); },
      py::arg("value"));
  py::class_<core::SharedRing, std::shared_ptr<core::SharedRing>>(m, "SharedRing")
      .def(py::init<int, int, int>(), py::arg("slots"), py::arg("warm"), py::arg("files") = 1)
      .def_static(
          "attach",
          [](std::vector<int> fds, int slots, size_t stride) {
            return std::make_shared<core::SharedRing>(std::move(fds), slots, stride);
          },
          py::arg("fds"), py::arg("slots"), py::arg("stride"))
      .def_property_readonly("fds", &core::SharedRing::fds)
      .def_property_readonly("slots", &core::SharedRing::slots)
      .def_property_readonly("stride", &core::SharedRing::stride)
      .def_property_readonly("free_slots", &core::SharedRing::free_slots)
      .def_property_readonly("leased_slots", &core::SharedRing::leased_slots)
      .def_property_readonly("retired_slots", &core::SharedRing::retired_slots)
      .def("crowded", &core::SharedRing::crowded, py::arg("working_set"))
      .def_property_readonly("memory_bytes", &core::SharedRing::memory_bytes)
      .def("take", &core::SharedRing::take)
      .def("give_back", &core::SharedRing::give_back, py::arg("slot"))
      .def("reserved", &core::SharedRing::reserved, py::arg("slot"))
      .def("set_reserved", &core::SharedRing::set_reserved, py::arg("slot"), py::arg("bytes"))
      .def("prefer_node", &core::SharedRing::prefer_node, py::arg("node"))
      .def(
          "lock_pages",
          [](core::SharedRing& ring, int slot, int device) {
            const py::gil_scoped_release release;
            return ring.lock_pages(
                slot, {[device](void* data, size_t bytes) { return cuda::lock_pages(data, bytes, device); },
                       cuda::unlock_pages});
          },
          py::arg("slot"), py::arg("device"))
      .def("put", &put, py::arg("slot"), py::arg("offset"), py::arg("data"), py::arg("reserved"))
      .def(
          "get",
          [](const core::SharedRing& ring, int slot, size_t offset, size_t bytes) {
            check_range(ring, slot, offset, bytes);
            const auto result = py::reinterpret_steal<py::bytes>(
                PyBytes_FromStringAndSize(nullptr, static_cast<py::ssize_t>(bytes)));
            if (!result) throw py::error_already_set();
            ring.read(slot, offset, PyBytes_AS_STRING(result.ptr()), bytes);
            return result;
          },
          py::arg("slot"), py::arg("offset"), py::arg("bytes"))
      .def(
          "lease",
          [](const std::shared_ptr<core::SharedRing>& ring, int slot) {
            check_range(*ring, slot, 0, 0);
            mapped(*ring, slot, ring->reserved(slot));
            return SlotLease{ring, slot, ring->lease(slot)};
          },
          py::arg("slot"))
      .def("pack", &pack, py::arg("slot"), py::arg("begin"), py::arg("reserved"), py::arg("tensors"),
           py::arg("buffers"));
  py::class_<SlotFile>(m, "SlotFile")
      .def(py::init<std::shared_ptr<core::SharedRing>, int, size_t, size_t>(), py::arg("ring"),
           py::arg("slot"), py::arg("begin"), py::arg("reserved"))
      .def("write", &SlotFile::write, py::arg("data"))
      .def_property_readonly("end", &SlotFile::end)
      .def_property_readonly("reserved", &SlotFile::reserved);
  py::class_<SlotPart>(m, "SlotPart", py::buffer_protocol()).def_buffer([](SlotPart& part) {
    return py::buffer_info(part.data, static_cast<py::ssize_t>(part.bytes), true);
  });
  py::class_<SlotLease>(m, "SlotLease").def("part", &part_of, py::arg("offset"), py::arg("bytes"));
  py::class_<core::TurnGate>(m, "TurnGate")
      .def(py::init(&core::TurnGate::in_own_memory))
      .def_static("on", &gate_on, py::arg("ring"), py::arg("slot"))
      .def("set_limit", &core::TurnGate::set_limit, py::arg("limit"))
      .def("open", &core::TurnGate::open)
      .def("close", &core::TurnGate::close)
      .def(
          "wait",
          [](const core::TurnGate& gate, uint32_t number, double seconds) {
            const py::gil_scoped_release release;
            return gate.wait(number, static_cast<int64_t>(seconds * 1e9));
          },
          py::arg("number"), py::arg("seconds"))
      .def_property_readonly("closed", &core::TurnGate::closed)
      .def("end", &core::TurnGate::end);
  py::class_<BatchFields>(m, "BatchFields")
      .def(py::init<const py::list&, bool>(), py::arg("fields"), py::arg("by_rows"))
      .def("tensors", &BatchFields::tensors, py::arg("lease"), py::arg("rows"), py::arg("copy"))
      .def("copies", &BatchFields::copies, py::arg("ring"), py::arg("slot"), py::arg("rows"));
  py::class_<Writer>(m, "RowWriter")
      .def(py::init<const py::object&>(), py::arg("ring"))
      .def(
          "begin",
          [](Writer& w, int slot, size_t reserved, int64_t capacity) {
            w.rows.begin(slot, reserved, capacity);
          },
          py::arg("slot"), py::arg("reserved"), py::arg("capacity"))
      .def("add", &Writer::add, py::arg("sample"))
      .def_property_readonly("rows", [](const Writer& w) { return w.rows.rows(); })
      .def_property_readonly("used_bytes", [](const Writer& w) { return w.rows.used_bytes(); })
      .def_property_readonly("reserved_bytes", [](const Writer& w) { return w.rows.reserved_bytes(); })
      .def_property_readonly("layout_number", [](const Writer& w) { return w.rows.layout_number(); })
      .def("layout", [](const Writer& w) { return py::reinterpret_steal<py::object>(w.rows.layout()); })
      .def("objects", [](const Writer& w) { return py::reinterpret_steal<py::object>(w.rows.objects()); });
}

}  // namespace millrace::python
