#include "backend/simulation/record/words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <string>
#include <vector>

namespace torch_openreg::record::test {

namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

TEST(WordsTest, IsEmptyAtFirst) {
  Words words;
  EXPECT_EQ(words.size(), 0);
  EXPECT_TRUE(words.view().empty());
}

TEST(WordsTest, KeepsWhatWasPushedWhenItGrows) {
  std::vector<Word> expected(1000);
  std::iota(expected.begin(), expected.end(), 7);
  Words words;
  for (const Word word : expected) words.push(word);
  EXPECT_THAT(words.view(), ElementsAreArray(expected));
}

TEST(WordsTest, KeepsWhatWasAppendedWhenItGrows) {
  std::vector<Word> piece(95, 1);
  Words words;
  words.append(std::span<const Word>(piece));
  std::vector<Word> expected = piece;
  piece.assign(500, 2);  // more than twice the room
  words.append(std::span<const Word>(piece));
  expected.insert(expected.end(), piece.begin(), piece.end());
  EXPECT_THAT(words.view(), ElementsAreArray(expected));
}

TEST(WordsTest, NothingAppendsNothing) {
  Words words;
  words.append(std::span<const int64_t>());
  words.append_text("");
  EXPECT_EQ(words.size(), 0);
}

TEST(WordsTest, TextIsPaddedWithZeros) {
  Words words;
  for (int i = 0; i < 2; ++i) words.push(~Word{0});
  words.append_text(std::string(8, '\x01'));
  words.append_text("\x02");
  EXPECT_THAT(words.view(), ElementsAre(~Word{0}, ~Word{0}, 0x0101010101010101,
                                        0x0000000000000002));
}

TEST(WordsTest, RoomMayBeWrittenAtOnce) {
  Words words;
  words.push(1);
  Word* const room = words.extend(200);
  for (size_t i = 0; i < 200; ++i) room[i] = i;
  EXPECT_EQ(words.size(), 201);
  EXPECT_EQ(words[0], 1);
  EXPECT_EQ(words[200], 199);
}

}  // namespace

}  // namespace torch_openreg::record::test
