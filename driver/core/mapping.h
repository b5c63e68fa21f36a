// Address space of this process: reserved, made usable, given back. The only
// place of the driver that maps memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace openreg {

// A piece of reserved address space, unmapped at the end of its life. Movable.
// Not thread-safe, but its addresses can be used from any thread.
class Mapping {
 public:
  Mapping() = default;
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  ~Mapping();

  // Reserves `size` bytes, aligned to a huge page, which nobody can read or
  // write. Costs no memory. An empty mapping if the system refuses.
  static Mapping reserve(size_t size);

  explicit operator bool() const { return address_ != 0; }
  uintptr_t address() const { return address_; }
  size_t size() const { return size_; }

  // Makes a part readable and writable; memory comes when it is first touched,
  // in pages of the size that the system gives any program: asked for huge
  // ones, it can take several times as long. Returns false if the system
  // refuses.
  bool make_usable(size_t offset, size_t size);

 private:
  uintptr_t start_ = 0;  // what was mapped, before alignment
  size_t length_ = 0;
  uintptr_t address_ = 0;
  size_t size_ = 0;
};

// Keeps a usable range out of forked children and core dumps.
void hide_from_children(uintptr_t address, size_t size);

// Gives the memory of a usable range back to the system, the whole pages in it;
// the range stays usable and reads as zeros.
void give_back_pages(uintptr_t address, size_t size);

// Returns whether every page of a range is mapped in this process.
bool is_mapped(const void* address, size_t size);

}  // namespace openreg
