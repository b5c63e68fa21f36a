# The warnings of our own code, all of them errors. Link a target to
# openreg_warnings with PRIVATE; it is never exported.
add_library(openreg_warnings INTERFACE)
target_compile_options(openreg_warnings INTERFACE -Wall -Wextra -Wpedantic
                                                  -Wshadow -Werror)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION
                                            VERSION_LESS 13)
  # Says that `"literal" + std::string` overlaps itself (GCC bug 105651).
  target_compile_options(openreg_warnings
                         INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
