// What the binding files share: one bind_<x>() each, and the few conversions that several need.
//
// Bindings translate, nothing more: arguments in, results out, the GIL released around native work. Rules and
// defaults live in python/millrace.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/sample_key.h"
#include "core/slot_memory.h"
#include "loader/data_loader.h"
#include "loader/image_dataset.h"
#include "transforms/image_pipeline.h"

namespace millrace::tensors {
class TensorDevice;
}

namespace millrace::python {

namespace py = pybind11;

// MILLRACE_CPU_TARGETS, before any kernel runs; an ImportError where it names no instruction set.
void limit_cpu_targets_by_environment();

void bind_errors(py::module_& m);
void bind_io(py::module_& m);
void bind_sources(py::module_& m);
void bind_codecs(py::module_& m);
void bind_pictures(py::module_& m);
void bind_shards(py::module_& m);
void bind_shard_samples(py::module_& m);
void bind_pipeline(py::module_& m);
void bind_dataset(py::module_& m);
void bind_loader(py::module_& m);
void bind_gather(py::module_& m);
void bind_arrays(py::module_& m);
void bind_machine(py::module_& m);
void bind_ring(py::module_& m);
void bind_samplers(py::module_& m);
void bind_sequences(py::module_& m);
void bind_device(py::module_& m);
void bind_batch(py::module_& m);
void bind_batch_memory(py::module_& m);
void bind_gpu_decoder(py::module_& m);
void bind_device_loader(py::module_& m);
void bind_lines(py::module_& m);
void bind_json(py::module_& m);
void bind_history(py::module_& m);
void bind_collate(py::module_& m);
void bind_tuning(py::module_& m);
void bind_stacks(py::module_& m);
void bind_trace(py::module_& m);

// File names are bytes on Linux: bytes that are not UTF-8 travel as surrogate escapes, as in os.fsdecode.
std::string from_path(py::handle path);
py::str to_path(std::string_view path);
// str(value) in the same way; characters that no file name can have are escaped. For texts that may name a
// file.
std::string to_text(py::handle value);

// Python ints of any size become 64 bits by their low bits, so a seed may be negative or large.
base::SampleKey make_key(const py::int_& seed, uint64_t epoch, int64_t index, uint32_t occurrence);
std::vector<int64_t> make_indices(const py::object& indices);
loader::ErrorPolicy error_policy(const std::string& name);
py::dict to_dict(const loader::SampleError& error);
py::dict to_dict(const loader::LoaderStats& stats);
py::list to_list(
    const std::vector<trace::StageReading>& readings);  // of tuples, as StageClock.read() gives them
core::BlockSource block_source(
    const std::string& memory);  // "system", "torch", "page-locked" or "page-locked on node N"

// ImagePipeline together with the list it was made from, which is what a pickle keeps.
struct Pipeline {
  explicit Pipeline(py::list chain);
  py::list chain;
  std::shared_ptr<const transforms::ImagePipeline> native;
};
// A torch device by its name, or a device of somebody else's making: a capsule over a
// shared_ptr<TensorDevice>.
std::shared_ptr<tensors::TensorDevice> tensor_device_of(const py::object& device);
py::list to_dicts(const transforms::SampleParams& params);
py::object new_row_tensor(const transforms::OutputShape& shape, base::DType type, void** data);

// The loader and ds.at() share one native dataset.
struct Dataset;
std::shared_ptr<const loader::ImageDataset> native_dataset(const py::handle& dataset);

}  // namespace millrace::python
