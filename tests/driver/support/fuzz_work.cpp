// The part of the walk that concerns streams and events.
#include <algorithm>
#include <vector>

#include "support/fuzz_walk.h"
#include "support/work.h"

namespace openreg::test {

namespace {

constexpr size_t kMaxStreams = 12;
constexpr size_t kMaxEvents = 24;

template <typename Handle>
Handle as(uint64_t value) {
  return reinterpret_cast<Handle>(value);
}

}  // namespace

void FuzzWalk::do_stream() {
  StreamRef made{nullptr, current_};
  const StreamRef stream = any_stream();
  select(stream);
  int number = -1;
  unsigned flags = 99;
  switch (streams_.empty() ? 0 : below(7)) {
    case 0: {
      if (streams_.size() >= kMaxStreams) return;
      made.device = current_;
      const unsigned wanted =
          chance(50) ? orStreamDefault : orStreamNonBlocking;
      const int priority = static_cast<int>(below(12)) - 6;
      if (!WALK(orSuccess,
                orStreamCreateWithPriority(&made.handle, wanted, priority))) {
        return;
      }
      streams_.push_back(made);
      WALK(orSuccess, orStreamGetFlags(made.handle, &flags));
      WALK(orSuccess, orStreamGetPriority(made.handle, &number));
      EXPECT_EQ(flags, wanted);
      EXPECT_EQ(number, std::clamp(priority, -3, 0));
      break;
    }
    case 1: {
      const size_t i = below(streams_.size());
      const orStream_t handle = streams_[i].handle;
      WALK(orSuccess, orStreamDestroy(handle));
      gone_streams_.push_back({reinterpret_cast<uint64_t>(handle), false});
      streams_.erase(streams_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    case 2:
      check({orSuccess, orErrorNotReady}, orStreamQuery(stream.handle),
            "orStreamQuery");
      break;
    case 3:
      WALK(orSuccess, orStreamSynchronize(stream.handle));
      if (!alone_ && stream.handle == nullptr) break;  // others use it, too
      if (chance(50)) WALK(orSuccess, orStreamQuery(stream.handle));
      break;
    case 4:
      WALK(orSuccess, orStreamGetDevice(stream.handle, &number));
      EXPECT_EQ(number, stream.device);
      break;
    case 5:
      if (events_.empty()) return;
      WALK(orSuccess,
           orStreamWaitEvent(stream.handle,
                             events_[below(events_.size())].handle, 0));
      break;
    default:
      WALK(orSuccess, orDeviceSynchronize());
  }
}

void FuzzWalk::do_bad_stream() {
  Gone bad{0x123456789abcdef0, false};
  if (!gone_streams_.empty() && chance(70)) {
    bad = gone_streams_[below(gone_streams_.size())];
  } else if (!events_.empty() && chance(30)) {
    bad.value =
        reinterpret_cast<uint64_t>(events_[below(events_.size())].handle);
  }
  const auto stream = as<orStream_t>(bad.value);
  orStream_t made = nullptr;
  int number = 0;
  switch (below(9)) {
    case 0:
      WALK(orErrorInvalidValue, orStreamCreate(nullptr));
      return;
    case 1:
      WALK(orErrorInvalidValue, orStreamCreateWithFlags(&made, 0x10));
      return;
    case 2:
      WALK(orErrorInvalidValue, orStreamDestroy(nullptr));
      return;
    case 3:
      WALK(orErrorInvalidHandle, orStreamDestroy(stream));
      break;
    case 4:
      WALK(orErrorInvalidHandle, orStreamQuery(stream));
      break;
    case 5:
      WALK(orErrorInvalidHandle, orStreamSynchronize(stream));
      break;
    case 6:
      WALK(orErrorInvalidHandle, orStreamGetPriority(stream, &number));
      break;
    case 7:
      WALK(orErrorInvalidHandle,
           orLaunchHostFunc(stream, [](void*) {}, nullptr));
      break;
    default:
      WALK(orErrorInvalidHandle, launch_empty(stream));
  }
  expect_says_reset(bad);
}

void FuzzWalk::do_event() {
  const size_t action = events_.empty() ? 0 : below(6);
  if (action == 0) {
    if (events_.size() >= kMaxEvents) return;
    LiveEvent made{nullptr, current_, chance(50), false};
    const unsigned flags = (made.timed ? 0 : orEventDisableTiming) |
                           (chance(50) ? orEventBlockingSync : 0);
    if (WALK(orSuccess, orEventCreateWithFlags(&made.handle, flags))) {
      events_.push_back(made);
    }
    return;
  }
  const size_t i = below(events_.size());
  LiveEvent& event = events_[i];
  const StreamRef stream = any_stream();
  select(stream);
  switch (action) {
    case 1:
      WALK(orSuccess, orEventDestroy(event.handle));
      gone_events_.push_back({reinterpret_cast<uint64_t>(event.handle), false});
      events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 2:
      if (event.recorded) {
        check({orSuccess, orErrorNotReady}, orEventQuery(event.handle),
              "orEventQuery");
      } else {
        WALK(orSuccess, orEventQuery(event.handle));
      }
      break;
    case 3:
      WALK(orSuccess, orEventSynchronize(event.handle));
      WALK(orSuccess, orEventQuery(event.handle));
      break;
    default: {
      const bool fits = event.device == stream.device;
      WALK(fits ? orSuccess : orErrorInvalidDevice,
           orEventRecord(event.handle, stream.handle));
      event.recorded = event.recorded || fits;
    }
  }
}

void FuzzWalk::do_elapsed_time() {
  if (events_.empty()) return;
  const LiveEvent& start = events_[below(events_.size())];
  const LiveEvent& end = events_[below(events_.size())];
  const bool usable =
      start.timed && start.recorded && end.timed && end.recorded;
  float ms = 0;
  // A record that is pending would be a second reason to refuse.
  WALK(orSuccess, orEventSynchronize(start.handle));
  WALK(orSuccess, orEventSynchronize(end.handle));
  if (usable && start.device == end.device) {
    WALK(orSuccess, orEventElapsedTime(&ms, start.handle, end.handle));
    WALK(orErrorInvalidValue,
         orEventElapsedTime(nullptr, start.handle, end.handle));
  } else if (usable) {
    WALK(orErrorInvalidDevice,
         orEventElapsedTime(&ms, start.handle, end.handle));
  } else if (start.device == end.device) {
    WALK(orErrorInvalidHandle,
         orEventElapsedTime(&ms, start.handle, end.handle));
  }
}

void FuzzWalk::do_bad_event() {
  Gone bad{chance(50) ? 0 : 0xfedcba9876543210, false};
  if (!gone_events_.empty() && chance(70)) {
    bad = gone_events_[below(gone_events_.size())];
  } else if (!streams_.empty() && chance(30)) {
    bad.value =
        reinterpret_cast<uint64_t>(streams_[below(streams_.size())].handle);
  }
  const auto event = as<orEvent_t>(bad.value);
  const StreamRef stream = any_stream();
  select(stream);
  orEvent_t made = nullptr;
  switch (below(8)) {
    case 0:
      WALK(orErrorInvalidValue, orEventCreate(nullptr));
      return;
    case 1:
      WALK(orErrorInvalidValue, orEventCreateWithFlags(&made, 0x100));
      return;
    case 2:
      WALK(orErrorNotSupported,
           orEventCreateWithFlags(&made, orEventInterprocess));
      return;
    case 3:
      WALK(orErrorInvalidHandle, orEventDestroy(event));
      break;
    case 4:
      WALK(orErrorInvalidHandle, orEventQuery(event));
      break;
    case 5:
      WALK(orErrorInvalidHandle, orEventSynchronize(event));
      break;
    case 6:
      WALK(orErrorInvalidHandle, orEventRecord(event, stream.handle));
      break;
    default:
      WALK(orErrorInvalidHandle, orStreamWaitEvent(stream.handle, event, 0));
  }
  expect_says_reset(bad);
}

void FuzzWalk::destroy_handles() {
  for (const StreamRef& stream : streams_) {
    WALK(orSuccess, orStreamDestroy(stream.handle));
  }
  for (const LiveEvent& event : events_) {
    WALK(orSuccess, orEventDestroy(event.handle));
  }
  for (const LiveModule& module : modules_) {
    WALK(orSuccess, orModuleUnload(module.handle));
  }
  for (const orEvent_t chain : chain_) {
    if (chain != nullptr) WALK(orSuccess, orEventDestroy(chain));
  }
  if (registered_) {
    WALK(orSuccess, orHostUnregister(registered_memory_.data()));
  }
  registered_ = false;
}

}  // namespace openreg::test
