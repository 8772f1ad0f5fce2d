// image_folder() and image_files(): datasets of picture files, which know their classes.
#include "millrace/image_folder.h"

#include <algorithm>
#include <cctype>
#include <memory>
#include <utility>

#include "api/image_dataset.h"
#include "millrace/error.h"
#include "sources/image_folder.h"

namespace millrace {
namespace {

// Of millrace.datasets.ImageFolder; a list of files is nothing in Python but a dataset of the program's own.
constexpr const char* kFolderClass = "millrace.datasets.image_folder.ImageFolder";
constexpr const char* kTorchvisionsClass = "torchvision.datasets.folder.ImageFolder";
constexpr const char* kFilesClass = "millrace.image_files";

class FolderSamples final : public api::ImageSamples {
 public:
  FolderSamples(std::shared_ptr<const sources::PathTable> paths, std::vector<int64_t> labels,
                std::vector<std::string> names, const Transforms& transforms,
                const ImageFolderOptions& options, const char* python_class)
      : ImageSamples(std::make_shared<sources::PathFiles>(std::move(paths)), std::move(labels), transforms,
                     options.exif, options.ragged, python_class),
        classes(std::move(names)) {}

  bool is_called(std::string_view name) const override {
    return ImageSamples::is_called(name) || (python_class() == kFolderClass && name == kTorchvisionsClass);
  }

  const std::vector<std::string> classes;
};

const FolderSamples& samples_of(const Dataset& dataset) {
  const auto* const samples = dynamic_cast<const FolderSamples*>(dataset.impl().get());
  if (samples == nullptr)
    throw Error(
        ErrorKind::invalid_argument,
        "this ImageFolder is empty, or of another dataset; make one by image_folder() or image_files()");
  return *samples;
}

}  // namespace

const std::vector<std::string>& ImageFolder::classes() const { return samples_of(*this).classes; }

const std::vector<int64_t>& ImageFolder::labels() const { return samples_of(*this).images().labels; }

std::string ImageFolder::path(int64_t index) const {
  const FolderSamples& samples = samples_of(*this);
  if (index < 0 || index >= samples.size())
    throw Error(ErrorKind::out_of_range, "index " + std::to_string(index) +
                                             " is out of range for a dataset of " +
                                             std::to_string(samples.size()) + " samples");
  return samples.images().files->name(index);
}

ImageFolder image_folder(const std::string& root, const Transforms& transforms,
                         const ImageFolderOptions& options) {
  sources::ImageFolderOptions listing;
  for (std::string extension : options.extensions) {
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
    listing.extensions.push_back(std::move(extension));
  }
  listing.allow_empty = options.allow_empty;
  listing.threads = options.threads;
  sources::ImageFolderListing found = sources::list_image_folder(root, listing);
  auto paths = std::make_shared<const sources::PathTable>(std::move(found.paths));
  return ImageFolder(std::make_shared<const FolderSamples>(std::move(paths), std::move(found.labels),
                                                           std::move(found.classes), transforms, options,
                                                           kFolderClass));
}

ImageFolder image_files(std::vector<std::string> paths, std::vector<int64_t> labels,
                        const Transforms& transforms, const ImageFolderOptions& options) {
  if (labels.empty()) labels.resize(paths.size());
  if (labels.size() != paths.size())
    throw Error(ErrorKind::invalid_argument, "image_files() was given " + std::to_string(paths.size()) +
                                                 " paths and " + std::to_string(labels.size()) +
                                                 " labels; give one for each, or none");
  auto table = std::make_shared<sources::PathTable>();
  for (const std::string& path : paths) table->append(path);
  return ImageFolder(std::make_shared<const FolderSamples>(
      std::move(table), std::move(labels), std::vector<std::string>{}, transforms, options, kFilesClass));
}

}  // namespace millrace
