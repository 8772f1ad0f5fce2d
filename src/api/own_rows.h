// OwnRows: how a sample of one's own lies in a batch, and the RowMaker that has it written there.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "api/batch_fields.h"
#include "api/ragged_store.h"
#include "loader/row_source.h"
#include "millrace/dataset.h"

namespace millrace::api {

// One field's part of a row: `bytes` of it, after parts of `before` bytes.
struct RowPart {
  size_t before = 0, bytes = 0;
};

// What all makers share. Immutable but for the store.
struct OwnLayout {
  explicit OwnLayout(std::vector<FieldSpec> of_fields);

  const std::vector<FieldSpec> fields;
  std::vector<RowPart> parts;                   // by field
  std::vector<transforms::OutputShape> blocks;  // of bytes, in the order in which they lie
  transforms::OutputShape row;
  mutable RaggedStore store;
};

std::unique_ptr<loader::RowMaker> make_own_rows(std::shared_ptr<const SampleReader> reader,
                                                std::shared_ptr<const OwnLayout> layout,
                                                trace::StageTimes* times);

// The fields of a batch of such rows.
std::vector<Field> own_fields(const OwnLayout& layout, loader::Batch& batch, const BatchMemory& memory);

}  // namespace millrace::api
