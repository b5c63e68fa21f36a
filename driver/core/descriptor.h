// Descriptors that belong to one process: closed at the end of their owner's
// life, at an exec, and in forked children.
#pragma once

#include <cstddef>

namespace openreg {

// Owns a descriptor; -1 is none. Movable. Not thread-safe, but different
// descriptors can be used at a time.
class Descriptor {
 public:
  Descriptor() = default;
  // Takes over `fd`.
  explicit Descriptor(int fd);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

  // Closes it now.
  void reset();

  // Gives it up without closing it; forked children keep it from now on.
  int release();

 private:
  int fd_ = -1;
};

struct DescriptorPair {
  Descriptor first;
  Descriptor second;
};

// What these make is above 2, also in a program that has closed its standard
// streams, and close-on-exec; a fork by another thread cannot get between the
// making and the owning. Empty, with errno, if the system refuses.
Descriptor take_over(int fd);
DescriptorPair make_socket_pair();  // SOCK_SEQPACKET
DescriptorPair make_pipe();         // first is the end to read from
Descriptor make_wake_up();          // an eventfd that doesn't block
// Zeros without a name in the file system. The size is final: whoever gets the
// descriptor cannot pull the memory away under the others.
Descriptor make_shared_memory(const char* name, size_t size);

// A descriptor of the process `pid` (pidfd_open).
Descriptor open_process(int pid);

// From the first call on, children that this process forks close its
// descriptors. Not for a process whose forks are to inherit them.
void close_descriptors_in_children();

// Whether this is a child forked after close_descriptors_in_children(). Its
// descriptors are closed, and locks may be held by threads that it hasn't got.
bool is_forked_child();

}  // namespace openreg
