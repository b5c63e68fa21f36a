#include "core/config.h"

#include <strings.h>

#include <cctype>
#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/system_memory.h"
#include "openreg/device.h"

namespace openreg {

namespace {

// An unset and an empty variable mean the same: the default.
const char* get_variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

Status bad_value(const char* name, const char* value, const char* expected) {
  return failure(orErrorNotInitialized, "%s='%s' is not valid: expected %s",
                 name, value, expected);
}

Status read_devices(int* devices) {
  const char* const name = "OPENREG_DEVICES";
  const char* const value = get_variable(name);
  if (value == nullptr) return {};
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  if (errno != 0 || end == value || *end != '\0' || number < 0 ||
      number > OPENREG_MAX_DEVICES) {
    const std::string expected =
        format_string("a number of devices from 0 to %d", OPENREG_MAX_DEVICES);
    return bad_value(name, value, expected.c_str());
  }
  *devices = static_cast<int>(number);
  return {};
}

Status read_flag(const char* name, bool* flag) {
  const char* const value = get_variable(name);
  if (value == nullptr) return {};
  if (std::strcmp(value, "0") != 0 && std::strcmp(value, "1") != 0) {
    return bad_value(name, value, "0 or 1");
  }
  *flag = *value == '1';
  return {};
}

Status read_errors(ErrorMode* mode) {
  const char* const name = "OPENREG_ERRORS";
  const char* const value = get_variable(name);
  if (value == nullptr) return {};
  if (std::strcmp(value, "early") == 0) {
    *mode = ErrorMode::kEarly;
  } else if (std::strcmp(value, "gpu") == 0) {
    *mode = ErrorMode::kGpu;
  } else {
    return bad_value(name, value, "'early' or 'gpu'");
  }
  return {};
}

Status read_driver(Driver* driver) {
  const char* const name = "OPENREG_DRIVER";
  const char* const value = get_variable(name);
  if (value == nullptr) return {};
  if (std::strcmp(value, "inprocess") == 0) {
    *driver = Driver::kInprocess;
  } else if (std::strcmp(value, "isolated") == 0) {
    *driver = Driver::kIsolated;
  } else {
    return bad_value(name, value, "'inprocess' or 'isolated'");
  }
  return {};
}

Status read_heartbeat_limit(std::chrono::milliseconds* limit) {
  const char* const name = "OPENREG_HEARTBEAT_LIMIT";
  const char* const value = get_variable(name);
  if (value == nullptr) return {};
  char* end = nullptr;
  errno = 0;
  const long number = std::strtol(value, &end, 10);
  if (errno != 0 || end == value || *end != '\0' ||
      (number != 0 && (number < 200 || number > 3'600'000))) {
    return bad_value(name, value,
                     "milliseconds from 200 to 3600000, or 0 for no limit");
  }
  *limit = std::chrono::milliseconds(number);
  return {};
}

Status read_memory(int devices, size_t* memory) {
  const char* const name = "OPENREG_MEMORY";
  const char* const expected =
      "the bytes of one device, 2MiB to 16TiB, such as 512MiB, 4G or 8GB";
  const char* const value = get_variable(name);
  if (value == nullptr) {
    const size_t share = usable_memory() / 2 / (devices > 0 ? devices : 1);
    *memory = share / kMemoryGrain * kMemoryGrain;
    if (*memory == 0) *memory = kMemoryGrain;
    return {};
  }
  size_t size = 0;
  if (!parse_size(value, &size).ok() || size < kMemoryGrain ||
      size > (size_t{1} << 44)) {
    return bad_value(name, value, expected);
  }
  *memory = size / kMemoryGrain * kMemoryGrain;
  return {};
}

// Where the address space is limited, half of what is left is for the program
// and the devices share the other half. Taken once, so that all get the same.
size_t read_address_share(int devices) {
  const size_t space = usable_address_space();
  if (space == SIZE_MAX || devices == 0) return SIZE_MAX;
  return space / 2 / static_cast<size_t>(devices);
}

struct Unit {
  const char* name;
  size_t bytes;
};

constexpr Unit kUnits[] = {
    {"", 1},
    {"B", 1},
    {"K", size_t{1} << 10},
    {"M", size_t{1} << 20},
    {"G", size_t{1} << 30},
    {"T", size_t{1} << 40},
    {"KiB", size_t{1} << 10},
    {"MiB", size_t{1} << 20},
    {"GiB", size_t{1} << 30},
    {"TiB", size_t{1} << 40},
    {"KB", 1000},
    {"MB", 1000 * 1000},
    {"GB", 1000 * 1000 * 1000},
    {"TB", size_t{1000} * 1000 * 1000 * 1000},
};

}  // namespace

Status parse_size(const char* text, size_t* size) {
  const auto bad = [text] {
    return failure(orErrorInvalidValue, "'%s' is not a size", text);
  };
  if (std::isdigit(static_cast<unsigned char>(*text)) == 0) return bad();
  char* end = nullptr;
  errno = 0;
  const unsigned long long number = std::strtoull(text, &end, 10);
  if (errno != 0) return bad();
  while (*end == ' ') ++end;
  for (const Unit& unit : kUnits) {
    if (strcasecmp(end, unit.name) != 0) continue;
    if (number > SIZE_MAX / unit.bytes) return bad();
    *size = static_cast<size_t>(number) * unit.bytes;
    return {};
  }
  return bad();
}

Status read_config(Config* config) {
  OPENREG_RETURN_IF_ERROR(read_driver(&config->driver));
  OPENREG_RETURN_IF_ERROR(read_devices(&config->devices));
  OPENREG_RETURN_IF_ERROR(
      read_memory(config->devices, &config->memory_per_device));
  config->address_share = read_address_share(config->devices);
  OPENREG_RETURN_IF_ERROR(read_errors(&config->errors));
  OPENREG_RETURN_IF_ERROR(
      read_flag("OPENREG_LAUNCH_BLOCKING", &config->launch_blocking));
  OPENREG_RETURN_IF_ERROR(read_heartbeat_limit(&config->heartbeat_limit));
  return read_flag("OPENREG_FAULT_HANDLER", &config->fault_handler);
}

}  // namespace openreg
