// The executor trusts nothing that it is sent.
#include <c10/core/ScalarType.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backend/simulation/common/attach_message.h"
#include "backend/simulation/common/settings.h"
#include "support/environment.h"
#include "support/executor.h"
#include "support/mutator.h"

namespace torch_openreg::test {

namespace {

using record::Word;
using record::Writer;
using testing::HasSubstr;

constexpr auto kFloat = static_cast<uint8_t>(c10::ScalarType::Float);
constexpr int64_t kElements = 4;
constexpr size_t kTensorBytes = kElements * sizeof(float);

// What a host sends that has changed nothing.
uint64_t settings() {
  return setting::put<setting::Threads>(1) |
         setting::put<setting::Gradients>(1) |
         setting::put<setting::DefaultDtype>(kFloat) |
         setting::put<setting::Mkldnn>(1) | setting::put<setting::Nnpack>(1);
}

std::vector<Word> finish(const Writer& writer, const std::string& name,
                         uint32_t arguments, uint16_t flags = 0,
                         uint64_t word = settings()) {
  record::Words words;
  writer.finish(name, record::id_of(name), word, flags, arguments, &words);
  const auto view = words.view();
  return {view.begin(), view.end()};
}

// A tensor of one dimension.
struct Place {
  uint64_t offset;
  uint8_t dtype = kFloat;
  int64_t size = kElements;
  int64_t stride = 1;
};

void add_tensor(Writer& writer, const Place& place) {
  const uint32_t storage =
      writer.add_storage(FakeDevice::kBase + place.offset, kTensorBytes);
  writer.add_tensor({.dtype = place.dtype,
                     .flags = 0,
                     .offset = 0,
                     .sizes = std::span(&place.size, 1),
                     .strides = std::span(&place.stride, 1)},
                    storage);
}

void add_output(Writer& writer, const Place& place) {
  const std::array<Word, 3> words = {
      record::FirstWord{record::Tag::kTensor, place.dtype, 0, 1, 0}.pack(),
      static_cast<Word>(place.size), static_cast<Word>(place.stride)};
  writer.add_output(words, FakeDevice::kBase + place.offset, kTensorBytes);
}

constexpr Place kFirst{0};
constexpr Place kSecond{64};
constexpr Place kOutput{128};

// add(x, y, alpha=1)
std::vector<Word> addition_of(const Place& first, const Place& second,
                              const Place& output, uint64_t word = settings()) {
  Writer writer(/*values_apart=*/true);
  add_tensor(writer, first);
  add_tensor(writer, second);
  writer.add_int(1);
  add_output(writer, output);
  return finish(writer, "aten::add.Tensor", 3, record::kValuesApart, word);
}

std::vector<Word> addition(const Place& output = kOutput,
                           uint64_t word = settings()) {
  return addition_of(kFirst, kSecond, output, word);
}

// One tensor, then what `add` adds.
std::vector<Word> call(const std::string& name, uint32_t arguments,
                       const std::function<void(Writer&)>& add) {
  Writer writer(/*values_apart=*/false);
  add_tensor(writer, kFirst);
  add(writer);
  add_output(writer, kOutput);
  return finish(writer, name, arguments);
}

class ExecutorTest : public testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < kElements; ++i) {
      device_.floats(kFirst.offset)[i] = static_cast<float>(i);
      device_.floats(kSecond.offset)[i] = 10;
    }
  }

  void expect_sums() {
    const float* const sums = device_.floats(kOutput.offset);
    for (int i = 0; i < kElements; ++i) {
      EXPECT_EQ(sums[i], 10 + static_cast<float>(i));
    }
  }

  // Refused, also the second time: what a thread keeps of its calls changes
  // nothing.
  void expect_refused(const std::vector<Word>& words, const char* why) {
    for (int i = 0; i < 3; ++i) {
      const Answer answer = device_.run_operator(words);
      EXPECT_EQ(answer.code, orErrorInvalidValue);
      EXPECT_THAT(answer.message, HasSubstr(why));
    }
  }

  FakeDevice device_;
};

TEST_F(ExecutorTest, RunsAnOperatorAgainAndAgain) {
  for (int i = 0; i < 3; ++i) {
    std::memset(device_.floats(kOutput.offset), 0, kTensorBytes);
    EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
    expect_sums();
  }
}

TEST_F(ExecutorTest, AnUnknownOperatorIsRefused) {
  const auto nothing = [](Writer&) {};
  expect_refused(call("vendor::fancy", 1, nothing),
                 "no operator vendor::fancy");
  expect_refused(call("aten::abs.fancy", 1, nothing), "no operator");
}

