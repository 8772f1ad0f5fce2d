// Folders and lists of picture files: JPEG, PNG and WebP, decoded only where the transforms look.
//
// Fields of a sample: "image" of Transforms::dtype() and shape, and "label", an i64. With `ragged`, pictures
// of a batch may have any sizes: "image" is ragged, its rows single elements, and between the two comes
// "image_size", i64 of shape {3}: channels, height, width. A file of no format that the library decodes
// is the sample's Error(unavailable), one that it refuses Error(corrupt_data), each with path and reason; an
// error policy leaves out both.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/dataset.h"
#include "millrace/export.h"
#include "millrace/transforms.h"

namespace millrace {

struct ImageFolderOptions {
  bool exif = false;  // pictures are turned upright first, as their EXIF orientation says
  std::vector<std::string> extensions{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                      ".pgm", ".tif",  ".tiff", ".webp"};
  bool allow_empty = false;  // a class without a file is no error
  int threads = 0;           // that list the folder; 0: as many as pay
  bool ragged = false;       // pictures keep the sizes that the transforms leave them, each its own
};

// A dataset that also knows its classes and files. It is one: a Loader takes it.
class MILLRACE_API ImageFolder : public Dataset {
 public:
  using Dataset::Dataset;
  const std::vector<std::string>& classes() const;  // sorted; label i is classes()[i]
  const std::vector<int64_t>& labels() const;       // of each sample
  std::string path(int64_t index) const;            // throws Error(out_of_range)
};

// root/<class>/.../file, in torchvision's order. Throws Error(not_found) where what it requires does not
// hold.
// Requires: a root with one class folder at least.
// Requires: one file of the extensions in each class, unless allow_empty.
MILLRACE_API ImageFolder image_folder(const std::string& root, const Transforms& transforms,
                                      const ImageFolderOptions& options = {});

// Files wherever they are; they are opened when a batch needs them. Without labels all are 0. Throws
// Error(invalid_argument) where what it requires does not hold.
// Requires: as many labels as paths, or none.
MILLRACE_API ImageFolder image_files(std::vector<std::string> paths, std::vector<int64_t> labels,
                                     const Transforms& transforms, const ImageFolderOptions& options = {});

}  // namespace millrace
