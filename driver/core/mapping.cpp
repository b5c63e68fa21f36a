#include "core/mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <utility>
#include <vector>

#include "core/config.h"
#include "core/counters.h"

namespace openreg {

namespace {

void count_system_call() {
  counters().memory_system_calls.fetch_add(1, std::memory_order_relaxed);
}

void* to_pointer(uintptr_t address) { return reinterpret_cast<void*>(address); }

uintptr_t page_size() {
  static const auto size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return size;
}

// An advice that the system does not know is no failure: it is only advice.
void advise(uintptr_t address, size_t size, int advice) {
  count_system_call();
  madvise(to_pointer(address), size, advice);
}

}  // namespace

Mapping::Mapping(Mapping&& other) noexcept
    : start_(std::exchange(other.start_, 0)),
      length_(std::exchange(other.length_, 0)),
      address_(std::exchange(other.address_, 0)),
      size_(std::exchange(other.size_, 0)) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  const Mapping old(std::move(*this));  // goes at the end of this function
  std::swap(start_, other.start_);
  std::swap(length_, other.length_);
  std::swap(address_, other.address_);
  std::swap(size_, other.size_);
  return *this;
}

Mapping::~Mapping() {
  if (length_ == 0) return;
  count_system_call();
  munmap(to_pointer(start_), length_);
}

Mapping Mapping::reserve(size_t size) {
  Mapping result;
  if (size > SIZE_MAX - kMemoryGrain) return result;
  const size_t length = size + kMemoryGrain;
  count_system_call();
  void* const start = mmap(nullptr, length, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return result;
  result.start_ = reinterpret_cast<uintptr_t>(start);
  result.length_ = length;
  result.address_ =
      (result.start_ + kMemoryGrain - 1) / kMemoryGrain * kMemoryGrain;
  result.size_ = size;
  return result;
}

bool Mapping::make_usable(size_t offset, size_t size) {
  count_system_call();
  return mprotect(to_pointer(address_ + offset), size,
                  PROT_READ | PROT_WRITE) == 0;
}

void hide_from_children(uintptr_t address, size_t size) {
  advise(address, size, MADV_DONTFORK);
  advise(address, size, MADV_DONTDUMP);
}

void give_back_pages(uintptr_t address, size_t size) {
  const uintptr_t page = page_size();
  const uintptr_t begin = (address + page - 1) / page * page;
  const uintptr_t end = (address + size) / page * page;
  if (begin < end) advise(begin, end - begin, MADV_DONTNEED);
}

bool is_mapped(const void* address, size_t size) {
  const uintptr_t page = page_size();
  const uintptr_t begin = reinterpret_cast<uintptr_t>(address) / page * page;
  const uintptr_t end = reinterpret_cast<uintptr_t>(address) + size;
  // mincore fails if a part is not mapped; what it answers does not matter.
  constexpr size_t kPiece = size_t{1} << 30;
  std::vector<unsigned char> residency;
  for (uintptr_t piece = begin; piece < end; piece += kPiece) {
    const size_t length = end - piece < kPiece ? end - piece : kPiece;
    residency.resize((length + page - 1) / page);
    count_system_call();
    if (mincore(to_pointer(piece), length, residency.data()) != 0) return false;
  }
  return true;
}

}  // namespace openreg
