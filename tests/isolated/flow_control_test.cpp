// How far a producer may be ahead of a device process.
#include "isolated/flow_control.h"

#include <gtest/gtest.h>

#include <optional>

namespace openreg {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(FlowControlTest, ThereIsRoomFor16MiB) {
  const Timeline timeline;
  FlowControl flow(timeline);
  EXPECT_EQ(flow.obstacle(), std::nullopt);
  flow.add(1, 8 * kMiB);
  flow.add(2, 8 * kMiB);
  EXPECT_EQ(flow.obstacle(), std::nullopt);
}

TEST(FlowControlTest, TheOldestCommandThatIsNotDoneIsInTheWay) {
  Timeline timeline;
  FlowControl flow(timeline);
  for (uint64_t number = 1; number <= 4; ++number) flow.add(number, 8 * kMiB);
  EXPECT_EQ(flow.obstacle(), 1U);
  timeline.advance(1);
  EXPECT_EQ(flow.obstacle(), 2U);
  timeline.advance(2);
  EXPECT_EQ(flow.obstacle(), std::nullopt);
}

TEST(FlowControlTest, ThereIsRoomAgainWhenAllIsDone) {
  Timeline timeline;
  FlowControl flow(timeline);
  for (uint64_t number = 1; number <= 1000; ++number) flow.add(number, kMiB);
  EXPECT_EQ(flow.obstacle(), 1U);
  timeline.advance(1000);
  EXPECT_EQ(flow.obstacle(), std::nullopt);
}

TEST(FlowControlTest, SmallCommandsCountTogether) {
  constexpr size_t kSmall = 64;
  constexpr uint64_t kCommands = 17 * kMiB / kSmall;
  Timeline timeline;
  FlowControl flow(timeline);
  for (uint64_t number = 1; number <= kCommands; ++number) {
    flow.add(number, kSmall);
  }
  int waits = 0;
  while (const auto obstacle = flow.obstacle()) {
    timeline.advance(*obstacle);
    ++waits;
  }
  // Of 17 MiB, the first is waited for, in steps of 64 KiB.
  EXPECT_EQ(waits, 16);
}

}  // namespace
}  // namespace openreg
