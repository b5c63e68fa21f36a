// The zygote: what it preloads, and that its death is survived.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

#include "support/process.h"
#include "support/support.h"
#include "support/test_process.h"

namespace openreg::test {
namespace {

using std::chrono::milliseconds;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::Optional;

// Kills the zygote that has forked `device`.
void kill_zygote(pid_t device) {
  const pid_t zygote = zygote_of(device);
  ASSERT_GT(zygote, 1);
  const ProcessHandle handle(zygote);
  ::kill(zygote, SIGKILL);
  ASSERT_TRUE(handle.ends_within(kPatience));
}

bool finds(const TestProcess& process, const std::string& text) {
  return process.line().find(text) != std::string::npos;
}

OPENREG_CHILD(preload) {
  CHILD_CHECK(finds(TestProcess("describe"), "preloaded=no"));
  CHILD_CHECK(preload({OPENREG_TEST_PRELOADED}).ok());
  CHILD_CHECK(finds(TestProcess("describe"), "preloaded=42"));
  CHILD_CHECK(preload({OPENREG_TEST_PRELOADED}).ok());
  return 0;
}

TEST(ZygoteTest, DevicesFindWhatWasPreloaded) {
  const ChildResult child = run_child("preload");
  EXPECT_EQ(child.exit_code, 0) << child.output;
}

TEST(ZygoteTest, AMissingLibraryIsNamed) {
  const Status status = preload({OPENREG_TEST_PRELOADED, "/no/library.so"});
  EXPECT_EQ(status.code(), orErrorInvalidValue);
  EXPECT_THAT(status.message(), HasSubstr("/no/library.so"));
  EXPECT_THAT(TestProcess("describe").line(), HasSubstr("preloaded=42"));
}

TEST(ZygoteTest, ALibraryThatEndsTheZygoteIsNotLoadedAgain) {
  ASSERT_TRUE(preload({OPENREG_TEST_PRELOADED}).ok());
  const Status status = preload({OPENREG_TEST_ABORTING});
  EXPECT_EQ(status.code(), orErrorInvalidValue);
  EXPECT_THAT(status.message(), HasSubstr(OPENREG_TEST_ABORTING));
  EXPECT_THAT(TestProcess("describe").line(), HasSubstr("preloaded=42"));
}

TEST(ZygoteTest, DevicesOutliveIt) {
  TestProcess process("wait");
  kill_zygote(process.pid());
  EXPECT_EQ(process.await_death(milliseconds(500)), std::nullopt);
  EXPECT_TRUE(process->is_alive());
  EXPECT_TRUE(process->end(kPatience));
}

TEST(ZygoteTest, TheNextStartMakesAnother) {
  ASSERT_TRUE(preload({OPENREG_TEST_PRELOADED}).ok());
  TestProcess old("wait");
  const pid_t zygote = zygote_of(old.pid());
  kill_zygote(old.pid());
  TestProcess process("describe");
  EXPECT_THAT(process.line(), HasSubstr("preloaded=42"));
  EXPECT_NE(zygote_of(process.pid()), zygote);
  EXPECT_TRUE(old->is_alive());
}

TEST(ZygoteTest, AfterItsDeathReasonsAreUnknown) {
  TestProcess process("wait");
  kill_zygote(process.pid());
  ::kill(process.pid(), SIGKILL);
  EXPECT_THAT(process.await_death(kPromptly),
              Optional(Eq("has ended for an unknown reason")));
}

TEST(ZygoteTest, AStartAtTheMomentOfItsDeathWorks) {
  for (int i = 0; i < 20; ++i) {
    TestProcess process("wait");
    ASSERT_EQ(process.line(), "ready");
    ::kill(zygote_of(process.pid()), SIGKILL);
    TestProcess next("wait");
    ASSERT_TRUE(next.status().ok()) << next.status().message();
    ASSERT_EQ(next.line(), "ready");
  }
}

TEST(ZygoteTest, ItIsEndedAndStartedAgain) {
  TestProcess process("wait");
  const ProcessHandle zygote(zygote_of(process.pid()));
  end_zygote();
  EXPECT_TRUE(zygote.ends_within(kPatience));
  EXPECT_EQ(TestProcess("echo again").line(), "again");
}

TEST(ZygoteTest, EndingNoneStartsNoThread) {
  const size_t threads = thread_ids().size();
  end_zygote();
  EXPECT_EQ(thread_ids().size(), threads);
}

}  // namespace
}  // namespace openreg::test
