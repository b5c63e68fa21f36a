// Structs of the API that grow: the caller says in `structSize` how large its
// version of a struct is, and later versions add fields only behind that.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "core/status.h"

namespace openreg::api {

// Copies a struct that the caller has filled; fields that its version does not
// have become zero. `first` is the size of the first version. A larger struct
// is refused: nobody here knows what its other fields ask for.
//   orErrorInvalidValue  smaller than the first version, or larger than T
template <typename T>
Status read_struct(const T* given, const char* argument, size_t first,
                   T* known) {
  const size_t size = given->structSize;
  if (size == sizeof(T)) [[likely]] {
    *known = *given;
    return {};
  }
  if (size < first || size > sizeof(T)) {
    return failure(orErrorInvalidValue,
                   "%s->structSize=%zu: this driver knows %zu to %zu bytes",
                   argument, size, first, sizeof(T));
  }
  *known = T{};
  std::memcpy(known, given, size);
  return {};
}

// Checks a struct that the caller wants filled, before anything is done.
//   orErrorInvalidValue  smaller than the first version
template <typename T>
Status check_struct(const T* wanted, const char* argument, size_t first) {
  if (wanted->structSize >= first) return {};
  return failure(orErrorInvalidValue,
                 "%s->structSize=%zu: this driver needs at least %zu bytes",
                 argument, wanted->structSize, first);
}

// Fills it as far as both versions have the fields. Its `structSize` becomes
// the number of bytes that were filled.
template <typename T>
void write_struct(T known, T* wanted) {
  known.structSize = std::min(wanted->structSize, sizeof(T));
  std::memcpy(wanted, &known, known.structSize);
}

}  // namespace openreg::api
