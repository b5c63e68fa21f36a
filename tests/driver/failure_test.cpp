// Kernels that fail, in the default mode (OPENREG_ERRORS=early): the failure is
// delivered once, and the device goes on. What stays until a reset, in this
// mode and in the other, is in sticky_failure_test.cpp.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "support/background.h"
#include "support/failing.h"
#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using FailureTest = DriverTest;

constexpr orError_t kLaunchFailure = orErrorLaunchFailure;

// Lets a kernel fail on `stream` and waits until it has, without being told.
void fail_unseen(orStream_t stream, orError_t code = kLaunchFailure,
                 const char* message = "the reason") {
  OR_EXPECT_OK(launch_failing(stream, code, message));
  settle();
}

// The same while other streams are held, so that nothing may wait for the
// device: a kernel behind the failing one tells. The three are queued together,
// because a launch after the failure would report it.
class ToldFailure {
 public:
  void happen_on(orStream_t stream) {
    const WaitArgs hold{held_.get(), go_.get(), 0};
    const WaitArgs tell{told_.get(), told_.get(), 0};
    OR_EXPECT_OK(launch(module_["wait"], hold, stream));
    OR_EXPECT_OK(launch_failing(stream, kLaunchFailure, "the reason"));
    OR_EXPECT_OK(launch(module_["wait"], tell, stream));
    go_.store(1);
    EXPECT_TRUE(eventually([this] { return told_.load() == 1; }));
  }

 private:
  TestModule module_;
  SharedWord held_;
  SharedWord go_;
  SharedWord told_;
};

orError_t fail_cheaply(orStream_t stream) {
  const orTestingFailArgs args{kLaunchFailure, "the reason"};
  return launch_cheap(builtin("fail"), args, stream);
}

TEST_F(FailureTest, EveryReportingCallDeliversAFailureOnce) {
  FailureBench bench;
  Stream failing;
  for (const auto& [name, call] : bench.reporting_calls()) {
    SCOPED_TRACE(name);
    fail_unseen(failing);
    OR_EXPECT_ERROR_SAYS(kLaunchFailure, "the reason", call());
    const std::string message = orGetLastErrorMessage();
    EXPECT_EQ(message.rfind(name, 0), 0u) << message;
    EXPECT_NE(message.find("kernel 'fail'"), std::string::npos) << message;
    OR_EXPECT_OK(orDeviceSynchronize());
    OR_EXPECT_OK(call());
    OR_EXPECT_OK(orDeviceSynchronize());
  }
}

TEST_F(FailureTest, SilentCallsNeitherReportNorConsumeAFailure) {
  FailureBench bench;
  Stream failing;
  fail_unseen(failing);
  for (const auto& [name, call] : bench.silent_calls()) {
    SCOPED_TRACE(name);
    OR_EXPECT_OK(call());
  }
  OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(failing));
  OR_EXPECT_OK(orStreamSynchronize(failing));
}

TEST_F(FailureTest, AFailureIsTheThreadsLastError) {
  Stream failing;
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(failing));
  EXPECT_EQ(orPeekAtLastError(), kLaunchFailure);
  EXPECT_EQ(orGetLastError(), kLaunchFailure);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST_F(FailureTest, ACallThatReportsAFailureDoesNothingElse) {
  PinnedBuffer<char> source(8);
  DeviceBuffer<char> block(8);
  Mark mark;
  Event event;
  Stream failing;
  Stream stream;
  std::atomic<bool> called = false;
  std::memset(source.get(), 5, 8);
  OR_EXPECT_OK(orMemset(block.get(), 1, 8));
  OR_EXPECT_OK(orDeviceSynchronize());

  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, mark.set_by(stream));
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, mark.set_cheaply_by(stream));
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, orMemsetAsync(block.get(), 2, 8, stream));
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, orMemcpyAsync(block.get(), source.get(), 8,
                                                orMemcpyHostToDevice, stream));
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure,
                  orLaunchHostFunc(
                      stream,
                      [](void* flag) {
                        static_cast<std::atomic<bool>*>(flag)->store(true);
                      },
                      &called));
  fail_unseen(failing);
  OR_EXPECT_ERROR(kLaunchFailure, orEventRecord(event, stream));

  OR_EXPECT_OK(orDeviceSynchronize());
  EXPECT_FALSE(mark.is_set());
  EXPECT_FALSE(called);
  EXPECT_EQ(block.values(), std::vector<char>(8, 1));
  float ms = 0;  // refused, because the event was never recorded
  OR_EXPECT_ERROR(orErrorInvalidHandle, orEventElapsedTime(&ms, event, event));
}

