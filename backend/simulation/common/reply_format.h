// The reply of a call that the host waits for. It is a record itself; what it
// holds is said at reply_with_results() in device/reply.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace torch_openreg {

// A longer reply waits for fetch_reply. What isolated devices answer in one
// piece has this size.
inline constexpr size_t kShortReplyBytes = size_t{8} << 10;

// What stands in a reply in the place of an argument's number, before a
// warning.
inline constexpr int64_t kUserWarning = -1;
inline constexpr int64_t kDeprecationWarning = -2;

}  // namespace torch_openreg
