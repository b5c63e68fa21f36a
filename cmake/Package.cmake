# The CMake package: find_package(OpenReg) gives OpenReg::openreg, the driver,
# and OpenReg::headers, which is what kernel modules are compiled against. With
# COMPONENTS torch it also gives OpenReg::torch_openreg, the PyTorch backend.
include(CMakePackageConfigHelpers)

install(
  EXPORT OpenRegTargets
  NAMESPACE OpenReg::
  DESTINATION "${OPENREG_INSTALL_CMAKEDIR}")
if(OPENREG_BUILD_BACKEND)
  install(
    EXPORT OpenRegTorchTargets
    NAMESPACE OpenReg::
    DESTINATION "${OPENREG_INSTALL_CMAKEDIR}")
endif()

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/OpenRegConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/OpenRegConfig.cmake"
  INSTALL_DESTINATION "${OPENREG_INSTALL_CMAKEDIR}"
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/OpenRegConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)

install(FILES "${PROJECT_BINARY_DIR}/OpenRegConfig.cmake"
              "${PROJECT_BINARY_DIR}/OpenRegConfigVersion.cmake"
        DESTINATION "${OPENREG_INSTALL_CMAKEDIR}")
