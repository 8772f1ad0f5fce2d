#include "loader/picture_reader.h"

#include "millrace/error.h"

namespace millrace::loader {

const codecs::PictureHeader& PictureReader::open(std::span<const uint8_t> bytes) {
  bytes_ = bytes;
  whole_ = false;
  header_ = {};
  const trace::StageScope scope(trace::Stage::decode);
  try {
    header_ = decoder_.probe(bytes);
    const codecs::JpegHeader* const found = decoder_.jpeg();
    if (upright_ && fallback_ && found && !found->orientation_known)
      throw Error(ErrorKind::unavailable,
                  "JPEG has unusual EXIF data; only a fallback decoder (Pillow) knows what it means");
  } catch (const Error& refusal) {
    const trace::StageTimer timer(times_, trace::Stage::decode);
    fall_back(refusal);
    return header_;
  }
  check_mode();
  // Of other formats the decoder left those to the fallback, which looks at their size itself.
  if (rules_ && int64_t{header_.width} * header_.height > most_quiet_pixels_)
    rules_->check_size(header_.width, header_.height, name_());
  return header_;
}

base::ImageView PictureReader::decode(base::Rect region) {
  if (!whole_) {
    const trace::StageTimer timer(times_, trace::Stage::decode);
    const base::ImageView view = pixels_.resize(region.width, region.height);
    try {
      decoder_.decode(region, view);
      return view;
    } catch (const Error& refusal) {
      fall_back(refusal);
    }
  }
  return pixels_.view().part(region);
}

void PictureReader::fall_back(const Error& refusal) {
  if (!fallback_ || modes_ != ModeRule::any) throw refusal;
  if (!codecs::left_to_fallback(refusal, bytes_)) check_jpeg(refusal);
  const codecs::PictureHeader promised = header_;  // empty when there is none
  try {
    fallback_->decode(bytes_, name_(), pixels_, &header_.orientation);
  } catch (const Error& error) {
    if (refusal.kind() == ErrorKind::corrupt_data && error.kind() == ErrorKind::corrupt_data)
      throw Error(refusal.kind(), refusal.what(), refusal.path(), refusal.offset(), error.code());
    throw;
  }
  whole_ = true;
  header_.width = pixels_.view().width;
  header_.height = pixels_.view().height;
  if (promised.width != 0 && (promised.width != header_.width || promised.height != header_.height))
    throw refusal;
}

void PictureReader::check_mode() const {
  const bool grey = modes_ == ModeRule::grey_or_rgb && header_.mode == codecs::StoredMode::grey;
  if (modes_ == ModeRule::any || header_.mode == codecs::StoredMode::rgb || grey) return;
  throw Error(ErrorKind::unavailable, std::string("the picture's mode is not RGB") +
                                          (modes_ == ModeRule::rgb ? "" : " or grey") +
                                          " of 8 bits, or not known before it is decoded");
}

// Returns only for a JPEG that the fallback is to decode: one that is too large for any but its own limits.
void PictureReader::check_jpeg(const Error& refusal) const {
  if (refusal.kind() != ErrorKind::corrupt_data) throw refusal;
  if (refusal.code() == codecs::kTooManyPixels && rules_) return;
  const bool known = header_.width != 0 || !rules_ || rules_->identifies(bytes_);
  throw Error(refusal.kind(), refusal.what(), refusal.path(), refusal.offset(),
              known ? codecs::kDamaged : codecs::kNotIdentified);
}

}  // namespace millrace::loader
