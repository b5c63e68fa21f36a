// Shows ThreadSanitizer an order that it cannot see: it watches one process, so
// accesses that another process orders look to it like a race. Without it these
// do nothing.
#pragma once

#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace openreg {

#ifdef __SANITIZE_THREAD__
inline char process_order_mark;
#endif

// Everything before this comes before what the other process does next.
inline void before_other_process() {
#ifdef __SANITIZE_THREAD__
  __tsan_release(&process_order_mark);
#endif
}

// Everything after this comes after what the other process has done.
inline void after_other_process() {
#ifdef __SANITIZE_THREAD__
  __tsan_acquire(&process_order_mark);
#endif
}

}  // namespace openreg
