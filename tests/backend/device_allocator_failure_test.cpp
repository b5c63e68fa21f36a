// The allocator beside failing devices, resets, forks and the end of a program.
#include <c10/util/Exception.h>

#include "openreg/memory.h"
#include "support/background.h"
#include "tests/backend/support/allocator.h"

namespace torch_openreg::test {

namespace {

using DeviceAllocatorFailureTest = AllocatorTest;
using openreg::test::launch_failing;
using openreg::test::run_child;

constexpr size_t kSize = 3 * kMiB;

// Collects warnings for the scope.
class Warnings : public c10::WarningHandler {
 public:
  void process(const c10::Warning& warning) override {
    texts.push_back(warning.msg());
  }
  std::vector<std::string> texts;

 private:
  c10::WarningUtils::WarningHandlerGuard guard_{this};
};

void run_in_child(const char* name, const char* errors = "early") {
  const auto child = run_child(name, {{"OPENREG_ERRORS", errors}});
  EXPECT_EQ(child.exit_code, 0) << "signal " << child.signal << "\n"
                                << child.output;
}

// The code of the c10::AcceleratorError that `body` throws; 0 without one.
template <typename Body>
int error_code(Body body) {
  try {
    body();
  } catch (const c10::AcceleratorError& error) {
    return error.get_error_code();
  }
  return 0;
}

TEST_F(DeviceAllocatorFailureTest, AFailedDeviceIsNotOutOfMemory) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  allocator().recordStream(block, user);
  Gate gate;
  gate.hold(user.handle());
  drop(block);
  OR_ASSERT_OK(launch_failing(user.handle(), orErrorLaunchFailure, "no luck"));
  gate.open();
  openreg::test::DeviceBuffer<char>(1);  // its end waits and reports nothing
  EXPECT_EQ(error_code([] { allocator().allocate(512); }),
            orErrorLaunchFailure);
  // Reported once; the block was not lost by it.
  const c10::DataPtr next = allocator().allocate(512);
  EXPECT_EQ(current(stats().active), 1);
  expect_consistent();
}

TEST_F(DeviceAllocatorFailureTest, AReleaseThatMeetsAFailureWarns) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  allocator().recordStream(block, user);
  OR_ASSERT_OK(launch_failing(user.handle(), orErrorLaunchFailure, "no luck"));
  openreg::test::DeviceBuffer<char>(1);
  Warnings warnings;
  drop(block);
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_THAT(warnings.texts[0], ::testing::HasSubstr("no luck"));
  EXPECT_EQ(current(stats().active), 1) << "not reused before it is safe";
  user.synchronize();
  allocator().allocate(1);  // records the event
  user.synchronize();
  allocator().allocate(1);
  EXPECT_EQ(current(stats().active), 0);
  expect_consistent();
}

OPENREG_CHILD(sticky_failure) {
  const OpenRegStream user = getStreamFromPool();
  c10::DataPtr block = allocator().allocate(kSize);
  c10::DataPtr plain = allocator().allocate(kSize);
  allocator().recordStream(block, user);
  CHILD_CHECK(launch_failing(user.handle(), orErrorIllegalAddress, "bad") ==
              orSuccess);
  CHILD_CHECK(error_code([&] { user.synchronize(); }) == orErrorIllegalAddress);
  // What needs nothing of the device goes on.
  drop(plain);
  plain = allocator().allocate(kSize);
  c10::DataPtr fresh = allocator().allocate(50 * kMiB);
  drop(fresh);
  allocator().emptyCache();
  Warnings warnings;
  drop(block);
  CHILD_CHECK(warnings.texts.size() == 1);
  for (int i = 0; i < 2; ++i) {
    CHILD_CHECK(error_code([] { allocator().allocate(512); }) ==
                orErrorIllegalAddress);
    CHILD_CHECK(error_code([] { allocator().emptyCache(); }) ==
                orErrorIllegalAddress);
  }
  // Other devices never notice.
  set_device(1);
  const c10::DataPtr other = allocator().allocate(512);
  set_device(0);
  // The memory is gone with the reset; the cache finds that out quietly.
  CHILD_CHECK(orDeviceReset() == orSuccess);
  warnings.texts.clear();
  drop(plain);
  allocator().emptyCache();
  CHILD_CHECK(warnings.texts.empty());
  CHILD_CHECK(current(stats().reserved_bytes) == 0);
  const c10::DataPtr again = allocator().allocate(kSize);
  CHILD_CHECK(orMemset(again.get(), 1, kSize) == orSuccess);
  return 0;
}

TEST_F(DeviceAllocatorFailureTest, AStickyFailureEndsWithTheReset) {
  run_in_child("sticky_failure");
  run_in_child("sticky_failure", "gpu");
}

