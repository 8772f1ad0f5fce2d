// DataLoader::create: the engine over image files.
#include "loader/data_loader.h"

#include <string>
#include <utility>

#include "loader/row_source.h"
#include "loader/worker.h"

namespace millrace::loader {
namespace {

transforms::OutputShape whole_row(std::span<const transforms::OutputShape> parts) {
  int64_t elements = 0;
  for (const transforms::OutputShape& part : parts) elements += part.elements();
  if (elements > INT32_MAX)
    throw Error(ErrorKind::invalid_argument, "the views of a picture have " + std::to_string(elements) +
                                                 " elements together, more than fit a row");
  return {1, 1, static_cast<int32_t>(elements)};
}

}  // namespace

std::unique_ptr<DataLoader> DataLoader::create(std::shared_ptr<const ImageDataset> dataset,
                                               const LoaderOptions& options) {
  if (!dataset->labels.empty() && std::cmp_not_equal(dataset->labels.size(), dataset->files->size()))
    throw Error(ErrorKind::invalid_argument, "the dataset has " + std::to_string(dataset->files->size()) +
                                                 " files but " + std::to_string(dataset->labels.size()) +
                                                 " labels");
  RowSource source;
  source.size = dataset->files->size();
  source.type = dataset->pipeline().output_type();
  source.parts = dataset->parts();
  source.fixed_shape = source.parts.empty() ? dataset->pipeline().fixed_shape() : whole_row(source.parts);
  if (dataset->views.size() == 1) source.mixer = dataset->pipeline().mixer();
  source.labels = dataset->labels;
  source.make_maker = [dataset](trace::StageTimes* times) {
    return std::make_unique<Worker>(dataset, times);
  };
  return make_loader(std::move(source), options);
}

}  // namespace millrace::loader
