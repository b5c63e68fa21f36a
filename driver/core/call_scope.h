// Knows whether the calling thread is inside a kernel or a host function, where
// the driver must not be called.
#pragma once

namespace openreg {

class DeviceCodeScope {
 public:
  DeviceCodeScope() { ++depth; }
  ~DeviceCodeScope() { --depth; }
  DeviceCodeScope(const DeviceCodeScope&) = delete;
  DeviceCodeScope& operator=(const DeviceCodeScope&) = delete;

  static bool is_active() { return depth > 0; }

 private:
  static inline thread_local int depth = 0;
};

}  // namespace openreg
