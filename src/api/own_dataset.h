// OwnDataset: samples that a SampleReader of the program's writes, as rows of loader::DataLoader.
//
//   SampleReader::read() ──▶ row of the batch: its fixed fields, each a part; tickets for its ragged ones ──▶
//   Fields any thread of the loader                    own_rows.h                     ragged_store.h consumer
//
// A part is bytes to the engine. Parts lie one after the other in the order of falling element size, so each
// block of the batch begins aligned for its type, whatever the number of rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/dataset_impl.h"

namespace millrace::api {

class OwnDataset final : public Dataset::Impl {
 public:
  explicit OwnDataset(std::shared_ptr<const SampleReader> reader);

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  std::string python_class() const override { return python_class_; }
  std::unique_ptr<Engine> open(const EngineOptions& options) const override;

 private:
  const std::shared_ptr<const SampleReader> reader_;  // shared with the threads' makers
  const int64_t size_;
  const std::vector<FieldSpec> fields_;
  const std::string python_class_;
};

}  // namespace millrace::api
