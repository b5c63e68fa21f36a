// An owned event of the driver.
#pragma once

#include <utility>

#include "backend/export.h"
#include "backend/runtime/stream.h"
#include "openreg/event.h"

namespace torch_openreg {

// A new event of the device of `stream`; the caller owns it.
TORCH_OPENREG_API orEvent_t create_event(unsigned int flags,
                                         const OpenRegStream& stream);

// Records `event` behind everything that was submitted to `stream`.
TORCH_OPENREG_API void record_event(orEvent_t event,
                                    const OpenRegStream& stream);

// Makes `stream`, of any device, wait for the latest record of `event`.
TORCH_OPENREG_API void block_on_event(orEvent_t event,
                                      const OpenRegStream& stream);

// Whether the latest record of `event` is reached.
TORCH_OPENREG_API bool query_event(orEvent_t event);

// Ends an event. One of a device that was reset, or is lost, is gone already.
TORCH_OPENREG_API void destroy_event(orEvent_t event) noexcept;

// Created with the first record, on the stream's device; movable. Destroying it
// while it is pending is fine. Not thread-safe.
class TORCH_OPENREG_API OpenRegEvent {
 public:
  explicit OpenRegEvent(unsigned int flags = orEventDisableTiming)
      : flags_(flags) {}
  ~OpenRegEvent();
  OpenRegEvent(OpenRegEvent&& other) noexcept
      : flags_(other.flags_),
        device_(std::exchange(other.device_, c10::DeviceIndex{-1})),
        handle_(std::exchange(other.handle_, nullptr)) {}
  OpenRegEvent& operator=(OpenRegEvent&& other) noexcept {
    std::swap(flags_, other.flags_);
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  OpenRegEvent(const OpenRegEvent&) = delete;
  OpenRegEvent& operator=(const OpenRegEvent&) = delete;

  // Null until the first record.
  orEvent_t handle() const { return handle_; }

  // Records behind everything that was submitted to `stream`, which must be of
  // the device of the first record.
  void record(const OpenRegStream& stream);

  // Makes `stream`, of any device, wait for the latest record.
  void block(const OpenRegStream& stream) const;

  // Whether the latest record is reached; true without one.
  bool query() const;

  void synchronize() const;

 private:
  unsigned int flags_;
  c10::DeviceIndex device_ = -1;
  orEvent_t handle_ = nullptr;
};

}  // namespace torch_openreg
