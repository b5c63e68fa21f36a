// The program's memory as a device process sees it.
#pragma once

#include "core/context.h"
#include "core/shared_memory.h"
#include "core/surroundings.h"

namespace openreg {

// A range of the program's addresses and where its bytes are here.
struct HostRange {
  uintptr_t base = 0;  // in the program
  SharedMemory memory;

  void* find(uintptr_t address, size_t bytes) const {
    const uintptr_t offset = address - base;
    if (offset >= memory.size() || bytes > memory.size() - offset) {
      return nullptr;
    }
    return memory.data() + offset;
  }
};

// Pinned and staging memory; nothing of other devices. Immutable after its
// ranges are set.
class HostView final : public Surroundings {
 public:
  HostRange pinned;
  HostRange staging;
  Context* own = nullptr;

  void* find_pinned(const void* pointer, size_t bytes) const override {
    return pinned.find(reinterpret_cast<uintptr_t>(pointer), bytes);
  }
  Context* find_owner(const void* pointer) override {
    return own->memory().covers(pointer) ? own : nullptr;
  }

  // The same for a copy, which may use staging memory too.
  void* find(const void* pointer, size_t bytes) const {
    void* const found = find_pinned(pointer, bytes);
    return found != nullptr
               ? found
               : staging.find(reinterpret_cast<uintptr_t>(pointer), bytes);
  }
};

}  // namespace openreg
