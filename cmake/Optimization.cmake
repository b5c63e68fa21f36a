# openreg_optimize(<target>...): how a release build makes what is called millions of
# times a second, through many small functions. The linker sees all files at once: it
# changes the order of static initialisers, so a library that is optimised so may have
# none that depends on another one's. A library's calls of its own functions go straight
# to them, and those into PyTorch take no detour through a table of jumps. The code stays
# small: a launch with its kernel is more than the first cache of a processor holds.
include(CheckIPOSupported)
check_ipo_supported(RESULT OPENREG_CAN_OPTIMIZE_AT_LINK LANGUAGES CXX)

set(OPENREG_COMPILE_FLAGS -O2 -fno-plt -fno-semantic-interposition)

function(openreg_optimize)
  if(OPENREG_SANITIZE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    target_compile_options(
      ${target} PRIVATE "$<$<CONFIG:Release>:${OPENREG_COMPILE_FLAGS}>")
    target_link_options(${target} PRIVATE
                        "$<$<CONFIG:Release>:LINKER:-Bsymbolic-functions>")
  endforeach()
  if(OPENREG_CAN_OPTIMIZE_AT_LINK)
    set_target_properties(${ARGN} PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE
                                             ON)
  endif()
endfunction()
