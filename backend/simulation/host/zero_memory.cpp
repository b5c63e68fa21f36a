#include "backend/simulation/host/zero_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

namespace torch_openreg {

namespace {

constexpr size_t kPage = 4096;
constexpr size_t kAlignment = 64;
constexpr size_t kArenaBytes = size_t{256} << 10;

size_t round_up(size_t bytes, size_t to) { return (bytes + to - 1) / to * to; }

std::byte* map_pages(size_t bytes) {
  void* const pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(pages);
}

// A thread's own.
class Arena {
 public:
  Arena() : pages_(map_pages(kBytes)) {}
  ~Arena() { munmap(pages_, kBytes); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  size_t used() const { return used_; }

  // Null if it is full.
  void* take(size_t bytes) {
    const size_t rounded = round_up(bytes, kAlignment);
    if (kArenaBytes - used_ < rounded) return nullptr;
    std::byte* const place = data() + used_;
    used_ += rounded;
    return place;
  }

  void clear_from(size_t begin) {
    std::memset(data() + begin, 0, used_ - begin);
    used_ = begin;
  }

 private:
  static constexpr size_t kBytes = kArenaBytes + 2 * ZeroMemory::kRoom;
  std::byte* data() { return pages_ + ZeroMemory::kRoom; }

  std::byte* const pages_;
  size_t used_ = 0;
};

Arena& arena() {
  static thread_local Arena instance;
  return instance;
}

// Pages of their own; the length is known by whoever releases them.
struct Pages {
  std::byte* start;
  size_t bytes;
};

void release_pages(void* context) {
  const std::unique_ptr<Pages> pages(static_cast<Pages*>(context));
  munmap(pages->start, pages->bytes);
}

// The room is as much again as the data, up to a limit: a kernel that takes
// another stride than the tensor's reads that far.
c10::DataPtr allocate_pages(size_t bytes) {
  constexpr size_t kMostRoom = size_t{64} << 20;
  const size_t room = std::clamp(bytes, ZeroMemory::kRoom, kMostRoom);
  const size_t before = round_up(room, kPage);
  const size_t all = before + round_up(bytes, kPage) + before;
  auto pages = std::make_unique<Pages>(Pages{map_pages(all), all});
  void* const data = pages->start + before;
  return {data, pages.release(), &release_pages,
          c10::Device(c10::DeviceType::CPU)};
}

}  // namespace

ZeroMemory::ZeroMemory() : begin_(arena().used()) {}

ZeroMemory::~ZeroMemory() { arena().clear_from(begin_); }

c10::DataPtr ZeroMemory::allocate(size_t bytes) {
  if (bytes == 0) return {nullptr, c10::Device(c10::DeviceType::CPU)};
  if (void* const place = arena().take(bytes)) {
    return {place, c10::Device(c10::DeviceType::CPU)};
  }
  return allocate_pages(bytes);
}

}  // namespace torch_openreg