TEST_F(ExecutorTest, AViewIsRefused) {
  expect_refused(call("aten::_reshape_alias", 3,
                      [](Writer& writer) {
                        const std::array<int64_t, 1> huge = {1 << 30};
                        writer.add_ints(huge);
                        writer.add_ints(huge);
                      }),
                 "no operator");
}

TEST_F(ExecutorTest, AnIdThatIsNotTheNamesIsRefused) {
  std::vector<Word> words = addition();
  ++words[1];
  expect_refused(words, "operator");
}

TEST_F(ExecutorTest, ArgumentsOfOtherTypesAreRefused) {
  expect_refused(
      call("aten::relu", 2, [](Writer& writer) { writer.add_int(1); }),
      "argument count");
  Writer writer(false);
  writer.add_string("x");
  add_output(writer, kOutput);
  expect_refused(finish(writer, "aten::relu", 1), "'self'");
  expect_refused(
      call("aten::leaky_relu", 2, [](Writer& more) { more.add_string("0.1"); }),
      "'negative_slope'");
  expect_refused(call("aten::cumsum", 3,
                      [](Writer& more) {
                        more.add_float(0);
                        more.add_none();
                      }),
                 "'dim'");
}

TEST_F(ExecutorTest, NumbersOutsideOfEnumerationsAreRefused) {
  for (const int64_t number : {int64_t{-1}, int64_t{120}, int64_t{1} << 40}) {
    expect_refused(call("aten::cumsum", 3,
                        [&](Writer& writer) {
                          writer.add_int(0);
                          writer.add_int(number);
                        }),
                   "'dtype'");
    expect_refused(
        call("aten::clone", 2, [&](Writer& writer) { writer.add_int(number); }),
        "'memory_format'");
  }
}

TEST_F(ExecutorTest, AnOutputOfNoDtypeIsRefused) {
  Place output = kOutput;
  output.dtype = 120;
  expect_refused(addition(output), "dtype");
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
}

TEST_F(ExecutorTest, AnOutputBeyondItsStorageIsRefused) {
  Place output = kOutput;
  output.stride = int64_t{1} << 62;  // with 4 elements the extent overflows
  expect_refused(addition(output), "output");
  output.stride = 2;
  expect_refused(addition(output), "output");
}

// The thread keeps the first call; the others have the same words, and say in
// the header that they hold something else.
TEST_F(ExecutorTest, ARecordThatLooksLikeAKeptOneIsReadAnew) {
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
  constexpr size_t kCounts = 3;  // words of the header from here
  for (size_t half = 0; half < 2; ++half) {
    for (size_t place = kCounts; place < record::kHeaderWords; ++place) {
      std::vector<Word> words = addition();
      const Word one = Word{1} << (32 * half);
      words[place] -= one;
      EXPECT_NE(device_.run_operator(words).code, orSuccess) << place;
      words[place] += 2 * one;
      EXPECT_NE(device_.run_operator(words).code, orSuccess) << place;
    }
  }
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
  expect_sums();
}

// The thread gives the tensors of the first call other sizes.
TEST_F(ExecutorTest, ACallOfOtherSizesComputesThose) {
  for (int round = 0; round < 3; ++round) {
    for (const int64_t size : {4, 2, 3, 2}) {
      Place first = kFirst;
      Place second = kSecond;
      Place output = kOutput;
      first.size = second.size = output.size = size;
      second.stride = 0;
      std::memset(device_.floats(kOutput.offset), 0, kTensorBytes);
      const auto words = addition_of(first, second, output);
      EXPECT_EQ(device_.run_operator(words).code, orSuccess);
      for (int i = 0; i < kElements; ++i) {
        const float sum = i < size ? 10 + static_cast<float>(i) : 0;
        EXPECT_EQ(device_.floats(kOutput.offset)[i], sum);
      }
    }
  }
}

TEST_F(ExecutorTest, ACallOfOtherSizesIsReadAsCarefullyAsAnyOther) {
  const int64_t huge = int64_t{1} << 62;
  for (const Place& bad : {Place{kFirst.offset, kFloat, kElements + 1},
                           Place{kFirst.offset, kFloat, -1},
                           Place{kFirst.offset, kFloat, kElements, 2},
                           Place{kFirst.offset, kFloat, kElements, -1},
                           Place{kFirst.offset, kFloat, kElements, huge}}) {
    EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
    expect_refused(addition_of(bad, kSecond, kOutput), "malformed");
    expect_refused(addition_of(kSecond, bad, kOutput), "malformed");
    Place output = bad;
    output.offset = kOutput.offset;
    expect_refused(addition_of(kFirst, kSecond, output), "malformed");
    EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
    expect_sums();
  }
}

