// Datasets of one's own: fields of all sizes, ragged ones, and what goes wrong in read().
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <new>
#include <stdexcept>
#include <utility>

#include "errors_of.h"
#include "millrace/loader.h"
#include "own_samples.h"

namespace millrace {
namespace {

class Own : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Threads, Own, ::testing::Values(0, 1, 4));

void check_batch(const Batch& batch) {
  const auto rows = static_cast<size_t>(batch.size());
  const auto words = batch["words"].as<int32_t>();
  const auto& offsets = batch["words"].offsets();
  ASSERT_TRUE(batch["words"].ragged());
  ASSERT_FALSE(batch["x"].ragged());
  ASSERT_EQ(offsets.size(), rows + 1);
  ASSERT_EQ(batch["words"].shape(), (std::vector<int64_t>{offsets.back(), 2}));
  for (size_t row = 0; row < rows; ++row) {
    const int64_t index = batch.indices()[row];
    ASSERT_EQ(batch["index"].as<int64_t>()[row], index);
    ASSERT_EQ(batch["flag"].as<uint8_t>()[row], index % 7);
    for (size_t i = 0; i < 3; ++i)
      ASSERT_EQ(batch["x"].as<float>()[row * 3 + i], static_cast<float>(index) + static_cast<float>(i) / 4);
    ASSERT_EQ(offsets[row + 1] - offsets[row], index % 4);
    for (int64_t i = 0; i < 2 * (index % 4); ++i)
      ASSERT_EQ(words[static_cast<size_t>(2 * offsets[row] + i)], index * 100 + i);
  }
  for (const Field& field : batch.fields())
    EXPECT_EQ(reinterpret_cast<uintptr_t>(field.data()) % dtype_bytes(field.dtype()), 0u) << field.name();
}

TEST_P(Own, AllFieldsArriveRaggedOnesWithOffsets) {
  Loader loader(make_dataset(Numbered{.samples = 53}),
                {.batch_size = 7, .shuffle = true, .threads = GetParam()});
  for (int epoch = 0; epoch < 3; ++epoch) {
    std::set<int64_t> seen;
    for (const Batch& batch : loader) {
      check_batch(batch);
      seen.insert(batch.indices().begin(), batch.indices().end());
    }
    EXPECT_EQ(seen.size(), 53u);
  }
}

TEST_P(Own, EpochsThatAreBrokenOffLeaveNothingBehind) {
  Loader loader(make_dataset(Numbered{.samples = 400}),
                {.batch_size = 5, .threads = GetParam(), .prefetch = 4});
  for (int epoch = 0; epoch < 20; ++epoch) {
    Batch batch;
    loader.begin();  // gives the first batch, and is dropped with it
    ASSERT_TRUE(loader.next(batch));
    EXPECT_EQ(batch.number(), 1);
    check_batch(batch);
  }
}

TEST_P(Own, RandomBitsDependOnTheKeyAlone) {
  std::vector<std::vector<uint32_t>> bits;
  for (const int threads : {0, GetParam()}) {
    Loader loader(make_dataset(Numbered{}),
                  {.batch_size = 10, .shuffle = true, .threads = threads, .seed = 5});
    for (int epoch = 0; epoch < 2; ++epoch)
      for (const Batch& batch : loader) {
        const auto span = batch["bits"].as<uint32_t>();
        bits.emplace_back(span.begin(), span.end());
      }
  }
  EXPECT_EQ(bits[0], bits[2]);
  EXPECT_EQ(bits[1], bits[3]);
  EXPECT_NE(bits[0], bits[1]);
}

TEST_P(Own, WhatReadThrowsIsTheBatchsError) {
  Loader loader(make_dataset(Numbered{.samples = 12, .bad = {5}}), {.batch_size = 4, .threads = GetParam()});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  try {
    loader.next(batch);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::corrupt_data);
    EXPECT_EQ(error.path(), "number 5");
    EXPECT_STREQ(error.what(), "number 5: it is damaged");
  }
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch.number(), 2);
  EXPECT_EQ(batch.indices(), (std::vector<int64_t>{8, 9, 10, 11}));
  EXPECT_FALSE(loader.next(batch));
}

TEST_P(Own, WhateverIsThrownBecomesAnError) {
  const auto thrown = [](const std::function<void()>& what) {
    Numbered own{.samples = 1};
    own.on_read = [what](const SampleKey&) { what(); };
    Loader loader(make_dataset(std::move(own)), {.threads = GetParam()});
    Batch batch;
    return kind_of([&] { loader.next(batch); });
  };
  EXPECT_EQ(thrown([] { throw 42; }), ErrorKind::corrupt_data);
  EXPECT_EQ(thrown([] { throw std::logic_error("a rule is broken"); }), ErrorKind::corrupt_data);
  EXPECT_EQ(thrown([] { throw std::bad_alloc(); }), ErrorKind::system);
  EXPECT_EQ(thrown([] { throw Error(ErrorKind::unavailable, "the server is not there today"); }),
            ErrorKind::unavailable);
}

struct Misused {
  std::function<void(RowWriter&)> use;
  int64_t size() const { return 1; }
  std::vector<FieldSpec> fields() const { return {{"x", DType::f32, {2}}, {"r", DType::f16, {}, true}}; }
  void read(const SampleKey&, RowWriter& out) const { use(out); }
};

