// DataLoader::create: the engine over image files.
#include "loader/data_loader.h"

#include <utility>

#include "loader/row_source.h"
#include "loader/worker.h"

namespace millrace::loader {

std::unique_ptr<DataLoader> DataLoader::create(std::shared_ptr<const ImageDataset> dataset,
                                               const LoaderOptions& options) {
  RowSource source = picture_rows(dataset);
  source.mixer = dataset->mixer();
  return make_loader(std::move(source), options);
}

}  // namespace millrace::loader
