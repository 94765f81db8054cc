# Installs the modules' libraries and the public headers, the `paceline` program, and a package that find_package(paceline) finds.

include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY PACELINE_MODULES)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/paceline)

set_target_properties(paceline_options PROPERTIES EXPORT_NAME options)
install(TARGETS paceline_options ${modules} EXPORT paceline-targets)
install(EXPORT paceline-targets NAMESPACE paceline:: DESTINATION ${package_dir})
install(TARGETS paceline)
if(PACELINE_TORCH)
  install(TARGETS paceline-train)
endif()

# What outside programs include: the table in docs/guide.md (tests/checks/public_headers.py compares the two). They are
# installed with the headers they include; all others are private.
set(public_headers
    paceline/collective/bytes.hpp
    paceline/collective/communicator.hpp
    paceline/fabric/run_ranks.hpp
    paceline/fabric/sim/run_sim.hpp
    paceline/launch/join.hpp)
if(PACELINE_TORCH)
  list(APPEND public_headers
       paceline/torch/data_parallel.hpp
       paceline/torch/lamb.hpp
       paceline/torch/lars.hpp
       paceline/torch/shard.hpp
       paceline/torch/sync_batch_norm.hpp
       paceline/torch/table_embedding.hpp
       paceline/torch/table_files.hpp
       paceline/torch/tensor_collectives.hpp)
endif()
set(waiting ${public_headers})
set(installed "")
while(waiting)
  list(POP_FRONT waiting header)
  list(APPEND installed ${header})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${header})
  file(STRINGS ${header} includes REGEX "^#include \"paceline/")
  list(TRANSFORM includes REPLACE "^#include \"([^\"]+)\".*" "\\1")
  list(APPEND waiting ${includes})
  list(REMOVE_DUPLICATES waiting)
  list(REMOVE_ITEM waiting ${installed})
endwhile()

# The package looks for exactly those outside libraries that the modules link: fmt::fmt comes from the package fmt.
set(packages "")
foreach(module IN LISTS modules)
  get_target_property(libraries ${module} INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS libraries)
    if(library MATCHES "^([A-Za-z0-9_]+)::")
      list(APPEND packages ${CMAKE_MATCH_1})
    endif()
  endforeach()
endforeach()
list(REMOVE_DUPLICATES packages)
list(SORT packages)
list(TRANSFORM packages REPLACE "(.+)" "find_dependency(\\1)")
if(PACELINE_TORCH)
  list(APPEND packages "find_dependency(Torch)")
endif()
list(JOIN packages "\n" PACELINE_FIND_DEPENDENCIES)

configure_package_config_file(cmake/paceline-config.cmake.in ${PROJECT_BINARY_DIR}/paceline-config.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may change the API.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/paceline-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/paceline-config.cmake ${PROJECT_BINARY_DIR}/paceline-config-version.cmake
              cmake/FindPMIx.cmake
        DESTINATION ${package_dir})
