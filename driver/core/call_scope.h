// Knows whether the calling thread is inside a kernel or a host function, where
// the driver must not be called.
#pragma once

namespace openreg {

class DeviceCodeScope {
 public:
  DeviceCodeScope() { ++depth_; }
  ~DeviceCodeScope() { --depth_; }
  DeviceCodeScope(const DeviceCodeScope&) = delete;
  DeviceCodeScope& operator=(const DeviceCodeScope&) = delete;

  static bool is_active() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace openreg
