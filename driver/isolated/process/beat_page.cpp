#include "isolated/process/beat_page.h"

#include <sys/mman.h>

#include <utility>

namespace openreg {

BeatPage::BeatPage(BeatPage&& other) noexcept
    : beats_(std::exchange(other.beats_, nullptr)) {}

BeatPage& BeatPage::operator=(BeatPage&& other) noexcept {
  std::swap(beats_, other.beats_);
  return *this;
}

BeatPage::~BeatPage() {
  // A forked child hasn't got the page; something else may lie there.
  if (beats_ != nullptr && !is_forked_child()) munmap(beats_, kBeatPageSize);
}

BeatPage BeatPage::map(const Descriptor& memory) {
  BeatPage page;
  void* const address = mmap(nullptr, kBeatPageSize, PROT_READ | PROT_WRITE,
                             MAP_SHARED, memory.get(), 0);
  if (address == MAP_FAILED) return page;
  madvise(address, kBeatPageSize, MADV_DONTFORK);
  page.beats_ = static_cast<Beats*>(address);
  return page;
}

}  // namespace openreg
