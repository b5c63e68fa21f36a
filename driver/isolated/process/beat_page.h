// Note [Signs of life]
// A device process has a thread that does nothing but look after its parent and
// count, ten times a second, in a page that both have mapped. The parent counts
// its own looks at the page that found no change: so neither a parent that was
// stopped itself nor a machine that was suspended takes its device for dead.
//
// A pipe tells the process to end: a byte in it is a request, and if it closes
// without one the parent has become another program. Forked children of the
// parent have closed their copies; should one remain, the parent's pidfd still
// tells of its end.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/descriptor.h"

namespace openreg {

inline constexpr std::chrono::milliseconds kBeat{100};

// Zeros before the process has begun to beat.
struct Beats {
  std::atomic<uint32_t> count;
  std::atomic<int32_t> thread;  // the id of the thread that counts
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// A mapping of the page. Movable.
class BeatPage {
 public:
  BeatPage() = default;
  BeatPage(BeatPage&& other) noexcept;
  BeatPage& operator=(BeatPage&& other) noexcept;
  ~BeatPage();

  // Maps the page that `memory` is. Empty, with errno, if the system refuses.
  static BeatPage map(const Descriptor& memory);

  explicit operator bool() const { return beats_ != nullptr; }
  Beats* operator->() const { return beats_; }

 private:
  Beats* beats_ = nullptr;
};

inline constexpr size_t kBeatPageSize = 4096;

}  // namespace openreg
