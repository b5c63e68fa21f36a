#include "isolated/device/tasks.h"

#include "core/futex.h"
#include "core/process_order.h"

namespace openreg {

namespace {

using IsDropped = std::function<bool()>;

void wait_unless_dropped(const Timeline& timeline, uint64_t number,
                         const IsDropped& is_dropped) {
  while (!timeline.wait_for(number, kCancelPoll)) {
    if (is_dropped()) return;
  }
}

class Refusal final : public Task {
 public:
  explicit Refusal(Status status) : status_(std::move(status)) {}
  Status run(const IsDropped& /*is_dropped*/,
             Completion* /*completion*/) override {
    return status_;
  }

 private:
  const Status status_;
};

class FenceWait final : public Task {
 public:
  FenceWait(const Timeline& timeline, uint64_t number)
      : timeline_(timeline), number_(number) {}
  Status run(const IsDropped& is_dropped, Completion* /*completion*/) override {
    wait_unless_dropped(timeline_, number_, is_dropped);
    return {};
  }

 private:
  const Timeline& timeline_;
  const uint64_t number_;
};

class HostCall final : public Task {
 public:
  explicit HostCall(wire::FenceSlot& slot) : slot_(slot) {}
  Status run(const IsDropped& is_dropped, Completion* /*completion*/) override {
    const uint64_t number = slot_.host_requested.value() + 1;
    before_other_process();
    slot_.host_requested.advance(number);
    wait_unless_dropped(slot_.host_done, number, is_dropped);
    return {};
  }

 private:
  wire::FenceSlot& slot_;
};

class Request final : public Task {
 public:
  explicit Request(std::function<Status()> body) : body_(std::move(body)) {}
  Status run(const IsDropped& /*is_dropped*/,
             Completion* /*completion*/) override {
    return body_();
  }
  bool runs_on_broken_device() const override { return true; }

 private:
  const std::function<Status()> body_;
};

}  // namespace

TaskCommand make_refusal(Status status) {
  return {std::make_unique<Refusal>(std::move(status))};
}

TaskCommand make_fence_wait(const Timeline& timeline, uint64_t number) {
  return {std::make_unique<FenceWait>(timeline, number)};
}

TaskCommand make_host_call(wire::FenceSlot& slot) {
  return {std::make_unique<HostCall>(slot)};
}

TaskCommand make_request(std::function<Status()> body) {
  return {std::make_unique<Request>(std::move(body))};
}

}  // namespace openreg
