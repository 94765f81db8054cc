# Installs the build BUILD into a fresh prefix, then configures, builds and runs the project beside this file against it.

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

set(work ${BUILD}/tests/install)
file(REMOVE_RECURSE ${work})

# The outside project finds the new prefix, and the dependencies where this build found them.
list(JOIN PREFIX_PATH ":" given)
set(ENV{CMAKE_PREFIX_PATH} "${work}/prefix:${given}:$ENV{CMAKE_PREFIX_PATH}")

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${work}/prefix)
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${work}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${COMPILER})
run(${CMAKE_COMMAND} --build ${work}/build)
run(${work}/build/outside)
if(EXISTS ${work}/build/outside_train)
  run(${work}/prefix/bin/paceline run -n 2 ${work}/build/outside_train)
endif()
