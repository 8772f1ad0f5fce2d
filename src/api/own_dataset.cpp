#include "api/own_dataset.h"

#include <utility>

#include "api/loader_engine.h"
#include "api/own_rows.h"
#include "api/sampler_impl.h"
#include "loader/row_source.h"
#include "millrace/error.h"

namespace millrace::api {
namespace {

const SampleReader& given(const std::shared_ptr<const SampleReader>& reader) {
  if (!reader) throw Error(ErrorKind::invalid_argument, "make_dataset() was given no SampleReader; give one");
  return *reader;
}

int64_t checked_size(int64_t size) {
  if (size < 0 || size > kMostSamples)
    throw Error(ErrorKind::invalid_argument,
                "make_dataset(): size() is " + std::to_string(size) + "; a dataset has 0 to 2^62 samples");
  return size;
}

}  // namespace

OwnDataset::OwnDataset(std::shared_ptr<const SampleReader> reader)
    : reader_(std::move(reader)), size_(checked_size(given(reader_).size())), fields_(reader_->fields()),
      python_class_(reader_->python_class()) {
  check_fields(fields_, "make_dataset()");
}

std::unique_ptr<Engine> OwnDataset::open(const EngineOptions& options) const {
  const auto layout = std::make_shared<const OwnLayout>(fields_);
  loader::RowSource source;
  source.size = size_;
  source.type = DType::u8;
  source.fixed_shape = layout->row;
  source.parts = layout->blocks;
  source.make_maker = [reader = reader_, layout](trace::StageTimes* times) {
    return make_own_rows(reader, layout, times);
  };
  return std::make_unique<LoaderEngine>(
      loader::make_loader(std::move(source), loader_options(options)),
      [layout, memory = BatchMemory(options.memory)](loader::Batch& batch) {
        return own_fields(*layout, batch, memory);
      },
      [layout] { layout->store.clear(); });
}

}  // namespace millrace::api

namespace millrace {

Dataset make_dataset(std::shared_ptr<const SampleReader> reader) {
  return Dataset(std::make_shared<const api::OwnDataset>(std::move(reader)));
}

}  // namespace millrace
