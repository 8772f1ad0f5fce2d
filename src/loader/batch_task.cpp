#include "loader/batch_task.h"

#include <string>
#include <utility>

#include "base/checked.h"

namespace millrace::loader {
namespace {

size_t row_bytes(const transforms::OutputShape& shape, base::DType type) {
  const size_t plane = base::checked_mul(static_cast<size_t>(shape.height), static_cast<size_t>(shape.width),
                                         "a row of a batch");
  return base::checked_mul(plane, static_cast<size_t>(shape.channels) * base::dtype_bytes(type),
                           "a row of a batch");
}

std::string shape_text(const transforms::OutputShape& shape) {
  return "[" + std::to_string(shape.channels) + ", " + std::to_string(shape.height) + ", " +
         std::to_string(shape.width) + "]";
}

}  // namespace

BatchTask::BatchTask(int64_t batch_id, std::shared_ptr<Epoch> of_epoch, std::vector<RowKey> row_keys,
                     std::optional<transforms::OutputShape> fixed_shape, base::DType element_type,
                     size_t form_of_rows, bool is_ragged)
    : Batch(static_cast<int64_t>(row_keys.size())), id(batch_id), epoch(std::move(of_epoch)),
      type(element_type), form(form_of_rows), submitted_rows(units), keys(std::move(row_keys)),
      shape(fixed_shape) {
  ordered::Slot& slot = slots.emplace_back();
  slot.rows = keys.size();
  if (is_ragged) ragged.emplace(keys.size());
  if (!shape) return;
  static_cast<void>(batch_bytes(*shape));
  slot.row_bytes = row_bytes(*shape, type);
}

size_t BatchTask::batch_bytes(const transforms::OutputShape& of) const {
  return base::checked_mul(row_bytes(of, type), static_cast<size_t>(submitted_rows), "a batch");
}

RowMemory BatchTask::place(int64_t row, const transforms::OutputShape& row_shape,
                           std::vector<uint8_t>& elsewhere) {
  const size_t bytes = row_bytes(row_shape, type);
  {
    const std::lock_guard lock(mutex);
    row_shapes.resize(keys.size());
    asides.resize(keys.size());
    row_shapes[static_cast<size_t>(row)] = row_shape;
    if (!shape) {
      lease().resize(batch_bytes(row_shape));
      shape = row_shape;
    }
    if (*shape == row_shape)
      return {lease().data(), static_cast<size_t>(row), static_cast<size_t>(submitted_rows)};
  }
  if (elsewhere.size() < bytes) elsewhere.resize(bytes);
  return {elsewhere.data()};
}

RowMemory BatchTask::place_ragged(int64_t row, const transforms::OutputShape& row_shape,
                                  std::vector<transforms::OutputShape> parts) {
  if (parts.empty()) parts.push_back(row_shape);
  const std::lock_guard lock(mutex);
  asides.resize(keys.size());
  uint8_t* const data =
      ragged->take(static_cast<size_t>(row), std::move(parts), row_bytes(row_shape, type), lease());
  slots.front().wanted = ragged->wanted();
  return {data};
}

void BatchTask::take(RowFailure& failure) {
  if (!failure.any()) return;
  const std::lock_guard lock(mutex);
  failures.push_back(std::exchange(failure, {}));
}

std::exception_ptr BatchTask::first_error() const {
  if (error) return error;
  for (const RowFailure& failure : failures)  // sorted by row
    if (failure.error) return failure.error;
  for (int64_t row = 1; !ragged && row < rows(); ++row) {
    const transforms::OutputShape &first = row_shapes[0], &other = row_shapes[static_cast<size_t>(row)];
    if (other == first) continue;
    return std::make_exception_ptr(
        Error(ErrorKind::shape_mismatch, "stack expects each tensor to be equal size, but got " +
                                             shape_text(first) + " at entry 0 and " + shape_text(other) +
                                             " at entry " + std::to_string(row)));
  }
  return nullptr;
}

}  // namespace millrace::loader
