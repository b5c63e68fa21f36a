// Memory that several processes have: without a name in the file system, so
// that nothing is left when the last of them ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/descriptor.h"

namespace openreg {

// A piece of shared memory, mapped into this process; movable. Not thread-safe,
// but its bytes can be used from any thread.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Makes `size` bytes of zeros, which take memory when they are touched. Their
  // size can't be changed by anybody. `name` is seen in /proc. Empty if the
  // system refuses.
  static SharedMemory create(const char* name, size_t size);

  // Maps what another process has made. Owns the descriptor from then on, also
  // if it fails. Empty if it is smaller than `size`, or the system refuses.
  static SharedMemory attach(int fd, size_t size);

  explicit operator bool() const { return data_ != nullptr; }
  std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  int fd() const { return memory_.get(); }

  // Whether [pointer, pointer + bytes) lies inside.
  bool contains(const void* pointer, size_t bytes) const {
    const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) -
                             reinterpret_cast<uintptr_t>(data_);
    return offset < size_ && bytes <= size_ - offset;
  }

  // Gives the memory of the whole pages in a range back; they read as zeros.
  void give_back(size_t offset, size_t bytes) const;

  // Gives the memory and the descriptor back. The bytes stay readable, as
  // zeros.
  void drop();

 private:
  static SharedMemory map(Descriptor memory, size_t size);

  std::byte* data_ = nullptr;
  size_t size_ = 0;
  Descriptor memory_;
};

}  // namespace openreg
