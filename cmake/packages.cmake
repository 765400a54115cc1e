# The Debian packages, made by `./setup.sh package`: one for each component of install.cmake except isal, which Debian has.
#
#   runtime -> verbatim, library -> libverbatim1, development -> verbatim-dev, doc -> verbatim-doc, system -> verbatim-system,
#   nic -> verbatim-nic, where the DPDK driver is built; nbdkit -> verbatim-nbdkit, where nbdkit's plugin is
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME verbatim)
set(CPACK_PACKAGE_VENDOR Verbatim)
set(CPACK_PACKAGE_CONTACT "Verbatim project <project@verbatim.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
                                                WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION net)

# debian_package(COMPONENT NAME SUMMARY DESCRIPTION [VARIABLE VALUE]...): VARIABLE without CPACK_DEBIAN_COMPONENT_.
function(debian_package component name summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_COMPONENTS_ALL ${CPACK_COMPONENTS_ALL} ${component} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}" PARENT_SCOPE)
  while(ARGN)
    list(POP_FRONT ARGN variable value)
    set(CPACK_DEBIAN_${upper}_${variable} "${value}" PARENT_SCOPE)
  endwhile()
  # The fields that Debian requires of each package.
  install(FILES ${CMAKE_SOURCE_DIR}/cmake/debian/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(FILES ${CMAKE_BINARY_DIR}/cmake/changelog.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${name}
          COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

string(TIMESTAMP changelog_date "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(cmake/debian/changelog.in ${CMAKE_BINARY_DIR}/cmake/changelog @ONLY)
execute_process(COMMAND gzip -9n -k -f changelog WORKING_DIRECTORY ${CMAKE_BINARY_DIR}/cmake COMMAND_ERROR_IS_FATAL ANY)
set(same_version "(= ${PROJECT_VERSION})")

debian_package(runtime verbatim "RDMA without RDMA hardware: commands and drop-in libraries"
"Runs unmodified programs that were written for InfiniBand, RoCE or iWARP on
any Linux machine, without a network card for RDMA, a kernel module or root:
verbatim run -- PROGRAM. The libraries lie in a private folder, so all other
programs go on using the system's."
  PACKAGE_SUGGESTS "ibverbs-utils, infiniband-diags, opensm, perftest, rdmacm-utils, targetcli-fb, verbatim-doc, verbatim-nbdkit"
  PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/prerm)

debian_package(library libverbatim1 "RDMA in C++: shared library"
"A C++20 library over libibverbs and librdmacm: queue pairs, regions and
requests as objects, coroutines, and errors that say what happened. It runs on
RDMA network cards, and on Verbatim without any."
  PACKAGE_SECTION libs PACKAGE_RECOMMENDS verbatim)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/triggers
                                               ${CMAKE_BINARY_DIR}/cmake/shlibs)
# The dependency that dpkg-shlibdeps adds to a program that is linked with them.
set(shlibs "")
foreach(library verbatim infinity)
  if(TARGET verbatim::${library})
    get_target_property(soversion verbatim::${library} SOVERSION)
    string(APPEND shlibs "lib${library} ${soversion} libverbatim1 (>= ${PROJECT_VERSION})\n")
  endif()
endforeach()
file(WRITE ${CMAKE_BINARY_DIR}/cmake/shlibs ${shlibs})

debian_package(development verbatim-dev "RDMA in C++: headers"
"Headers of the C++ library, and the files by which CMake (find_package) and
pkg-config find it."
  PACKAGE_SECTION libdevel
  PACKAGE_DEPENDS "libverbatim1 ${same_version}, libibverbs-dev, librdmacm-dev"
  PACKAGE_SUGGESTS "verbatim, verbatim-doc" PACKAGE_SHLIBDEPS OFF)

debian_package(doc verbatim-doc "RDMA without RDMA hardware: documentation and examples"
"The documentation of Verbatim and of its C++ library, and example programs."
  PACKAGE_SECTION doc PACKAGE_ARCHITECTURE all PACKAGE_SHLIBDEPS OFF)

debian_package(system verbatim-system "RDMA without RDMA hardware: for all programs of the machine"
"Puts Verbatim's libibverbs and librdmacm before the system's, so that every
program uses them without verbatim run. The system's libraries stay where they
are, and serve again when this package is removed. RDMA network cards of this
machine cannot be used meanwhile."
  PACKAGE_ARCHITECTURE all PACKAGE_DEPENDS "verbatim ${same_version}" PACKAGE_SHLIBDEPS OFF
  PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/triggers)
if(TARGET rte_net_verbatim)
  debian_package(nic verbatim-nic "SmartNIC without hardware: DPDK driver"
"The DPDK driver by which Open vSwitch offloads its flows into a card of
'verbatim nic'. It is named to programs by its path, and loaded by none that
does not ask for it."
    PACKAGE_DEPENDS "verbatim ${same_version}" PACKAGE_RECOMMENDS "openvswitch-switch-dpdk")
endif()
if(TARGET nbdkit_verbatim)
  debian_package(nbdkit verbatim-nbdkit "RDMA without RDMA hardware: disks for programs that know NBD"
"The plugin by which 'verbatim disk' serves a disk of an iSER, SRP or NVMe
over Fabrics target by nbdkit, to qemu-img, nbdcopy, fio and other programs."
    PACKAGE_DEPENDS "verbatim ${same_version}, nbdkit" PACKAGE_SUGGESTS "libnbd-bin, qemu-utils, fio"
    PACKAGE_CONTROL_EXTRA ${CMAKE_SOURCE_DIR}/cmake/debian/nbdkit/prerm)
endif()
# A link, because dpkg keeps a file of /etc when its package is removed, but not a link. Its name sorts before those of
# the files that name the system's folders: the loader takes a library from the first folder that has it.
install(FILES cmake/debian/system/lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides
        RENAME verbatim-system COMPONENT system EXCLUDE_FROM_ALL)
install(FILES cmake/debian/system/ld.so.conf DESTINATION lib/verbatim-system COMPONENT system EXCLUDE_FROM_ALL)
file(CREATE_LINK /usr/lib/verbatim-system/ld.so.conf ${CMAKE_BINARY_DIR}/cmake/00-verbatim.conf SYMBOLIC)
install(FILES ${CMAKE_BINARY_DIR}/cmake/00-verbatim.conf DESTINATION /etc/ld.so.conf.d
        COMPONENT system EXCLUDE_FROM_ALL)

include(CPack)
