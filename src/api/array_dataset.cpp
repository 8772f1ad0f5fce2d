#include "api/array_dataset.h"

#include <algorithm>
#include <utility>

#include "api/array_engine.h"
#include "api/batch_fields.h"
#include "api/npy_file.h"
#include "base/checked.h"
#include "io/file_mapping.h"
#include "io/mapped_file.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

[[noreturn]] void refuse(const Array& array, const std::string& rule) {
  throw Error(ErrorKind::invalid_argument, "array_rows(): array \"" + array.name + "\" " + rule);
}

// In bytes, one for each dimension.
std::vector<int64_t> strides_of(const Array& array) {
  if (!array.strides.empty()) {
    if (array.strides.size() != array.shape.size())
      refuse(array, "has " + std::to_string(array.strides.size()) + " strides for " +
                        std::to_string(array.shape.size()) + " dimensions; give one for each, or none");
    return array.strides;
  }
  std::vector<int64_t> strides(array.shape.size());
  size_t step = dtype_bytes(array.dtype);
  for (size_t axis = array.shape.size(); axis-- > 0;) {
    strides[axis] = static_cast<int64_t>(step);
    step = base::checked_mul(step, static_cast<size_t>(std::max<int64_t>(array.shape[axis], 1)), "an array");
  }
  return strides;
}

ArrayDataset::Rows rows_of(const Array& array, io::FileMappings& mappings) {
  const std::vector<int64_t> strides = strides_of(array);
  const size_t item = dtype_bytes(array.dtype);
  collate::RowMakerOptions maker;
  maker.stored = maker.made = array.dtype;
  maker.elements = static_cast<size_t>(elements_of({array.shape.begin() + 1, array.shape.end()}));
  std::vector<collate::RowAxis> axes;
  for (size_t axis = 1; axis < array.shape.size(); ++axis) axes.push_back({array.shape[axis], strides[axis]});
  collate::StridedRow strided(axes, item);
  const auto* const base = static_cast<const uint8_t*>(array.data);
  ArrayDataset::Rows rows;
  rows.field.row_bytes = maker.elements * item;
  rows.field.tables.push_back({base, array.shape[0], strides[0]});
  rows.field.ends = collate::table_ends(rows.field.tables);
  if (array.shape[0] == 0 || rows.field.row_bytes == 0) return rows;

  const uint8_t* const last = base + (array.shape[0] - 1) * strides[0];
  const bool dense = strided.is_dense();
  const uint8_t* const begin = std::min(base, last) + (dense ? 0 : strided.begin());
  const uint8_t* const end =
      std::max(base, last) + (dense ? static_cast<int64_t>(rows.field.row_bytes) : strided.end());
  if (const auto mapping = mappings.at(begin)) {
    maker.guarded = true;
    rows.mapped = mapping->on_disk;
    const int64_t offset = mapping->offset + (begin - mapping->begin);
    maker.files.push_back(
        {begin,
         end,
         mapping->path,
         offset,
         [watch = io::ShrinkWatch(mapping->path, offset + (end - begin))] { return watch.shrank(); },
         begin,
         {}});
  }
  if (!dense) maker.strided = std::move(strided);
  if (maker.guarded || maker.strided) rows.maker.emplace(std::move(maker));
  return rows;
}

}  // namespace

ArrayDataset::ArrayDataset(std::vector<Array> arrays) : arrays_(std::move(arrays)) {
  if (arrays_.empty())
    throw Error(ErrorKind::invalid_argument, "array_rows() was given no array; give one at least");
  for (const Array& array : arrays_) {
    if (array.shape.empty()) refuse(array, "has no dimension; the first one counts samples");
    for (const int64_t side : array.shape)
      if (side < 0) refuse(array, "has a side of " + std::to_string(side) + "; sides are 0 or more");
    if (array.shape[0] != arrays_[0].shape[0])
      refuse(array, "has " + std::to_string(array.shape[0]) + " rows, and \"" + arrays_[0].name + "\" has " +
                        std::to_string(arrays_[0].shape[0]) + "; arrays of one dataset have as many");
    fields_.push_back({array.name, array.dtype, {array.shape.begin() + 1, array.shape.end()}, false});
  }
  check_fields(fields_, "array_rows()");
  size_ = arrays_[0].shape[0];
  io::FileMappings mappings;
  for (const Array& array : arrays_) {
    if (array.data == nullptr && size_ > 0 && row_bytes(fields_[rows_.size()]) > 0)
      refuse(array, "has no memory: data is null");
    rows_.push_back(rows_of(array, mappings));
  }
}

std::unique_ptr<Engine> ArrayDataset::open(const EngineOptions& options) const {
  return std::make_unique<ArrayEngine>(std::static_pointer_cast<const ArrayDataset>(shared_from_this()),
                                       options);
}

}  // namespace millrace::api

namespace millrace {

Array open_npy(const std::string& path, std::string name) {
  const auto file = std::make_shared<const io::MappedFile>(path);
  const api::NpyHeader header = api::read_npy_header(file->bytes(), path);
  if (header.shape.empty())
    throw Error(ErrorKind::corrupt_data, path + ": the array has no dimension; the first one counts samples",
                path);
  Array array;
  array.name = std::move(name);
  array.dtype = header.dtype;
  array.shape = header.shape;
  array.data = file->bytes().data() + header.begin;
  array.owner = file;
  if (header.fortran) {
    size_t step = dtype_bytes(header.dtype);
    for (const int64_t side : header.shape) {
      array.strides.push_back(static_cast<int64_t>(step));
      step = base::checked_mul(step, static_cast<size_t>(std::max<int64_t>(side, 1)), "an array");
    }
  }
  return array;
}

int64_t whole_samples(size_t values, const std::vector<int64_t>& shape) {
  for (const int64_t side : shape)
    if (side < 0)
      throw Error(ErrorKind::invalid_argument, "array_of(): a sample's shape has a side of " +
                                                   std::to_string(side) + "; sides are 0 or more");
  const int64_t elements = api::elements_of(shape);
  return elements > 0 ? static_cast<int64_t>(values) / elements : 0;
}

Dataset array_rows(std::vector<Array> arrays) {
  return Dataset(std::make_shared<const api::ArrayDataset>(std::move(arrays)));
}

}  // namespace millrace
