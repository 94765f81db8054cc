# Finds PMIx, the library by which a process talks to the mpirun or srun that started it: target PMIx::PMIx. Debian's is
# in a folder of its own.

find_library(PMIX_LIBRARY pmix PATH_SUFFIXES pmix2/lib)
get_filename_component(pmix_folder "${PMIX_LIBRARY}" REALPATH)
get_filename_component(pmix_folder "${pmix_folder}/../.." ABSOLUTE)
find_path(PMIX_INCLUDE_DIR pmix.h HINTS ${pmix_folder}/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(PMIx REQUIRED_VARS PMIX_LIBRARY PMIX_INCLUDE_DIR)

if(PMIx_FOUND AND NOT TARGET PMIx::PMIx)
  add_library(PMIx::PMIx UNKNOWN IMPORTED)
  set_target_properties(PMIx::PMIx PROPERTIES
    IMPORTED_LOCATION ${PMIX_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${PMIX_INCLUDE_DIR})
endif()
