// ArrayDataset: rows of arrays, which are only copied, by collate::GatherEngine.
//
//   indices ──▶ addresses of rows ──▶ small fields: copied in submit()
//                                 ──▶ large ones, and those in mapped files: by the engine's threads
//
// What of the arrays lies in mapped files is asked of the system once, when the dataset is made
// (io/file_mapping.h): those rows are read under core/bus_guard.h, so that a file that was cut short is an
// Error(corrupt_data) with its name. Immutable; any thread. The arrays' owners are kept for as long as the
// dataset or an engine of it lives.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/dataset_impl.h"
#include "collate/row_gather.h"
#include "collate/row_maker.h"
#include "millrace/arrays.h"

namespace millrace::api {

class ArrayDataset : public Dataset::Impl {
 public:
  explicit ArrayDataset(std::vector<Array> arrays);

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  std::string python_class() const override { return "torch.utils.data.dataset.TensorDataset"; }
  std::unique_ptr<Engine> open(const EngineOptions& options) const override;

  // How one array's rows lie, and what makes rows of a batch of them.
  struct Rows {
    collate::RowField field;
    std::optional<collate::RowMaker> maker;  // absent: rows are copied as they are
    bool mapped = false;                     // reading a row may have to wait for a disk
  };
  const std::vector<Rows>& rows() const { return rows_; }

 protected:
  // For rows that somebody else keeps, which may overlap: as many as each field's tables have.
  ArrayDataset(int64_t size, std::vector<FieldSpec> fields, std::vector<Rows> rows)
      : size_(size), fields_(std::move(fields)), rows_(std::move(rows)) {}

 private:
  const std::vector<Array> arrays_;
  int64_t size_ = 0;
  std::vector<FieldSpec> fields_;
  std::vector<Rows> rows_;
};

}  // namespace millrace::api
