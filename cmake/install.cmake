# What `cmake --install` installs, besides the install commands of each folder. The components are those of the packages:
#
#   runtime      commands, agent, drop-ins (in lib/verbatim, a private folder), manual pages, completion
#   isal         a copy of ISA-L beside the drop-ins, so that the prefix also works on machines without it
#   library      libverbatim.so.1 and libinfinity.so.0
#   development  headers, find_package's and pkg-config's files
#   doc          documentation, examples
include(CMakePackageConfigHelpers)
set(doc_folder ${CMAKE_INSTALL_DATADIR}/doc/verbatim)
set(cmake_folder ${CMAKE_INSTALL_LIBDIR}/cmake/verbatim)

# verbatim_install_library(TARGET NAME STANDARD): installs a C++ library, `verbatim::NAME` for find_package, with the
# headers of include/NAME, which need C++STANDARD.
function(verbatim_install_library target name standard)
  # The installed library contains no path of this machine: headers are in the prefix, which may be moved, and the linker
  # finds the libraries.
  set(libraries "")
  get_target_property(linked ${target} INTERFACE_LINK_LIBRARIES)
  foreach(library IN LISTS linked)
    if(IS_ABSOLUTE "${library}")
      get_filename_component(short_name ${library} NAME_WE)
      string(REGEX REPLACE "^lib" "" short_name ${short_name})
      list(APPEND libraries $<BUILD_INTERFACE:${library}> $<INSTALL_INTERFACE:${short_name}>)
    else()
      list(APPEND libraries ${library})
    endif()
  endforeach()
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${name}
    INTERFACE_LINK_LIBRARIES "${libraries}"
    INTERFACE_COMPILE_FEATURES cxx_std_${standard}
    INTERFACE_INCLUDE_DIRECTORIES
      "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>;$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  add_library(verbatim::${name} ALIAS ${target})
  install(TARGETS ${target} EXPORT verbatimTargets
          LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT development)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/include/${name} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
          COMPONENT development FILES_MATCHING PATTERN "*.h")
  # pkg-config knows its file's folder, so the prefix may be moved.
  file(RELATIVE_PATH to_prefix /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
  string(REGEX REPLACE "/$" "" PREFIX_FROM_FILE ${to_prefix})
  configure_file(${CMAKE_SOURCE_DIR}/cmake/${name}.pc.in ${CMAKE_BINARY_DIR}/cmake/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
          COMPONENT development)
endfunction()

verbatim_install_library(verbatim_api verbatim 20)
if(TARGET verbatim_infinity)
  verbatim_install_library(verbatim_infinity infinity 11)
endif()
install(EXPORT verbatimTargets NAMESPACE verbatim:: DESTINATION ${cmake_folder} COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/verbatimConfig.cmake.in
                              ${CMAKE_BINARY_DIR}/cmake/verbatimConfig.cmake
                              INSTALL_DESTINATION ${cmake_folder} NO_SET_AND_CHECK_MACRO)
# Below 1.0, a new minor version may change the interface.
write_basic_package_version_file(${CMAKE_BINARY_DIR}/cmake/verbatimConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/cmake/verbatimConfig.cmake
              ${CMAKE_BINARY_DIR}/cmake/verbatimConfigVersion.cmake
        DESTINATION ${cmake_folder} COMPONENT development)

# Manual pages and completion, with the file names that the system expects.
file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/docs/man/*.[178])
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/cmake/man)
foreach(page ${pages})
  get_filename_component(name ${page} NAME)
  string(REGEX MATCH "[0-9]$" section ${name})
  set(zipped ${CMAKE_BINARY_DIR}/cmake/man/${name}.gz)
  install(CODE "execute_process(COMMAND gzip -9nc ${page} OUTPUT_FILE ${zipped} COMMAND_ERROR_IS_FATAL ANY)"
          COMPONENT runtime)
  install(FILES ${zipped} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT runtime)
endforeach()
# install_completion(FILE FOLDER [NAME])
function(install_completion file folder)
  if(EXISTS ${CMAKE_SOURCE_DIR}/completion/${file})
    install(FILES ${CMAKE_SOURCE_DIR}/completion/${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder}
            RENAME ${ARGV2} COMPONENT runtime)
  endif()
endfunction()
install_completion(verbatim.bash bash-completion/completions verbatim)
install_completion(_verbatim zsh/vendor-completions _verbatim)
install_completion(verbatim.fish fish/vendor_completions.d verbatim.fish)

# The units, generated for the prefix of cmake --install or CPack.
foreach(unit ${VERBATIM_UNITS})
  set(unit ${unit}.service)
  get_filename_component(kind ${unit} DIRECTORY)
  install(CODE "
    file(READ \"${CMAKE_BINARY_DIR}/systemd/${unit}\" text)
    string(REPLACE \"${CMAKE_INSTALL_FULL_BINDIR}/\" \"\${CMAKE_INSTALL_PREFIX}/bin/\" text \"\${text}\")
    file(WRITE \"${CMAKE_BINARY_DIR}/cmake/${unit}\" \"\${text}\")" COMPONENT runtime)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/${unit} DESTINATION lib/systemd/${kind} COMPONENT runtime)
endforeach()

install(FILES README.md SECURITY.md ARCHITECTURE.md DESTINATION ${doc_folder} COMPONENT doc)
install(DIRECTORY docs/ DESTINATION ${doc_folder}/docs COMPONENT doc
        FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "man" EXCLUDE)
if(EXISTS ${CMAKE_SOURCE_DIR}/examples)
  install(DIRECTORY examples DESTINATION ${doc_folder} COMPONENT doc)
endif()
# The reference, if the target `docs` has been built.
install(DIRECTORY ${CMAKE_BINARY_DIR}/docs/html DESTINATION ${doc_folder} COMPONENT doc OPTIONAL)
