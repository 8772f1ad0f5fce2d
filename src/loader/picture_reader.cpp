#include "loader/picture_reader.h"

#include "millrace/error.h"

namespace millrace {

const PictureHeader& PictureReader::open(std::span<const uint8_t> bytes) {
  bytes_ = bytes;
  whole_ = false;
  header_ = {};
  const StageScope scope(Stage::decode);
  try {
    header_ = decoder_.probe(bytes);
  } catch (const Error& refusal) {
    const StageTimer timer(times_, Stage::decode);
    fall_back(refusal);
  }
  return header_;
}

ImageView PictureReader::decode(Rect region) {
  if (!whole_) {
    const StageTimer timer(times_, Stage::decode);
    const ImageView view = pixels_.resize(region.width, region.height);
    try {
      decoder_.decode(region, view);
      return view;
    } catch (const Error& refusal) {
      fall_back(refusal);
    }
  }
  const ImageView whole = pixels_.view();
  return {whole.row(region.top) + ptrdiff_t{region.left} * kPixelBytes, region.width, region.height, whole.stride_bytes};
}

void PictureReader::fall_back(const Error& refusal) {
  if (!fallback_ || !left_to_fallback(refusal, bytes_)) throw refusal;
  const PictureHeader promised = header_;  // empty when there is none
  try {
    fallback_->decode(bytes_, name_(), pixels_, &header_.orientation);
  } catch (const Error& error) {
    if (refusal.kind() == ErrorKind::corrupt_data && error.kind() == ErrorKind::corrupt_data) throw refusal;
    throw;
  }
  whole_ = true;
  header_.width = pixels_.view().width;
  header_.height = pixels_.view().height;
  if (promised.width != 0 && (promised.width != header_.width || promised.height != header_.height)) throw refusal;
}

}  // namespace millrace
