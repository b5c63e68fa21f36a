#include "backend/runtime/event.h"

#include "backend/runtime/check.h"
#include "backend/runtime/functions.h"

namespace torch_openreg {

bool query_event(orEvent_t event) {
  return is_ready(orEventQuery(event), "orEventQuery");
}

OpenRegEvent::~OpenRegEvent() {
  if (handle_ == nullptr) return;
  const orError_t code = orEventDestroy(handle_);
  if (code == orErrorInvalidHandle) {
    orGetLastError();  // a reset of the device has destroyed it before
  } else if (code != orSuccess) {
    detail::warn_error(code, "orEventDestroy");
  }
}

void OpenRegEvent::record(const OpenRegStream& stream) {
  const DeviceScope scope(stream.device_index());
  if (handle_ == nullptr) {
    OPENREG_CHECK(orEventCreateWithFlags(&handle_, flags_));
    device_ = stream.device_index();
    set_primary_context(device_);
  }
  TORCH_CHECK(
      device_ == stream.device_index(),
      "the event belongs to openreg:", static_cast<int>(device_),
      " and the stream to openreg:", static_cast<int>(stream.device_index()));
  OPENREG_CHECK(orEventRecord(handle_, stream.handle()));
}

void OpenRegEvent::block(const OpenRegStream& stream) const {
  if (handle_ == nullptr) return;
  const DeviceScope scope(stream.device_index());
  OPENREG_CHECK(orStreamWaitEvent(stream.handle(), handle_, 0));
}

bool OpenRegEvent::query() const {
  return handle_ == nullptr || query_event(handle_);
}

void OpenRegEvent::synchronize() const {
  if (handle_ != nullptr) OPENREG_CHECK(orEventSynchronize(handle_));
}

}  // namespace torch_openreg
