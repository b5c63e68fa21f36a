// The end of the program: late calls are refused, running kernels are waited
// for. All of it happens in children.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "support/process.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ExitTest : public ::testing::Test {};

void tell(const char* call, orError_t code) {
  std::fprintf(stderr, "%s gave %s\n", call, describe(code).c_str());
}

// A static object of a program. It goes after the driver has ended, because it
// was made before the driver began.
struct StaticOwner {
  StaticOwner() = default;
  StaticOwner(const StaticOwner&) = delete;
  StaticOwner& operator=(const StaticOwner&) = delete;
  ~StaticOwner() {
    if (memory == nullptr) return;  // not the child that is about this
    tell("orFree", orFree(memory));
    tell("orStreamDestroy", orStreamDestroy(stream));
  }

  void* memory = nullptr;
  orStream_t stream = nullptr;
};
StaticOwner static_owner;

OPENREG_CHILD(exit_with_static_owner) {
  static_owner.memory = device_malloc(64);
  CHILD_CHECK(orStreamCreate(&static_owner.stream) == orSuccess);
  CHILD_CHECK(orMalloc(nullptr, 1) == orErrorInvalidValue);
  return 7;
}

TEST_F(ExitTest, CallsOfStaticDestructorsAreRefused) {
  const ChildResult child = run_child("exit_with_static_owner");
  EXPECT_EQ(child.exit_code, 7) << "signal " << child.signal << "\n"
                                << child.output;
  EXPECT_THAT(child.output, HasSubstr("orFree gave orErrorNotInitialized: "
                                      "orFree: the program is ending"));
  EXPECT_THAT(child.output,
              HasSubstr("orStreamDestroy gave orErrorNotInitialized: "
                        "orStreamDestroy: the program is ending"));
}

// An object of a thread. It goes after whatever the driver keeps for the
// thread, because it was made before that.
struct ThreadOwner {
  ThreadOwner() = default;
  ThreadOwner(const ThreadOwner&) = delete;
  ThreadOwner& operator=(const ThreadOwner&) = delete;
  ~ThreadOwner() {
    tell("the first orFree", orFree(memory));
    tell("the second orFree", orFree(memory));
  }

  void* memory = nullptr;
};
thread_local ThreadOwner thread_owner;

OPENREG_CHILD(end_thread_with_owner) {
  std::thread([] {
    thread_owner.memory = device_malloc(64);
    orMalloc(nullptr, 1);
  }).join();
  return 7;
}

TEST_F(ExitTest, CallsOfAThreadsDestructorsWork) {
  const ChildResult child = run_child("end_thread_with_owner");
  EXPECT_EQ(child.exit_code, 7) << "signal " << child.signal << "\n"
                                << child.output;
  EXPECT_THAT(child.output, HasSubstr("the first orFree gave orSuccess"));
  EXPECT_THAT(
      child.output,
      HasSubstr("the second orFree gave orErrorInvalidValue: orFree: "));
}

OPENREG_CHILD(exit_while_a_kernel_uses_statics) {
  // Both stay: freeing the one and unloading the other would wait.
  static const auto* const started = new SharedWord;
  TestModule module(OPENREG_TEST_STATIC_MODULE);
  const StartedArgs args{started->get()};
  OR_EXPECT_OK(launch(module["use_statics"], args, nullptr));
  module.release();
  CHILD_CHECK(eventually([] { return started->load() == 1; }));
  return child_verdict();
}

TEST_F(ExitTest, AKernelEndsBeforeTheStaticObjectsOfItsModuleGo) {
  if (is_isolated()) GTEST_SKIP() << "they go together, with their process";
  const ChildResult child = run_child("exit_while_a_kernel_uses_statics");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  const size_t ended = child.output.find("the kernel ended in time");
  ASSERT_NE(ended, std::string::npos) << child.output;
  EXPECT_LT(ended, child.output.find("the module's statics are gone"));
}

// What a kernel and the thread that leaves know of each other.
struct Leaving {
  pthread_t thread = pthread_self();
  pid_t thread_id = gettid();
  std::atomic<bool> kernel_runs = false;
  std::atomic<bool> leaving = false;
};

// Sends signals to the thread that waits for this kernel at the end.
void interrupt_the_end(void* data) {
  auto& leaving = *static_cast<Leaving*>(data);
  leaving.kernel_runs = true;
  while (!leaving.leaving) sched_yield();
  for (int i = 0; i < 5; ++i) {
    eventually([&] { return are_asleep({leaving.thread_id}); });
    pthread_kill(leaving.thread, SIGUSR1);
  }
  std::fputs("the kernel has ended\n", stderr);
}

OPENREG_CHILD(exit_while_signals_arrive) {
  struct sigaction action{};
  action.sa_handler = [](int) {};
  CHILD_CHECK(sigaction(SIGUSR1, &action, nullptr) == 0);
  static Leaving leaving;
  TestModule module;
  const CallArgs args{interrupt_the_end, &leaving};
  OR_EXPECT_OK(launch(module["call"], args, nullptr));
  module.release();
  CHILD_CHECK(eventually([] { return leaving.kernel_runs.load(); }));
  leaving.leaving = true;
  return child_verdict();
}

TEST_F(ExitTest, SignalsDoNotCutTheWaitForAKernelShort) {
  if (is_isolated()) GTEST_SKIP() << "a kernel is not waited for at the end";
  const ChildResult child = run_child("exit_while_signals_arrive");
  EXPECT_EQ(child.exit_code, 0) << child.output;
  EXPECT_THAT(child.output, HasSubstr("the kernel has ended"));
  EXPECT_THAT(child.output, Not(HasSubstr("still running")));
}

}  // namespace
}  // namespace openreg::test
