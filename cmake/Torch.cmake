# PyTorch, as imported targets: Torch::c10, Torch::cpu (ATen) and Torch::python.
#
# The wheel's own package (find_package(Torch)) brings CUDA and protobuf logic
# that a CPU build has no use for and sets global compile flags; three libraries
# and two include paths are all that is needed. The version is pyproject.toml's:
# the backend is built for PyTorch's C++ ABI, which changes with every release.
set(pyproject "${PROJECT_SOURCE_DIR}/pyproject.toml")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${pyproject}")
file(STRINGS "${pyproject}" torch_requirement REGEX "^dependencies = ")
string(REGEX MATCH "torch==([0-9.]+)" torch_requirement "${torch_requirement}")
set(OPENREG_TORCH_VERSION "${CMAKE_MATCH_1}")
if(NOT OPENREG_TORCH_VERSION)
  message(FATAL_ERROR "Cannot read the version of torch from ${pyproject}")
endif()

find_package(Python 3.11 REQUIRED COMPONENTS Interpreter Development.Module)
# Where torch is and which one, without the seconds that importing it takes.
execute_process(
  COMMAND
    "${Python_EXECUTABLE}" -c
    "import importlib.metadata as m, importlib.util as u
print(u.find_spec('torch').submodule_search_locations[0], m.version('torch'))"
  OUTPUT_VARIABLE torch_found
  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT torch_found MATCHES "^(.+) ([0-9.]+)[^ ]*$")
  message(
    FATAL_ERROR "${Python_EXECUTABLE} has no torch; run 'make setup', or "
                "install torch==${OPENREG_TORCH_VERSION} into it, or build "
                "the driver alone with -DOPENREG_BUILD_BACKEND=OFF")
endif()
set(OPENREG_TORCH_DIR "${CMAKE_MATCH_1}")
if(NOT CMAKE_MATCH_2 VERSION_EQUAL OPENREG_TORCH_VERSION)
  message(FATAL_ERROR "torch is ${CMAKE_MATCH_2} in ${Python_EXECUTABLE}; "
                      "OpenReg is built for ${OPENREG_TORCH_VERSION}")
endif()

# openreg_import_torch(<name> <library> [<dependency>...])
#
# Makes the target Torch::<name> of torch/lib/lib<library>.so. Imported targets'
# headers count as the system's, so our warnings leave them alone.
function(openreg_import_torch name library)
  set(include_dir "${OPENREG_TORCH_DIR}/include")
  add_library(Torch::${name} SHARED IMPORTED)
  set_target_properties(
    Torch::${name}
    PROPERTIES
      IMPORTED_LOCATION "${OPENREG_TORCH_DIR}/lib/lib${library}.so"
      INTERFACE_INCLUDE_DIRECTORIES
      "${include_dir};${include_dir}/torch/csrc/api/include"
      INTERFACE_LINK_LIBRARIES "${ARGN}")
endfunction()

openreg_import_torch(c10 c10)
openreg_import_torch(cpu torch_cpu Torch::c10)
openreg_import_torch(python torch_python Torch::cpu)

# openreg_set_install_rpath(<target>...)
#
# Makes libraries that are installed into lib/ find each other and the driver
# there. In a wheel they also find PyTorch's, which lie beside the package, so
# that a C++ program needs no path of its own. All paths are relative.
function(openreg_set_install_rpath)
  set(rpath "$ORIGIN")
  if(SKBUILD)
    list(APPEND rpath "$ORIGIN/../../torch/lib")
  endif()
  set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH "${rpath}")
endfunction()
