# openreg_optimize_at_link(<target>...): a release build of these sees all their
# files at once. For what is called millions of times a second through many small
# functions. It changes the order of static initialisers: a library that is optimised
# so may have none that depends on another one's.
include(CheckIPOSupported)
check_ipo_supported(RESULT OPENREG_CAN_OPTIMIZE_AT_LINK LANGUAGES CXX)

function(openreg_optimize_at_link)
  if(OPENREG_CAN_OPTIMIZE_AT_LINK AND NOT OPENREG_SANITIZE)
    set_target_properties(${ARGN} PROPERTIES INTERPROCEDURAL_OPTIMIZATION_RELEASE
                                             ON)
  endif()
endfunction()
