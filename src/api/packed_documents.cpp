// packed_documents(): documents of tokens in rows of one length, planned when the dataset is made.
//
//   offsets ──▶ sequences::SequencePacking ──▶ PackOrder of an epoch ──▶ pieces of row i ──▶ PackBuilder
//
// The order of an epoch is made when the epoch begins and shared with the threads that make rows: a thread
// that is still at a row of the epoch before keeps that one's order until the row is done, and the row is
// thrown away.
#include <memory>
#include <mutex>
#include <utility>

#include "api/dataset_impl.h"
#include "api/loader_engine.h"
#include "api/own_rows.h"
#include "api/token_file.h"
#include "millrace/error.h"
#include "millrace/tokens.h"
#include "sequences/pack_builder.h"
#include "sequences/sequence_packing.h"

namespace millrace {
namespace {

using sequences::PackOrder;

// The plan of all epochs. Immutable; any thread.
struct Packs {
  Packs(api::TokenFile of_file, std::vector<int64_t> of_offsets, const PackingOptions& options)
      : file(std::move(of_file)), offsets(std::move(of_offsets)), builder(arrays(), layout(options)),
        packing(counted(options), packing_options(options)) {}

  const api::TokenFile file;
  const std::vector<int64_t> offsets;
  const sequences::PackBuilder builder;  // before `packing`: it checks the offsets
  const sequences::SequencePacking packing;

 private:
  std::vector<sequences::TokenArray> arrays() const {
    return {{file.ids, file.dtype, file.count, offsets, file.file->path()}};
  }
  static sequences::PackLayout layout(const PackingOptions& options) {
    sequences::PackLayout layout;
    layout.length = options.length;
    layout.separator = options.separator;
    layout.pad = options.pad;
    layout.ignore = options.ignore;
    layout.vocabulary = options.vocabulary.value_or(0);
    return layout;
  }
  // Tokens of each document in a row. Empty ones have no separator.
  std::vector<int64_t> counted(const PackingOptions& options) const {
    std::vector<int64_t> lengths;
    for (size_t i = 1; i < offsets.size(); ++i) {
      const int64_t length = offsets[i] - offsets[i - 1];
      lengths.push_back(length + (options.separator && length > 0 ? 1 : 0));
    }
    return lengths;
  }
  static sequences::PackingOptions packing_options(const PackingOptions& options) {
    sequences::PackingOptions packing;
    packing.length = options.length;
    packing.seed = options.seed;
    return packing;
  }
};

std::vector<FieldSpec> fields_of(const PackingOptions& options) {
  std::vector<FieldSpec> fields{{"input_ids", DType::i64, {options.length}},
                                {"labels", DType::i64, {options.length}}};
  if (options.positions) fields.push_back({"position_ids", DType::i64, {options.length}});
  if (options.documents) fields.push_back({"document_ids", DType::i32, {options.length}});
  return fields;
}

// Rows of one engine. mutex_ guards the address of the order alone.
class PackReader final : public SampleReader {
 public:
  PackReader(std::shared_ptr<const Packs> packs, std::vector<FieldSpec> fields)
      : packs_(std::move(packs)), fields_(std::move(fields)) {
    set_epoch(0);
  }

  void set_epoch(int64_t epoch) {
    auto order = std::make_shared<const PackOrder>(packs_->packing, static_cast<uint64_t>(epoch));
    const std::lock_guard lock(mutex_);
    order_.swap(order);
  }

  int64_t size() const override { return packs_->packing.size(); }
  std::vector<FieldSpec> fields() const override { return fields_; }
  std::string name(int64_t index) const override {
    return packs_->file.file->path() + ", row " + std::to_string(index) + " of packed documents";
  }
  void read(const SampleKey& key, RowWriter& out) const override {
    std::vector<sequences::PackPiece> pieces;
    std::vector<int64_t> ends;
    order()->at({&key.index, 1}, pieces, ends);
    sequences::PackRow row{out.row<int64_t>(0).data(), out.row<int64_t>(1).data()};
    for (size_t i = 2; i < fields_.size(); ++i)
      if (fields_[i].dtype == DType::i64)
        row.positions = out.row<int64_t>(i).data();
      else
        row.documents = out.row<int32_t>(i).data();
    packs_->builder.build(pieces, row);
    if (packs_->file.file->shrank()) {
      const std::string& path = packs_->file.file->path();
      throw Error(ErrorKind::corrupt_data,
                  path +
                      ": the file is shorter than when it was opened; make the dataset anew when nobody "
                      "writes to it",
                  path);
    }
  }

 private:
  std::shared_ptr<const PackOrder> order() const {
    const std::lock_guard lock(mutex_);
    return order_;
  }

  const std::shared_ptr<const Packs> packs_;
  const std::vector<FieldSpec> fields_;
  mutable std::mutex mutex_;
  std::shared_ptr<const PackOrder> order_;
};

class PackEngine final : public api::LoaderEngine {
 public:
  PackEngine(std::shared_ptr<PackReader> reader, std::shared_ptr<const api::OwnLayout> layout,
             const api::EngineOptions& options)
      : LoaderEngine(loader::make_loader(source_of(reader, layout), api::loader_options(options)),
                     [layout, memory = api::BatchMemory(options.memory)](loader::Batch& batch) {
                       return api::own_fields(*layout, batch, memory);
                     }),
        reader_(std::move(reader)) {}

  void set_run_epoch(int64_t number) override { next_ = number; }
  // Rows that nobody has begun are gone before the order is another one.
  void start_epoch(uint64_t seed, uint64_t epoch) override {
    LoaderEngine::start_epoch(seed, epoch);
    reader_->set_epoch(next_);
  }

 private:
  static loader::RowSource source_of(const std::shared_ptr<PackReader>& reader,
                                     const std::shared_ptr<const api::OwnLayout>& layout) {
    loader::RowSource source;
    source.size = reader->size();
    source.type = DType::u8;
    source.fixed_shape = layout->row;
    source.parts = layout->blocks;
    source.make_maker = [reader, layout](trace::StageTimes* times) {
      return api::make_own_rows(reader, layout, times);
    };
    return source;
  }

  const std::shared_ptr<PackReader> reader_;
  int64_t next_ = 0;  // the number of the epoch that begins
};

class PackedDocuments final : public Dataset::Impl {
 public:
  PackedDocuments(std::shared_ptr<const Packs> packs, std::vector<FieldSpec> fields)
      : packs_(std::move(packs)), fields_(std::move(fields)) {}

  int64_t size() const override { return packs_->packing.size(); }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  std::string python_class() const override { return "millrace.datasets.sequences.packed.PackedSequences"; }
  std::unique_ptr<api::Engine> open(const api::EngineOptions& options) const override {
    return std::make_unique<PackEngine>(std::make_shared<PackReader>(packs_, fields_),
                                        std::make_shared<const api::OwnLayout>(fields_), options);
  }

 private:
  const std::shared_ptr<const Packs> packs_;  // shared with the engines' readers
  const std::vector<FieldSpec> fields_;
};

}  // namespace

Dataset packed_documents(const std::string& tokens, std::vector<int64_t> offsets, DType dtype,
                         const PackingOptions& options) {
  if (options.vocabulary && *options.vocabulary < 1)
    throw Error(ErrorKind::invalid_argument, "packed_documents(): vocabulary is " +
                                                 std::to_string(*options.vocabulary) + "; give 1 or more");
  auto packs =
      std::make_shared<const Packs>(api::open_token_file(tokens, dtype), std::move(offsets), options);
  return Dataset(std::make_shared<const PackedDocuments>(std::move(packs), fields_of(options)));
}

}  // namespace millrace
