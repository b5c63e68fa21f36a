# openreg_register_tests(<program> <driver> <prefix> <filter> <timeout> <labels>)
#
# Registers the tests of a GoogleTest program whose names match the filter, to run
# on a driver, each in a process of its own. The memory is small, so that tests can
# use it up. CTest reads the properties from a file, after it has asked the program
# for its tests: gtest_discover_tests cannot pass on lists.
include(GoogleTest)

function(openreg_register_tests program driver prefix filter timeout labels)
  string(MAKE_C_IDENTIFIER "${program}_${labels}" tests)
  gtest_discover_tests(
    ${program}
    TEST_FILTER "${filter}"
    TEST_PREFIX "${prefix}."
    TEST_LIST ${tests}
    NO_PRETTY_VALUES
    DISCOVERY_MODE PRE_TEST)
  set(properties_file "${CMAKE_CURRENT_BINARY_DIR}/${tests}_properties.cmake")
  configure_file("${PROJECT_SOURCE_DIR}/cmake/test_properties.cmake.in"
                 "${properties_file}" @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES
                                         "${properties_file}")
endfunction()
