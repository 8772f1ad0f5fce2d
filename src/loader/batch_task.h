// BatchTask: one submitted batch on its way through the queue: its keys, its slot, and what went wrong.
//
// A row is a unit of ordered::Batch, which says which threads may touch its members; for the members added
// here, a comment at each group says it. The consumer settles the batches that the queue has handed out, and
// hands them on.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/batch_ring.h"
#include "loader/data_loader.h"
#include "loader/epoch_keys.h"
#include "loader/mixture.h"
#include "loader/ragged_rows.h"
#include "ordered/batch.h"

namespace millrace::loader {

// What went wrong at a row that failed at least once.
struct RowFailure {
  int64_t row = 0;
  std::vector<SampleError> left_out;  // samples that were tried and could not be read
  std::exception_ptr error;           // null: another sample has taken the row
  bool any() const { return error != nullptr || !left_out.empty(); }
};

// What a maker left in place of a row, for somebody else to make: see RowSource::complete.
class RowAside {
 public:
  virtual ~RowAside() = default;
};

// Where a row is written: row `row` of a batch of `rows` rows. The batch's parts lie one after the other,
// each a dense block of all rows.
struct RowMemory {
  uint8_t* batch = nullptr;
  size_t row = 0, rows = 1;

  // The row's place in a part with `bytes` per row, past parts with `before` bytes per row.
  uint8_t* part(size_t before, size_t bytes) const { return batch + before * rows + bytes * row; }
};

// What all batches of an epoch share.
struct Epoch {
  const uint64_t seed, number;
  // Set by the first row that has tried every sample in vain: the others need not. Relaxed: a hint.
  std::atomic<bool> none_readable{false};
};

struct BatchTask final : ordered::Batch {
  BatchTask(int64_t batch_id, std::shared_ptr<Epoch> of_epoch, std::vector<RowKey> row_keys,
            std::optional<transforms::OutputShape> fixed_shape, base::DType element_type,
            size_t form_of_rows = 0, bool is_ragged = false);

  // Bytes of the whole batch if its rows have this shape. Throws Error(invalid_argument) when that is more
  // than memory can be.
  size_t batch_bytes(const transforms::OutputShape& shape) const;

  // Where `row` of this shape is to be written. The first row to come decides the batch's shape; a row of
  // another shape goes to `elsewhere` (so that its errors still show) and makes first_error() speak. The
  // batch has its slot. Any thread, own rows.
  RowMemory place(int64_t row, const transforms::OutputShape& row_shape, std::vector<uint8_t>& elsewhere);
  // The same for a ragged batch: its rows may have any shapes; `parts`: of the row, if it has several.
  RowMemory place_ragged(int64_t row, const transforms::OutputShape& row_shape,
                         std::vector<transforms::OutputShape> parts);

  // Moves a row's failure into the batch; `failure` is as new afterwards. Any thread.
  void take(RowFailure& failure);

  // The first error of a complete batch, in the order in which one thread would have met them: rows, then
  // their shapes, which are compared in torch.stack's words. Null: there is none.
  std::exception_ptr first_error() const;

  int64_t rows() const { return units; }  // submitted_rows, less what `skip` took off the end
  core::Lease& lease() { return slots.front().lease; }

  // Set once before the task is shared.
  const int64_t id;
  const std::shared_ptr<Epoch> epoch;
  const base::DType type;
  const size_t form;  // of all rows, whatever sample a row becomes in the end
  const int64_t submitted_rows;
  std::unique_ptr<Mixture> mixture{};  // null: rows are written as they are

  // Written by the one thread that holds the row; read by the consumer when the batch is complete.
  std::vector<RowKey> keys;
  std::vector<std::unique_ptr<RowAside>>
      asides;  // null: the row is written; as many as rows once one was placed

  std::mutex mutex;                  // guards the members below until the batch is complete
  std::optional<RaggedRows> ragged;  // where rows lie that have no common shape
  std::vector<RowFailure> failures;
  std::optional<transforms::OutputShape> shape;
  std::vector<transforms::OutputShape>
      row_shapes;  // empty until a row comes: under `skip` a whole epoch waits in the queue
};

// Of a queue of these.
inline BatchTask& task_of(const ordered::Claim& claim) { return static_cast<BatchTask&>(*claim.batch); }

}  // namespace millrace::loader
