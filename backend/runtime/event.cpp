#include "backend/runtime/event.h"

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"

namespace torch_openreg {

orEvent_t create_event(unsigned int flags, const OpenRegStream& stream) {
  const DeviceScope scope(stream.device_index());
  orEvent_t event = nullptr;
  OPENREG_CHECK(orEventCreateWithFlags(&event, flags));
  set_primary_context(stream.device_index());
  return event;
}

void record_event(orEvent_t event, const OpenRegStream& stream) {
  const DeviceScope scope(stream.device_index());
  OPENREG_CHECK(orEventRecord(event, stream.handle()));
}

void block_on_event(orEvent_t event, const OpenRegStream& stream) {
  const DeviceScope scope(stream.device_index());
  OPENREG_CHECK(orStreamWaitEvent(stream.handle(), event, 0));
}

bool query_event(orEvent_t event) {
  return is_ready(orEventQuery(event), "orEventQuery");
}

void destroy_event(orEvent_t event) noexcept {
  const orError_t code = orEventDestroy(event);
  if (code == orErrorInvalidHandle || code == orErrorDeviceLost) {
    orGetLastError();
  } else if (code != orSuccess) {
    detail::warn_error(code, "orEventDestroy");
  }
}

OpenRegEvent::~OpenRegEvent() {
  if (handle_ != nullptr) destroy_event(handle_);
}

void OpenRegEvent::record(const OpenRegStream& stream) {
  if (handle_ == nullptr) {
    handle_ = create_event(flags_, stream);
    device_ = stream.device_index();
  }
  TORCH_CHECK(
      device_ == stream.device_index(),
      "the event belongs to openreg:", static_cast<int>(device_),
      " and the stream to openreg:", static_cast<int>(stream.device_index()));
  record_event(handle_, stream);
}

void OpenRegEvent::block(const OpenRegStream& stream) const {
  if (handle_ != nullptr) block_on_event(handle_, stream);
}

bool OpenRegEvent::query() const {
  return handle_ == nullptr || query_event(handle_);
}

void OpenRegEvent::synchronize() const {
  if (handle_ != nullptr) OPENREG_CHECK(orEventSynchronize(handle_));
}

}  // namespace torch_openreg
