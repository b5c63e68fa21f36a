#include "core/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

namespace openreg {

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      memory_(std::move(other.memory_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(memory_, other.memory_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, size_);
}

SharedMemory SharedMemory::create(const char* name, size_t size) {
  Descriptor memory = make_shared_memory(name, size);
  return memory ? map(std::move(memory), size) : SharedMemory();
}

SharedMemory SharedMemory::attach(int fd, size_t size) {
  struct stat status{};
  Descriptor memory(fd);
  if (fstat(fd, &status) != 0 || static_cast<size_t>(status.st_size) < size) {
    return {};
  }
  return map(std::move(memory), size);
}

SharedMemory SharedMemory::map(Descriptor memory, size_t size) {
  SharedMemory result;
  result.memory_ = std::move(memory);
  void* const data = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_NORESERVE, result.fd(), 0);
  if (data == MAP_FAILED) return {};
  result.data_ = static_cast<std::byte*>(data);
  result.size_ = size;
  return result;
}

void SharedMemory::give_back(size_t offset, size_t bytes) const {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + bytes) / page * page;
  if (begin >= end || !memory_) return;
  fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
            static_cast<off_t>(begin), static_cast<off_t>(end - begin));
}

void SharedMemory::drop() {
  give_back(0, size_);
  memory_.reset();
}

}  // namespace openreg
