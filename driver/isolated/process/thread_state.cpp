#include "isolated/process/thread_state.h"

#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "core/status.h"

namespace openreg {

char thread_state(pid_t process, pid_t thread) {
  const std::string path =
      format_string("/proc/%d/task/%d/stat", process, thread);
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return '?';
  char text[256];
  const ssize_t size = read(file, text, sizeof(text));
  close(file);
  if (size <= 0) return '?';
  // "ID (NAME) STATE …", where the name may hold anything.
  const std::string_view line(text, static_cast<size_t>(size));
  const size_t end = line.rfind(") ");
  return end != line.npos && end + 2 < line.size() ? line[end + 2] : '?';
}

}  // namespace openreg