// The kernel would give it other sizes.
TEST_F(ExecutorTest, AnOutputOfOtherSizesThanTheKernelGivesIsAnError) {
  Place output = kOutput;
  output.size = 2;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
    EXPECT_NE(device_.run_operator(addition(output)).code, orSuccess);
  }
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
  expect_sums();
}

TEST_F(ExecutorTest, MemoryThatIsNotTheDevicesIsRefused) {
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
  for (int i = 0; i < 2; ++i) {
    const std::vector<Word> words =
        addition({FakeDevice::kBytes - kTensorBytes + 1});
    EXPECT_EQ(device_.run_operator(words).code, orErrorIllegalAddress);
  }
}

TEST_F(ExecutorTest, AGeneratorThatNobodyHasMadeIsRefused) {
  expect_refused(call("aten::bernoulli", 2,
                      [](Writer& writer) { writer.add_generator(123456); }),
                 "no generator");
}

// The call under settings of which one has another value.
template <typename Setting>
std::vector<Word> under(uint64_t value) {
  return addition(kOutput, setting::with<Setting>(settings(), value));
}

TEST_F(ExecutorTest, SettingsThatNoHostHasAreRefused) {
  expect_refused(under<setting::Threads>(0), "threads");
  expect_refused(under<setting::Threads>(65535), "threads");
  expect_refused(under<setting::DefaultDtype>(120), "settings");
  expect_refused(under<setting::SparseChecks>(3), "settings");
  expect_refused(under<setting::QuantizedEngine>(15), "settings");
  expect_refused(under<setting::ConvolutionPrecision>(7), "settings");
  expect_refused(under<setting::RecurrentPrecision>(7), "settings");
  expect_refused(under<setting::MatmulPrecision>(7), "settings");
  expect_refused(addition(kOutput, settings() | Word{1} << 63), "settings");
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
}

TEST_F(ExecutorTest, AHostOfAnotherVersionIsRefused) {
  const AttachMessage message{record::kVersion + 1, 1};
  const Answer answer =
      device_.run("attach", std::as_bytes(std::span(&message, 1)));
  EXPECT_EQ(answer.code, orErrorInvalidValue);
  EXPECT_THAT(answer.message, HasSubstr("version"));
  EXPECT_EQ(device_.run("attach", {}).code, orErrorInvalidValue);
}

TEST_F(ExecutorTest, WhatIsFetchedMustHaveBeenKept) {
  Writer writer(false);
  writer.add_int(987654);
  add_output(writer, kOutput);
  const std::vector<Word> words = finish(writer, "aten::abs", 1);
  const Answer answer =
      device_.run("fetch_outputs", std::as_bytes(std::span(words)));
  EXPECT_EQ(answer.code, orErrorInvalidValue);
  const uint64_t token = 987654;
  EXPECT_EQ(
      device_.run("drop_outputs", std::as_bytes(std::span(&token, 1))).code,
      orErrorInvalidValue);
  EXPECT_EQ(
      device_.run("fetch_reply", std::as_bytes(std::span(&token, 1))).code,
      orErrorInvalidValue);
  EXPECT_EQ(device_.run("fetch_reply", {}).code, orErrorInvalidValue);
}

// Tens of thousands of damaged records: each is answered, none brings the
// process down.
TEST_F(ExecutorTest, StressDamagedRecordsAreAnswered) {
  std::vector<record::test::Record> corpus = {
      addition(),
      call("aten::relu", 1, [](Writer&) {}),
      call("aten::mul.Scalar", 2, [](Writer& w) { w.add_float(2); }),
      call("aten::cumsum", 3,
           [](Writer& w) {
             w.add_int(0);
             w.add_none();
           }),
      call("aten::clone", 2, [](Writer& w) { w.add_int(0); }),
      call("aten::flip", 2,
           [](Writer& w) { w.add_ints(std::array<int64_t, 1>{0}); }),
  };
  record::test::Mutator mutator(record::test::fuzz_seed(), std::move(corpus));
  size_t good = 0;
  const size_t count = 50000 * record::test::stress_scale();
  for (size_t i = 0; i < count; ++i) {
    const std::vector<uint8_t> bytes = mutator.next();
    const Answer answer =
        device_.run("run_operator", std::as_bytes(std::span(bytes)));
    good += answer.code == orSuccess ? 1 : 0;
    EXPECT_EQ(answer.code == orSuccess, answer.message.empty());
  }
  EXPECT_GT(good, 0);
  EXPECT_EQ(device_.run_operator(addition()).code, orSuccess);
}

}  // namespace

}  // namespace torch_openreg::test
