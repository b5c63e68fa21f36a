// The memory that kernels can reach besides that of their own device.
#pragma once

#include <cstddef>

namespace openreg {

class Context;

// Thread-safe.
class Surroundings {
 public:
  virtual ~Surroundings() = default;

  // Where this process finds pinned bytes of the host; null if the range is not
  // within one pinned allocation.
  virtual void* find_pinned(const void* pointer, size_t bytes) const = 0;

  // The device whose range, of any life, holds `pointer`; null if none does.
  virtual Context* find_owner(const void* pointer) = 0;
};

}  // namespace openreg
