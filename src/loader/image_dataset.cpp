#include "loader/image_dataset.h"

#include <string>

#include "millrace/error.h"

namespace millrace::loader {

std::span<const std::shared_ptr<const transforms::ImagePipeline>> ImageDataset::made_for(size_t form) const {
  const std::span all(views);
  return forms ? all.subspan(form, 1) : all;
}

std::vector<transforms::OutputShape> ImageDataset::shapes() const {
  std::vector<transforms::OutputShape> shapes;
  if (views.size() == 1 && !stacked) return shapes;
  if (views.empty() || views.size() > transforms::kMostViews)
    throw Error(ErrorKind::invalid_argument, "a data set makes 1 to " +
                                                 std::to_string(transforms::kMostViews) +
                                                 " views of a picture, not " + std::to_string(views.size()));
  for (const auto& view : views) {
    if (view->output_type() != pipeline().output_type())
      throw Error(ErrorKind::invalid_argument, "the views of a picture must have one dtype");
    if (forms || (ragged && !stacked)) continue;
    const auto shape = view->fixed_shape();
    if (!shape)
      throw Error(
          ErrorKind::invalid_argument,
          "view " + std::to_string(shapes.size()) +
              " has another size for each picture; end it with a crop or a resize to (height, width)");
    if (stacked && !shapes.empty() && *shape != shapes.front())
      throw Error(ErrorKind::invalid_argument, "views that are stacked must have one shape");
    shapes.push_back(*shape);
  }
  return shapes;
}

std::vector<transforms::OutputShape> ImageDataset::parts() const {
  return stacked ? std::vector<transforms::OutputShape>{} : shapes();
}

}  // namespace millrace::loader
