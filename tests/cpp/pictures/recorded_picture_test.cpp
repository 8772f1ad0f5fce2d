// RecordedPicture: what waits gives the pixels that the same steps give on all pixels, whoever looks first
// and how often. tests/python/test_lazy_pictures.py compares with Pillow.
#include "pictures/recorded_picture.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include <gtest/gtest.h>

#include "../test_data.h"
#include "millrace/error.h"

namespace millrace::pictures {
namespace {

using Bytes = std::vector<uint8_t>;
using Layout = RecordedPicture::Layout;
using transforms::ResizeStep;

std::shared_ptr<const Bytes> file(const std::string& name) {
  std::ifstream stream(test_data(name), std::ios::binary);
  auto bytes =
      std::make_shared<Bytes>(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  EXPECT_FALSE(bytes->empty()) << name;
  return bytes;
}

std::optional<RecordedPicture> open(const std::shared_ptr<const Bytes>& bytes) {
  return RecordedPicture::open(bytes, *bytes, false);
}

Bytes look(const RecordedPicture& picture, Layout layout = Layout::rgb) {
  Bytes out(size_t(picture.size().width) * picture.size().height * RecordedPicture::bytes_of(layout));
  picture.render(layout, out.data());
  return out;
}

// The same file, its pixels there from the beginning, so that no step is taken on a part of it.
RecordedPicture decoded(const std::shared_ptr<const Bytes>& bytes) {
  const RecordedPicture whole = *open(bytes), same = *open(bytes);
  same.give_pixels(look(whole, Layout::rgbx).data());
  return same;
}

class Steps {
 public:
  explicit Steps(uint32_t seed) : random_(seed) {}

  // The same steps on all pictures given.
  void take(std::vector<RecordedPicture>& pictures) {
    const auto [width, height] = pictures[0].size();
    const int kind = below(6);
    const base::Rect box{below(width) - 2, below(height) - 2, 1 + below(width), 1 + below(height)};
    const int32_t resized_height = 1 + below(60), resized_width = 1 + below(60);
    ResizeStep how{resized_width, resized_height, static_cast<Interpolation>(below(6)), false, below(2) == 1};
    if (below(2) == 1) {
      const auto extent = [&](int32_t size) {
        const float begin = static_cast<float>(below(4 * size)) / 4;
        return transforms::Extent{
            begin, std::min<float>(begin + 0.5f + static_cast<float>(below(size)), static_cast<float>(size))};
      };
      how.extent_x = extent(width), how.extent_y = extent(height);
    }
    const int orientation = 2 + below(7);
    const Mode mode = below(2) == 1 ? Mode::grey : Mode::rgb;
    const std::array<int32_t, 4> padding{below(9), below(9), below(9), below(9)};
    const auto first = static_cast<uint8_t>(below(3));
    const auto second = static_cast<uint8_t>((first + 1 + below(2)) % 3);
    const std::array<uint8_t, 3> order{first, second, static_cast<uint8_t>(3 - first - second)};
    for (RecordedPicture& picture : pictures) {
      if (kind == 0) picture = picture.crop(box);
      if (kind == 1) picture = picture.resize(how);
      if (kind == 2) picture = picture.turn(orientation);
      if (kind == 3) picture = picture.in(mode);
      if (kind == 4) picture = picture.pad(padding, {7, 8, 9});
      if (kind == 5) picture = picture.permute(order);
    }
  }

  int32_t below(int32_t end) { return static_cast<int32_t>(random_() % static_cast<uint32_t>(end)); }

 private:
  std::mt19937 random_;
};

TEST(RecordedPicture, BordersAndChannels) {
  const uint8_t pixels[] = {1, 2, 3, 0, 4, 5, 6, 0};
  const auto picture = RecordedPicture::of_pixels({2, 1}, Mode::rgb, pixels);
  EXPECT_EQ(look(picture.permute({1, 2, 0})), (Bytes{2, 3, 1, 5, 6, 4}));
  EXPECT_EQ(look(picture.permute({0, 1, 2})), (Bytes{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(look(picture.pad({1, 0, 0, 1}, {7, 8, 9})),
            (Bytes{7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 7, 8, 9, 7, 8, 9}));
  EXPECT_EQ(picture.pad({1, 2, 3, 4}, {}).size(), (transforms::PictureSize{6, 7}));
}

TEST(RecordedPicture, PartsAreMadeAsFromTheWhole) {
  Steps steps(1);
  for (const char* name : {"420_q75.jpg", "444_q90.jpg", "422_18x7.jpg", "grey_q85.jpg",
                           "progressive_420.jpg", "420_restart_rows.jpg", "420_1x40.jpg", "420_1x1.jpg"}) {
    const auto bytes = file(std::string("jpeg/") + name);
    for (int i = 0; i < 60; ++i) {
      ASSERT_TRUE(open(bytes)) << name;
      std::vector<RecordedPicture> pictures{*open(bytes), decoded(bytes)};
      for (int n = steps.below(5); n > 0; --n) steps.take(pictures);
      ASSERT_EQ(pictures[0].size(), pictures[1].size());
      const Bytes first = look(pictures[0]);
      ASSERT_EQ(first, look(pictures[1])) << name << ", chain " << i;
      ASSERT_EQ(first, look(pictures[0])) << name << ", chain " << i << ", looked at again";
    }
  }
}

TEST(RecordedPicture, LayoutsHoldTheSamePixels) {
  const RecordedPicture picture = open(file("jpeg/420_q75.jpg"))->crop({3, 5, 20, 11});
  const Bytes rgb = look(picture), bgr = look(picture, Layout::bgr), rgbx = look(picture, Layout::rgbx);
  for (size_t i = 0; i < rgb.size() / 3; ++i)
    for (size_t c = 0; c < 3; ++c) {
      ASSERT_EQ(rgb[3 * i + c], bgr[3 * i + 2 - c]);
      ASSERT_EQ(rgb[3 * i + c], rgbx[4 * i + c]);
      ASSERT_EQ(rgbx[4 * i + 3], 255);
    }
  const RecordedPicture grey = picture.in(Mode::grey);
  const Bytes three = look(grey), one = look(grey, Layout::grey);
  for (size_t i = 0; i < one.size(); ++i) ASSERT_EQ(one[i], three[3 * i]);
}

TEST(RecordedPicture, TensorsHoldTheirValues) {
  for (const Mode mode : {Mode::rgb, Mode::grey}) {
    const RecordedPicture picture = open(file("jpeg/444_q90.jpg"))->turn(6).in(mode);
    const size_t plane = size_t(picture.size().width) * picture.size().height;
    const int32_t planes = mode == Mode::grey ? 1 : 3;
    const auto table = transforms::make_value_table(ToTensor{OutputType::f32, false, planes}, {});
    std::vector<float> values(static_cast<size_t>(planes) * plane);
    picture.render(table, values.data());
    const Bytes rgb = look(picture);
    for (size_t i = 0; i < plane; ++i)
      for (size_t c = 0; c < static_cast<size_t>(planes); ++c)
        ASSERT_EQ(values[c * plane + i], static_cast<float>(rgb[3 * i + c]) / 255.0f);
  }
}

TEST(RecordedPicture, FilesThatPillowMayRefuseAreNotTaken) {
  auto bytes = *file("jpeg/420_q75.jpg");
  const auto taken = [](Bytes of) { return open(std::make_shared<const Bytes>(std::move(of))).has_value(); };
  EXPECT_TRUE(taken(bytes));
  EXPECT_FALSE(taken({bytes.begin(), bytes.end() - 2}));  // no end marker
  EXPECT_FALSE(taken({bytes.begin(), bytes.begin() + 40}));
  EXPECT_FALSE(taken({}));
  Bytes marker = bytes;
  marker[marker.size() - 30] = 0xFF, marker[marker.size() - 29] = 0xC4;  // a table inside the scan
  EXPECT_FALSE(taken(marker));
  Bytes table = bytes;  // more codes of one bit than there can be
  const uint8_t huffman[] = {0xFF, 0xC4};
  *(std::search(table.begin(), table.end(), std::begin(huffman), std::end(huffman)) + 5) = 9;
  EXPECT_FALSE(taken(table));
  auto progressive = *file("jpeg/progressive_420.jpg");
  EXPECT_TRUE(taken(progressive));
  EXPECT_FALSE(taken({progressive.begin(), progressive.end() - 2}));
}

TEST(RecordedPicture, WhatShowsItsDamageLateIsDecodedWhenItIsOpened) {
  const auto bytes = file("jpeg/420_q75.jpg");
  EXPECT_EQ(open(bytes)->renders(), 0);
  for (const auto& entry : std::filesystem::directory_iterator(test_data("png"))) {
    const auto png = file("png/" + entry.path().filename().string());
    const auto picture = open(png);
    if (!picture) continue;
    EXPECT_TRUE(picture->compressed().empty());
    EXPECT_FALSE(look(*picture).empty());
  }
  EXPECT_TRUE(open(file("jpeg/progressive_420.jpg"))->compressed().empty());
}

TEST(RecordedPicture, WhatOnlyPillowMayJudgeIsAnErrorUntilPixelsAreGiven) {
  auto bytes = *file("jpeg/420_q95.jpg");
  std::fill(bytes.end() - 400, bytes.end() - 100, uint8_t{0x55});  // wrong bits, no wrong marker
  const auto damaged = std::make_shared<const Bytes>(bytes);
  const auto picture = open(damaged);
  ASSERT_TRUE(picture);
  EXPECT_THROW(look(*picture), Error);
  const Bytes pixels(size_t(picture->size().width) * picture->size().height * 4, 7);
  picture->give_pixels(pixels.data());
  EXPECT_EQ(look(picture->crop({1, 1, 2, 2})), Bytes(12, 7));
}

// Pictures are immutable, but for the pixels given to their source.
TEST(RecordedPicture, ManyThreadsLookAtOneFile) {
  const auto bytes = file("jpeg/420_q95.jpg");
  const RecordedPicture picture = *open(bytes);
  const Bytes expected = look(decoded(bytes).crop({4, 4, 24, 16})),
              whole = look(decoded(bytes), Layout::rgbx);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 30; ++i) {
        EXPECT_EQ(look(picture.crop({4, 4, 24, 16})), expected);
        if (t == 0 && i == 10) picture.give_pixels(whole.data());
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(picture.renders(), 120);
}

}  // namespace
}  // namespace millrace::pictures
