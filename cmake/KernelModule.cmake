# openreg_add_kernel_module(<name> <source>...)
#
# Builds a kernel module, <name>.so, for orModuleLoad. A module is compiled
# against the headers and links nothing of OpenReg.
function(openreg_add_kernel_module name)
  add_library(${name} MODULE ${ARGN})
  set_target_properties(${name} PROPERTIES PREFIX "")
  target_link_libraries(${name} PRIVATE OpenReg::headers openreg_warnings)
endfunction()