TEST_P(Own, AWriterThatIsMisusedSaysWhatIsWrong) {
  const auto fails = [](const std::function<void(RowWriter&)>& use, const std::string& says) {
    Loader loader(make_dataset(Misused{use}), {.threads = GetParam(), .on_error = OnError::skip});
    Batch batch;
    EXPECT_EQ(kind_of([&] { loader.next(batch); }, says), ErrorKind::invalid_argument);
  };
  fails([](RowWriter& out) { out.row<double>(0); }, "float32, not float64");
  fails([](RowWriter& out) { out.row<float>(2); }, "field 2");
  fails([](RowWriter& out) { out.ragged<float>(0, 1); }, "not ragged");
  fails([](RowWriter& out) { out.bytes(1); }, "is ragged");
  fails([](RowWriter& out) { out.ragged_bytes(1, -1); }, "-1 rows");
  fails([](RowWriter& out) { out.ragged_bytes(1, 1), out.ragged_bytes(1, 1); }, "already");
}

TEST_P(Own, TypesThatCppDoesNotHaveAreBytes) {
  Loader loader(make_dataset(Misused{[](RowWriter& out) {
                  std::memset(out.bytes(0).data(), 0, out.bytes(0).size());
                  const auto half = out.ragged_bytes(1, 3);
                  ASSERT_EQ(half.size(), 6u);
                  std::memset(half.data(), 0x3c, half.size());
                }}),
                {.threads = GetParam()});
  Batch batch;
  ASSERT_TRUE(loader.next(batch));
  EXPECT_EQ(batch["r"].shape(), (std::vector<int64_t>{3}));
  EXPECT_EQ(static_cast<const uint8_t*>(batch["r"].data())[5], 0x3c);
}

struct Described {
  std::vector<FieldSpec> specs{{"x", DType::f32, {}}};
  int64_t samples = 1;
  int64_t size() const { return samples; }
  std::vector<FieldSpec> fields() const { return specs; }
  void read(const SampleKey&, RowWriter&) const {}
};

TEST(OwnErrors, WhatCannotBeADataset) {
  const auto kind = [](std::vector<FieldSpec> specs, int64_t samples, const std::string& says) {
    return kind_of([&] { make_dataset(Described{specs, samples}); }, says);
  };
  EXPECT_EQ(kind({}, 1, "no fields"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({{"x"}, {"x"}}, 1, "two fields"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({{"x", DType::f32, {-1}}}, 1, "-1"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({{""}}, 1, "no name"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind({{"x"}}, -1, "-1"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { make_dataset(std::shared_ptr<const SampleReader>()); }),
            ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { Dataset().size(); }, "empty"), ErrorKind::invalid_argument);
  EXPECT_EQ(kind_of([] { Dataset().fields(); }, "empty"), ErrorKind::invalid_argument);
  const Dataset huge = make_dataset(Described{{{"x", DType::f64, {1 << 30}}}, 1});
  EXPECT_EQ(kind_of(
                [&] {
                  Batch batch;
                  Loader(huge, {}).next(batch);
                },
                "2^31"),
            ErrorKind::invalid_argument);
}

TEST(OwnErrors, NoSamplesAreAnEmptyEpoch) {
  Loader loader(make_dataset(Described{{{"x"}}, 0}), {.batch_size = 4, .shuffle = true});
  Batch batch;
  EXPECT_EQ(loader.size(), 0);
  EXPECT_FALSE(loader.next(batch));
  EXPECT_FALSE(loader.next(batch));
  EXPECT_EQ(loader.epoch(), 2);
}

// Destructors: of a dataset as written, of one that may throw, and of one that does.
struct Counted : Numbered {
  std::shared_ptr<int> alive = std::make_shared<int>(0);
};
struct MayThrow : Numbered {
  ~MayThrow() noexcept(false) {}
};
static_assert(OwnDataset<Counted> && !OwnDataset<MayThrow>);

TEST_P(Own, TheDatasetLivesAsLongAsItsLoader) {
  Counted own;
  const std::weak_ptr<int> alive = own.alive;
  Dataset dataset = make_dataset(std::exchange(own, {}));
  Batch batch;
  {
    Loader loader(std::exchange(dataset, {}), {.batch_size = 3, .threads = GetParam()});
    ASSERT_TRUE(loader.next(batch));
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
  check_batch(batch);  // whose memory is the batch's own
}

void fail() { throw std::runtime_error("thrown by a destructor"); }
struct Throws : Numbered {
  bool armed = false;
  Throws() = default;
  Throws(Throws&& other) noexcept : Numbered(other), armed(std::exchange(other.armed, false)) {}
  ~Throws() {
    if (armed) fail();
  }
};

TEST(OwnDeathTest, ADestructorThatThrowsEndsTheProgramAsTheHeaderSays) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        Throws own;
        own.armed = true;
        make_dataset(std::move(own));
      },
      "thrown by a destructor");
}

TEST(OwnStates, SaysWhichPythonClassItsStatesAreOf) {
  struct Twin : Numbered {
    std::string python_class() const { return "my.Twin"; }
  };
  const auto loader = [](Dataset dataset) { return Loader(std::move(dataset), {.batch_size = 3}); };
  EXPECT_NE(loader(make_dataset(Twin{})).state().find("\"my.Twin\""), std::string::npos);
  EXPECT_NE(loader(make_dataset(Numbered{})).state().find("\"millrace.make_dataset\""), std::string::npos);
  Loader other = loader(make_dataset(Numbered{}));
  EXPECT_EQ(kind_of([&] { other.load_state(loader(make_dataset(Twin{})).state()); }, "my.Twin"),
            ErrorKind::invalid_argument);
}

}  // namespace
}  // namespace millrace
