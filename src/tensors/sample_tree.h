// SampleTree: how the samples of a Python dataset look, learned from one of them, and their leaves put into
// rows of batches.
//
// It takes the samples for which torch's default_collate asks nothing of the user's types. Leaves: dense CPU
// tensors, numpy arrays and scalars of number types, float, int, bool; str and bytes are kept as Python
// objects.
// Containers: dict, tuple, list, namedtuples of these very types, up to 32 deep. A derived class says
// where rows lie. For the files of this folder only. All calls need the GIL; one thread. Errors of Python are
// left set and reported by throwing PythonError.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tensors/row_writer.h"
#include "tensors/tensor_view.h"

namespace millrace::tensors {

struct SampleNode {
  enum class Kind : uint8_t {
    tensor,
    array,
    numpy_scalar,
    python_float,
    python_int,
    python_bool,
    object,
    dict,
    tuple,
    list,
    named
  };
  Kind kind = Kind::object;
  pybind11::object type;               // numpy_scalar, named: the class; object: str or bytes
  std::vector<pybind11::object> keys;  // dict
  std::vector<SampleNode> children;
  base::DType element = base::DType::u8;
  std::vector<int64_t> sizes;  // of one row
  size_t row_bytes = 0;
  size_t objects = 0;        // object: which list
  bool in_sequence = false;  // object: torch's transposition makes a tuple of these, not a list

  size_t offset = 0;          // RowWriter: of row 0 in the slot
  uint8_t* rows = nullptr;    // SampleCollator: row 0,
  pybind11::object batch{};   // in this tensor;
  pybind11::object pieces{};  // or the list of tensors that torch is to stack,
  bool row_major = true;      // all of them
};

class SampleTree {
 public:
  virtual ~SampleTree() = default;

 protected:
  using Node = SampleNode;
  using Kind = SampleNode::Kind;

  // Makes `root` and the lists of `objects`. False for a sample that is anything else than the above.
  bool learn(PyObject* sample);
  // Puts the sample's leaves where the following say. False for one that is not like the first; a part of it
  // may have been put then. `exact_keys`: dicts have the same keys in the same order, and no others.
  bool write(Node& node, PyObject* value, bool exact_keys);

  virtual uint8_t* row(Node& node) = 0;  // where the present sample's number goes
  // A leaf that is an array, of node.row_bytes and row-major, or of any strides; `owner`, a tensor or numpy
  // array, keeps its memory.
  virtual void put_row(Node& node, const void* row_major, PyObject* owner) = 0;
  virtual void put_strided(Node& node, const TensorView& values, PyObject* owner) = 0;

  Node root{};
  std::vector<pybind11::object> objects{};  // Python lists

 private:
  bool build(Node& node, PyObject* value, bool in_sequence, int depth);
  bool build_array(Node& node, Kind kind, const pybind11::object& array);
  bool build_children(Node& node, PyObject* value, int depth);
  bool write_children(Node& node, PyObject* value, bool exact_keys);
  bool write_dict(Node& node, PyObject* value, bool exact_keys);
  bool write_tensor(Node& node, PyObject* value);
  bool write_array(Node& node, const pybind11::object& array);
};

}  // namespace millrace::tensors
