# The CMake package: find_package(OpenReg) gives OpenReg::openreg, the driver,
# and OpenReg::headers, which is what kernel modules are compiled against.
include(CMakePackageConfigHelpers)

install(
  EXPORT OpenRegTargets
  NAMESPACE OpenReg::
  DESTINATION "${OPENREG_INSTALL_CMAKEDIR}")

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
