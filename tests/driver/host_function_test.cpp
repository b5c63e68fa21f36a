// Host functions: their place in a stream and what they may not do.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <utility>
#include <vector>

#include "support/support.h"
#include "support/work.h"

namespace openreg::test {
namespace {

using HostFunctionTest = DriverTest;

// Blocks a stream in a host function until the end of the scope, or `open`.
class HostGate {
 public:
  ~HostGate() { open(); }
  void hold(orStream_t stream) {
    OR_EXPECT_OK(orLaunchHostFunc(
        stream,
        [](void* self) {
          auto* const gate = static_cast<HostGate*>(self);
          gate->entered_.set_value();
          gate->opened_.get_future().wait();
        },
        this));
  }
  void await() { entered_.get_future().wait(); }
  void open() {
    if (!std::exchange(open_, true)) opened_.set_value();
  }

 private:
  std::promise<void> entered_;
  std::promise<void> opened_;
  bool open_ = false;
};

TEST_F(HostFunctionTest, ItGetsItsUserData) {
  Stream stream;
  void* seen = nullptr;
  std::pair<void**, int> data{&seen, 42};
  OR_EXPECT_OK(orLaunchHostFunc(
      stream,
      [](void* user_data) {
        *static_cast<std::pair<void**, int>*>(user_data)->first = user_data;
      },
      &data));
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(seen, &data);
}

TEST_F(HostFunctionTest, NullUserDataIsFine) {
  Stream stream;
  OR_EXPECT_OK(orLaunchHostFunc(
      stream, [](void* data) { EXPECT_EQ(data, nullptr); }, nullptr));
  OR_EXPECT_OK(orStreamSynchronize(stream));
}

TEST_F(HostFunctionTest, ItRunsInTheOrderOfItsStream) {
  constexpr int kCount = 100;
  struct Call {
    std::vector<int>* order;
    int value;
  };
  std::vector<int> order;
  std::vector<Call> calls;
  std::vector<int> expected;
  Stream stream;
  for (int i = 0; i < kCount; ++i) {
    calls.push_back({&order, i});
    expected.push_back(i);
  }
  for (Call& call : calls) {
    OR_EXPECT_OK(launch_empty(stream));
    OR_EXPECT_OK(orLaunchHostFunc(
        stream,
        [](void* data) {
          const Call& c = *static_cast<Call*>(data);
          c.order->push_back(c.value);
        },
        &call));
  }
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(order, expected);
}

TEST_F(HostFunctionTest, ItRunsAfterTheWorkBefore) {
  struct Seen {
    unsigned char* byte;
    int value;
  };
  PinnedBuffer<unsigned char> byte(1);
  byte[0] = 0;
  Seen seen{byte.get(), -1};
  Stream stream;
  Gate gate;
  gate.hold(stream);
  OR_EXPECT_OK(orMemsetAsync(byte.get(), 9, 1, stream));
  OR_EXPECT_OK(orLaunchHostFunc(
      stream,
      [](void* data) {
        Seen& s = *static_cast<Seen*>(data);
        s.value = *s.byte;
      },
      &seen));
  gate.await();
  EXPECT_EQ(seen.value, -1);
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(seen.value, 9);
}

TEST_F(HostFunctionTest, ItHoldsBackTheWorkAfter) {
  Mark mark;
  Event event;
  Stream stream;
  HostGate gate;
  gate.hold(stream);
  OR_EXPECT_OK(mark.set_by(stream));
  OR_EXPECT_OK(orEventRecord(event, stream));
  gate.await();
  OR_EXPECT_ERROR(orErrorNotReady, orStreamQuery(stream));
  OR_EXPECT_ERROR(orErrorNotReady, orEventQuery(event));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(HostFunctionTest, ItHoldsBackACheapLaunch) {
  Mark mark;
  Stream stream;
  HostGate gate;
  gate.hold(stream);
  gate.await();
  OR_EXPECT_OK(mark.set_cheaply_by(stream));
  EXPECT_FALSE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(mark.is_set());
}

TEST_F(HostFunctionTest, OtherStreamsGoOnMeanwhile) {
  Mark mark;
  Stream held;
  Stream other;
  HostGate gate;
  gate.hold(held);
  gate.await();
  OR_EXPECT_OK(mark.set_by(other));
  OR_EXPECT_OK(orStreamSynchronize(other));
  EXPECT_TRUE(mark.is_set());
  gate.open();
  OR_EXPECT_OK(orStreamSynchronize(held));
}

// Every call that needs the driver, made inside a host function or a kernel.
struct CallsFromInside {
  Stream stream;
  Event event;
  DeviceBuffer<char> block{16};
  orFunction_t empty = builtin("empty");
  std::vector<std::pair<std::string, orError_t>> codes;
  std::string message;

  static void make(void* self) { static_cast<CallsFromInside*>(self)->make(); }

  void make() {
    void* ptr = nullptr;
    size_t bytes = 0;
    char byte = 0;
    orStream_t new_stream = nullptr;
    orEvent_t new_event = nullptr;
    orModule_t module = nullptr;
    codes = {
        {"orMalloc", orMalloc(&ptr, 16)},
        {"orFree", orFree(block.get())},
        {"orMallocHost", orMallocHost(&ptr, 16)},
        {"orMemcpy", orMemcpy(&byte, block.get(), 1, orMemcpyDeviceToHost)},
        {"orMemcpyAsync",
         orMemcpyAsync(&byte, block.get(), 1, orMemcpyDeviceToHost, stream)},
        {"orMemsetAsync", orMemsetAsync(block.get(), 0, 1, stream)},
        {"orMemGetInfo", orMemGetInfo(&bytes, nullptr)},
        {"orStreamCreate", orStreamCreate(&new_stream)},
        {"orStreamDestroy", orStreamDestroy(stream)},
        {"orStreamQuery", orStreamQuery(stream)},
        {"orStreamWaitEvent", orStreamWaitEvent(stream, event, 0)},
        {"orEventCreate", orEventCreate(&new_event)},
        {"orEventRecord", orEventRecord(event, stream)},
        {"orEventQuery", orEventQuery(event)},
        {"orEventSynchronize", orEventSynchronize(event)},
        {"orEventDestroy", orEventDestroy(event)},
        {"orModuleLoad", orModuleLoad(&module, OPENREG_TEST_MODULE)},
        {"orLaunchKernel", orLaunchKernel(empty, nullptr, 0, stream)},
        {"orLaunchHostFunc", orLaunchHostFunc(
                                 stream, [](void*) {}, nullptr)},
        {"orStreamSynchronize", orStreamSynchronize(stream)},
        {"orDeviceSynchronize", orDeviceSynchronize()},
        {"orDeviceReset", orDeviceReset()},
    };
    message = orGetLastErrorMessage();
  }

  void expect_refused() const {
    EXPECT_FALSE(codes.empty());
    for (const auto& [name, code] : codes) {
      EXPECT_EQ(code, orErrorNotSupported)
          << name << " gave " << orGetErrorName(code);
    }
    EXPECT_EQ(message.rfind("orDeviceReset", 0), 0u) << message;
  }
};

TEST_F(HostFunctionTest, TheDriverCannotBeCalledFromAHostFunction) {
  CallsFromInside calls;
  OR_EXPECT_OK(orLaunchHostFunc(calls.stream, CallsFromInside::make, &calls));
  OR_EXPECT_OK(orStreamSynchronize(calls.stream));
  calls.expect_refused();
}

TEST_F(HostFunctionTest, TheDriverCannotBeCalledFromAKernel) {
  orDeviceProp prop{};
  OR_ASSERT_OK(orGetDeviceProperties(&prop, 0));
  if (prop.isolated) GTEST_SKIP() << "kernels have no driver to call";
  TestModule module;
  CallsFromInside calls;
  const CallArgs args{CallsFromInside::make, &calls};
  OR_EXPECT_OK(launch(module["call"], args, calls.stream));
  OR_EXPECT_OK(orStreamSynchronize(calls.stream));
  calls.expect_refused();
}

TEST_F(HostFunctionTest, TheThreadMayCallTheDriverAgainAfterwards) {
  CallsFromInside calls;
  // A waiting thread may have run the function itself.
  OR_EXPECT_OK(orLaunchHostFunc(calls.stream, CallsFromInside::make, &calls));
  OR_EXPECT_OK(orStreamSynchronize(calls.stream));
  OR_EXPECT_OK(launch_empty(calls.stream));
  OR_EXPECT_OK(orStreamSynchronize(calls.stream));
}

TEST_F(HostFunctionTest, BadArgumentsAreRefused) {
  Stream stream;
  OR_EXPECT_ERROR_SAYS(orErrorInvalidValue, "fn",
                       orLaunchHostFunc(stream, nullptr, nullptr));
  OR_EXPECT_ERROR_SAYS(
      orErrorInvalidHandle, "stream",
      orLaunchHostFunc(garbage_handle<orStream_t>(), [](void*) {}, nullptr));
}

}  // namespace
}  // namespace openreg::test
