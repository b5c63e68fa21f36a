# OPENREG_SANITIZE builds everything, tests and kernel modules included, with
# GCC's sanitizers: that of addresses has that of undefined behaviour with it.
set(OPENREG_SANITIZE
    ""
    CACHE STRING "Sanitizer: empty, address or thread")
set_property(CACHE OPENREG_SANITIZE PROPERTY STRINGS "" address thread)

if(OPENREG_SANITIZE)
  if(NOT OPENREG_SANITIZE MATCHES "^(address|thread)$")
    message(FATAL_ERROR "OPENREG_SANITIZE is '${OPENREG_SANITIZE}'; it can be "
                        "empty, address or thread")
  endif()
  set(sanitizers ${OPENREG_SANITIZE})
  if(OPENREG_SANITIZE STREQUAL "address")
    set(sanitizers address,undefined)
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  add_compile_options(-fsanitize=${sanitizers} -fno-omit-frame-pointer -g)
  add_link_options(-fsanitize=${sanitizers})
endif()

# GCC 12's thread sanitizer cannot place its shadow memory when the kernel
# randomises more than 28 bits of an address: run such programs without.
if(OPENREG_SANITIZE STREQUAL "thread" AND EXISTS /proc/sys/vm/mmap_rnd_bits)
  file(READ /proc/sys/vm/mmap_rnd_bits random_bits)
  find_program(OPENREG_SETARCH setarch)
  mark_as_advanced(OPENREG_SETARCH)
  if(random_bits GREATER 28 AND OPENREG_SETARCH)
    set(CMAKE_CROSSCOMPILING_EMULATOR "${OPENREG_SETARCH};--addr-no-randomize")
  endif()
endif()
