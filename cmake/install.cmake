# Installs the modules' libraries and headers, the `paceline` program, and a package that find_package(paceline) finds.

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

# The package looks for exactly those outside libraries that the modules link: fmt::fmt comes from the package fmt.
set(packages "")
foreach(module IN LISTS modules)
  string(REPLACE "paceline_" "" folder ${module})
  if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/paceline/${folder})
    install(DIRECTORY paceline/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/paceline
            FILES_MATCHING PATTERN "*.hpp" PATTERN "*_test.hpp" EXCLUDE)
  endif()
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