TEST_F(FailureTest, AWaitThatReportsAFailureIsNotBound) {
  Event event;
  Stream held;
  Stream stream;
  Stream failing;
  ToldFailure failure;
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(orEventRecord(event, held));
  failure.happen_on(failing);
  OR_EXPECT_ERROR(kLaunchFailure, orStreamWaitEvent(stream, event, 0));
  OR_EXPECT_OK(launch_empty(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));  // though the event is pending
}

TEST_F(FailureTest, ASynchronizeWaitsBeforeItReports) {
  Mark mark;
  Stream failing;
  Stream held;
  ToldFailure failure;
  Gate gate;
  gate.hold(held);
  OR_EXPECT_OK(mark.set_by(held));
  gate.await();
  failure.happen_on(failing);
  Background waiter([&] {
    OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(held));
    EXPECT_TRUE(mark.is_set());
  });
  waiter.settle();
  EXPECT_FALSE(waiter.done());
  gate.open();
}

TEST_F(FailureTest, TheFirstOfManyFailuresIsKeptAndTheOthersCounted) {
  Stream failing;
  Gate gate;
  gate.hold(failing);
  OR_EXPECT_OK(launch_failing(failing, orErrorOutOfMemory, "the first"));
  OR_EXPECT_OK(launch_failing(failing, orErrorInternal, "the second"));
  OR_EXPECT_OK(launch_failing(failing, kLaunchFailure, "the third"));
  gate.open();
  settle();
  OR_EXPECT_ERROR_SAYS(orErrorOutOfMemory, "the first",
                       orStreamSynchronize(failing));
  const std::string message = orGetLastErrorMessage();
  EXPECT_NE(message.find("and 2 more"), std::string::npos) << message;
  OR_EXPECT_OK(orStreamSynchronize(failing));
}

TEST_F(FailureTest, WorkBehindAFailedKernelGoesOn) {
  DeviceLog log(8);
  Stream failing;
  Gate gate;
  gate.hold(failing);
  log.append(1, failing);
  OR_EXPECT_OK(launch_failing(failing, kLaunchFailure, "the reason"));
  log.append(2, failing);
  gate.open();
  OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(failing));
  EXPECT_EQ(log.entries(), (std::vector<uint32_t>{1, 2}));
}

TEST_F(FailureTest, EventsBehindAFailedKernelAreReached) {
  Stream failing;
  Stream consumer;
  Event event;
  Gate gate;
  gate.hold(failing);
  OR_EXPECT_OK(launch_failing(failing, kLaunchFailure, "the reason"));
  OR_EXPECT_OK(orEventRecord(event, failing));
  OR_EXPECT_OK(orStreamWaitEvent(consumer, event, 0));
  OR_EXPECT_OK(launch_empty(consumer));
  gate.open();
  OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(consumer));
  OR_EXPECT_OK(orEventQuery(event));
}

TEST_F(FailureTest, OtherDevicesHearNothingOfAFailure) {
  Stream failing;
  fail_unseen(failing);
  {
    OnDevice other(1);
    FailureBench bench;
    bench.expect_no_failure();
  }
  OR_EXPECT_ERROR(kLaunchFailure, orDeviceSynchronize());
}