OPENREG_CHILD(reset_with_pending) {
  // An event that is idle, one that is pending, and a block that is in use.
  orStream_t handle = nullptr;
  CHILD_CHECK(orStreamCreateWithFlags(&handle, orStreamNonBlocking) ==
              orSuccess);
  OpenRegStream user = getStreamFromExternal(handle, 0);
  std::vector<c10::DataPtr> blocks;
  for (int i = 0; i < 3; ++i) {
    blocks.push_back(allocator().allocate(kSize));
    allocator().recordStream(blocks.back(), user);
  }
  drop(blocks[0]);
  user.synchronize();
  allocator().allocate(1);
  drop(blocks[1]);
  CHILD_CHECK(orDeviceReset() == orSuccess);
  Warnings warnings;
  drop(blocks[2]);
  allocator().emptyCache();
  CHILD_CHECK(warnings.texts.empty());
  CHILD_CHECK(current(stats().active) == 0);
  CHILD_CHECK(current(stats().reserved_bytes) == 0);
  // The new life has new events.
  CHILD_CHECK(orStreamCreateWithFlags(&handle, orStreamNonBlocking) ==
              orSuccess);
  user = getStreamFromExternal(handle, 0);
  for (int i = 0; i < 3; ++i) {
    c10::DataPtr block = allocator().allocate(kSize);
    allocator().recordStream(block, user);
    drop(block);
    user.synchronize();
    allocator().allocate(1);
    CHILD_CHECK(current(stats().active) == 0);
  }
  CHILD_CHECK(warnings.texts.empty());
  return 0;
}

TEST_F(DeviceAllocatorFailureTest, AResetEndsWhatIsPending) {
  run_in_child("reset_with_pending");
}

TEST_F(DeviceAllocatorFailureTest, AHostFunctionMayRelease) {
  const OpenRegStream stream = getStreamFromPool();
  const OpenRegStream user = getStreamFromPool();
  struct Blocks {
    c10::DataPtr plain, shared;
  } blocks{allocator().allocate(kSize), allocator().allocate(kSize)};
  allocator().recordStream(blocks.shared, user);
  OR_ASSERT_OK(orLaunchHostFunc(
      stream.handle(),
      [](void* data) {
        drop(static_cast<Blocks*>(data)->plain);
        drop(static_cast<Blocks*>(data)->shared);
      },
      &blocks));
  // orFree waits for the host function, which needs the lock.
  allocator().emptyCache();
  stream.synchronize();
  EXPECT_EQ(current(stats().allocation), 0);
  allocator().allocate(1);
  user.synchronize();
  allocator().allocate(1);
  EXPECT_EQ(current(stats().active), 0);
}

TEST_F(DeviceAllocatorFailureTest, AForkedChildHasNothingAndFreesInPeace) {
  c10::DataPtr block = allocator().allocate(kSize);
  c10::DataPtr shared = allocator().allocate(kSize);
  allocator().recordStream(shared, getStreamFromPool());
  const int code = openreg::test::run_forked([&] {
    Warnings warnings;
    drop(block);
    drop(shared);
    if (!warnings.texts.empty()) return 1;
    if (current(stats().reserved_bytes) != 0) return 2;
    if (error_code([] { allocator().allocate(512); }) !=
        orErrorNotInitialized) {
      return 3;
    }
    allocator().emptyCache();
    return 0;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(current(stats().allocation), 2) << "the parent's are untouched";
}

// The fork happens while another thread is inside the allocator, again and
// again: a child that inherited a held lock would hang.
TEST_F(DeviceAllocatorFailureTest, AForkBesideABusyThreadDoesNotHang) {
  c10::DataPtr block = allocator().allocate(kSize);
  std::atomic<bool> stop{false};
  openreg::test::Background busy([&] {
    while (!stop) allocator().allocate(512);
  });
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(openreg::test::run_forked([&] {
                drop(block);
                return current(stats().allocation) == 0 ? 0 : 1;
              }),
              0);
  }
  stop = true;
}

TEST_F(DeviceAllocatorFailureTest, AForeignPointerInTheDeleterWarns) {
  Warnings warnings;
  int on_the_stack = 0;
  allocator().raw_deleter()(&on_the_stack);
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_THAT(warnings.texts[0], ::testing::HasSubstr("no live block"));
}

OPENREG_CHILD(static_block) {
  static std::vector<c10::DataPtr> forever;
  for (int i = 0; i < 2; ++i) {
    forever.push_back(allocator().allocate(kSize));
  }
  allocator().recordStream(forever[1], getStreamFromPool());
  std::exit(0);
}

TEST_F(DeviceAllocatorFailureTest, StaticBlocksAreFreedAtExit) {
  const auto child = run_child("static_block");
  EXPECT_EQ(child.exit_code, 0) << "signal " << child.signal;
  EXPECT_EQ(child.output, "");
}

}  // namespace

}  // namespace torch_openreg::test
