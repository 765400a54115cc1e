#!/bin/bash
# Installs what is missing and builds Verbatim: a second run is quick. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'END'
Usage: ./setup.sh [test] [compat] [peers] [nfs] [targets] [lint] [nic] [package]

Installs the Debian packages that Verbatim needs (the list: dev/packages.txt), configures the release
preset and builds it: build/bin/verbatim, build/bin/verbatimd, build/lib/libibverbs.so.1.

  test   also installs what the test suite needs, and builds the tests
  compat also installs the programs that ./compat.sh runs
  peers  also installs what ./test.sh --peers makes its guest of
  nfs    also installs the NFS servers of the tests; their packages start services where systemd runs
  targets also installs targetcli and iSCSI's programs; their packages have services, too
  lint   also installs what .ci/run needs to check form
  nic    also builds the DPDK driver of the SmartNIC (Debian 12), which Open vSwitch loads
  package also makes Debian packages of what it has built: build/debs/*.deb

Packages are installed as root, or with sudo. Where it can do neither, it says what to install.

VERBATIM_WERROR=ON makes a compiler's warnings errors, as CI does.
END
}

say() { printf '%s\n' "setup: $*"; }
die() {
  printf '%s\n' "setup: error: $*" >&2
  exit 1
}

groups=(build demo)
for argument in "$@"; do
  case $argument in
    test | compat | peers | nfs | lint | nic | package | targets) groups+=("$argument") ;;
    -h | --help) usage && exit 0 ;;
    *) usage >&2 && exit 2 ;;
  esac
done
wants_tests=false
if [[ " ${groups[*]} " == *" test "* ]]; then
  wants_tests=true
  groups+=(compat)  # Part of the suite.
fi

# Sets `missing` to the packages of the chosen groups that are not installed.
find_missing() {
  local group package release own wanted=()
  own=$(sed -n 's/^VERSION_ID="\?\([0-9]*\).*/\1/p' /etc/os-release)
  while read -r group package release; do
    if [[ " ${groups[*]} " == *" $group "* && ${release:-$own} == "$own" ]]; then wanted+=("$package"); fi
  done < <(grep -v -e '^#' -e '^$' dev/packages.txt)
  local installed
  # dpkg-query fails for a package that it does not know: that one is missing, too.
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null || true)
  mapfile -t missing < <(
    for package in "${wanted[@]}"; do
      grep -qx "installed $package" <<<"$installed" || echo "$package"
    done | sort -u
  )
}

# Runs its arguments as root.
as_root() {
  if [[ $EUID -eq 0 ]]; then "$@"; else sudo "$@"; fi
}

can_be_root() {
  [[ $EUID -eq 0 ]] && return 0
  command -v sudo >/dev/null || return 1
  # With a terminal, sudo may ask for the password.
  sudo -n true 2>/dev/null || { [[ -t 0 && -t 2 ]] && sudo -v; }
}

install_missing() {
  say "installing ${#missing[@]} packages: ${missing[*]}"
  if ! can_be_root; then
    die "this needs root, and sudo is not available or wants a password. As root, run:
  apt-get update && apt-get install --no-install-recommends -y ${missing[*]}
and then ./setup.sh again."
  fi
  local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300)
  # Otherwise wireshark-common asks if ordinary users may capture packets.
  if [[ " ${missing[*]} " == *" tshark "* || " ${missing[*]} " == *" wireshark-common "* ]]; then
    echo "wireshark-common wireshark-common/install-setuid boolean false" |
      as_root debconf-set-selections
  fi
  local log
  log=$(mktemp)
  if ! as_root "${apt[@]}" update >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    say "warning: 'apt-get update' failed (above); trying with the package lists that are there"
  fi
  if ! as_root "${apt[@]}" install --no-install-recommends -y "${missing[@]}" >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    rm -f "$log"
    die "apt-get could not install the packages (above). Is there a network, and is this Debian 12 or 13?"
  fi
  rm -f "$log"
}

build() {
  if [[ -f build/CMakeCache.txt ]] &&
    ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$PWD" build/CMakeCache.txt; then
    die "build/ was configured for another folder (has the tree been moved?). Remove it: rm -r build"
  fi
  if [[ -d build && ! -w build ]]; then
    die "build/ belongs to $(stat -c %U build): run this as that user, or remove build/"
  fi
  local log=build/setup.log
  mkdir -p build
  if [[ ! -f build/build.ninja ]] || { $wants_tests && grep -qx 'BUILD_TESTING:BOOL=OFF' \
    build/CMakeCache.txt; }; then
    say "configuring (release preset)"
    if ! cmake --preset release -DBUILD_TESTING="$($wants_tests && echo ON || echo OFF)" \
      -DVERBATIM_WERROR="${VERBATIM_WERROR:-OFF}" >"$log" 2>&1; then
      tail -n 30 "$log" >&2
      die "CMake failed (above)"
    fi
  fi
  if [[ " ${groups[*]} " == *" nic "* ]]; then
    dev/dpdk-headers.sh build/dpdk-headers || die "the DPDK driver cannot be built (above)"
    cmake -S . -B build -DVERBATIM_DPDK_HEADERS="$PWD/build/dpdk-headers" >"$log" 2>&1 || {
      tail -n 30 "$log" >&2
      die "CMake failed (above)"
    }
  fi
  # Measured: half an hour on two.
  say "building with $(nproc) processors: some $((60 / $(nproc) + 1)) minutes the first time"
  # Ninja's own progress, on one line of a terminal.
  NINJA_STATUS='setup: [%f/%t] ' cmake --build --preset release ||
    die "the build failed (above)"
}

# Makes the packages of cmake/packages.cmake from the build.
package() {
  local log=build/package.log
  if ninja -C build -t targets all | grep -q '^docs:'; then ninja -C build docs >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "Doxygen failed (above)"
  }; fi
  rm -rf build/debs
  if ! (cd build && cpack -B debs) >"$log" 2>&1; then
    tail -n 30 "$log" >&2
    die "CPack failed (above)"
  fi
  rm -rf build/debs/_CPack_Packages
  say "packages:" build/debs/*.deb
}

if ! command -v dpkg-query >/dev/null; then
  die "this is not a Debian system. Install what corresponds to dev/packages.txt, then:
  cmake --preset release && cmake --build --preset release"
fi
missing=()
find_missing
if [[ ${#missing[@]} -gt 0 ]]; then install_missing; fi
build
say "ready: build/bin/verbatim, build/bin/verbatimd, build/lib/libibverbs.so.1"
if [[ " ${groups[*]} " == *" package "* ]]; then package; fi