// A device in another process learns of the launch after the call.
TEST_F(FailureTest, ACheapLaunchThatFailsElsewhereIsToldLater) {
  if (!is_isolated()) GTEST_SKIP() << "it fails on the calling thread";
  Stream stream;
  OR_EXPECT_OK(fail_cheaply(stream));
  OR_EXPECT_ERROR_SAYS(kLaunchFailure, "kernel 'fail'",
                       orStreamSynchronize(stream));
  EXPECT_THAT(orGetLastErrorMessage(), HasSubstr(OPENREG_EARLIER_FAILURE));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(FailureTest, ACheapLaunchThatFailsOnTheCallingThreadSaysSoItself) {
  if (is_isolated()) GTEST_SKIP() << "kernels run in another process";
  Stream stream;
  OR_EXPECT_ERROR_SAYS(kLaunchFailure, "the reason", fail_cheaply(stream));
  EXPECT_NE(std::string(orGetLastErrorMessage()).find("kernel 'fail'"),
            std::string::npos);
  OR_EXPECT_OK(orStreamSynchronize(stream));
  OR_EXPECT_OK(orDeviceSynchronize());
}

TEST_F(FailureTest, ACheapLaunchThatIsQueuedFailsLater) {
  Stream stream;
  Gate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(fail_cheaply(stream));
  gate.open();
  OR_EXPECT_ERROR(kLaunchFailure, orStreamSynchronize(stream));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(FailureTest, ASynchronousLaunchReturnsItsOwnFailureAndNothingElseDoes) {
  Stream stream;
  const orTestingFailArgs args{orErrorNotSupported, "the reason"};
  for (const bool busy : {false, true}) {
    if (busy) {
      OR_EXPECT_OK(launch(builtin("busy"), orTestingBusyArgs{1000}, stream));
    }
    OR_EXPECT_ERROR_SAYS(orErrorNotSupported, "the reason",
                         orLaunchKernelSync(builtin("fail"), &args, sizeof args,
                                            stream, nullptr, 0, nullptr));
    OR_EXPECT_OK(orStreamSynchronize(stream));
    OR_EXPECT_OK(orDeviceSynchronize());
  }
}

TEST_F(FailureTest, ACallSaysThatAFailureBelongsToEarlierWork) {
  FailureBench bench;
  Stream failing;
  for (const auto& [name, call] : bench.reporting_calls()) {
    SCOPED_TRACE(name);
    fail_unseen(failing);
    OR_EXPECT_ERROR(kLaunchFailure, call());
    EXPECT_THAT(orGetLastErrorMessage(),
                StartsWith(name + ": " OPENREG_EARLIER_FAILURE));
  }
}

TEST_F(FailureTest, ACallDoesNotSayThatOfItsOwnFailure) {
  Stream stream;
  if (!is_isolated()) {
    OR_EXPECT_ERROR(kLaunchFailure, fail_cheaply(stream));
    EXPECT_THAT(orGetLastErrorMessage(),
                Not(HasSubstr(OPENREG_EARLIER_FAILURE)));
  }
  const orTestingFailArgs args{kLaunchFailure, "the reason"};
  OR_EXPECT_ERROR(kLaunchFailure,
                  orLaunchKernelSync(builtin("fail"), &args, sizeof args,
                                     stream, nullptr, 0, nullptr));
  EXPECT_THAT(orGetLastErrorMessage(), Not(HasSubstr(OPENREG_EARLIER_FAILURE)));
}

TEST_F(FailureTest, CodesThatSayNothingAreDeliveredAsLaunchFailure) {
  Stream stream;
  for (const orError_t code : {orErrorNotReady, static_cast<orError_t>(15)}) {
    fail_unseen(stream, code);
    OR_EXPECT_ERROR_SAYS(kLaunchFailure, "the reason",
                         orStreamSynchronize(stream));
    OR_EXPECT_OK(orStreamSynchronize(stream));
  }
}

TEST_F(FailureTest, EveryOtherCodeIsDeliveredAsItself) {
  Stream stream;
  for (const orError_t code :
       {orErrorInvalidValue, orErrorInvalidDevice, orErrorInvalidHandle,
        orErrorOutOfMemory, orErrorNotSupported, orErrorLaunchFailure,
        orErrorNotInitialized, orErrorInternal, orErrorAssert}) {
    fail_unseen(stream, code);
    OR_EXPECT_ERROR_SAYS(code, "the reason", orStreamSynchronize(stream));
    OR_EXPECT_OK(orStreamSynchronize(stream));
  }
}

TEST_F(FailureTest, AKernelWithoutAMessageIsNamedAllTheSame) {
  TestModule module;
  Stream stream;
  const ReturnArgs args{orErrorInternal};
  OR_EXPECT_OK(launch(module["return_code"], args, stream));
  OR_EXPECT_ERROR_SAYS(orErrorInternal, "kernel 'return_code'",
                       orStreamSynchronize(stream));
}

TEST_F(FailureTest, AnExceptionOfAKernelIsItsFailure) {
  TestModule module(OPENREG_TEST_THROWING_MODULE);
  Stream stream;
  OR_EXPECT_OK(orLaunchKernel(module["throw_error"], nullptr, 0, stream));
  OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "the kernel's own words",
                       orStreamSynchronize(stream));
  OR_EXPECT_OK(orLaunchKernel(module["throw_number"], nullptr, 0, stream));
  OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "kernel 'throw_number'",
                       orStreamSynchronize(stream));
}

TEST_F(FailureTest, AnExceptionOfAHostFunctionIsAFailure) {
  Stream stream;
  const auto throwing = [](void*) { throw 7; };
  OR_EXPECT_OK(orLaunchHostFunc(stream, throwing, nullptr));
  OR_EXPECT_ERROR_SAYS(orErrorLaunchFailure, "host function",
                       orStreamSynchronize(stream));
}

TEST_F(FailureTest, ADestroyedStreamsFailureIsStillDelivered) {
  Stream failing;
  Gate gate;
  gate.hold(failing);
  OR_EXPECT_OK(launch_failing(failing, kLaunchFailure, "the reason"));
  OR_EXPECT_OK(orStreamDestroy(failing.release()));
  gate.open();
  OR_EXPECT_ERROR(kLaunchFailure, orDeviceSynchronize());
}

}  // namespace
}  // namespace openreg::test
