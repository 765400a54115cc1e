#!/bin/bash
# fresh.sh 12|13 user|root|arm64|package [FOLDER]: in a minimal Debian of that release, made with debootstrap, clones this
# repository and runs the README's two commands, as an ordinary user with sudo or as root. arm64: builds everything for
# aarch64 with the cross compiler, and runs the unit tests of the parts of engines and regions under QEMU's user
# emulation. package: makes the Debian packages (or takes those of FOLDER), and tries them in a second system that has
# nothing else (tests/package/try_packages.sh). Needs root; removes everything in the end.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

declare -A codenames=([12]=bookworm [13]=trixie)
codename=${codenames[${1:-none}]-}
who=${2-}
debs=${3-} # Existing packages.
[[ -n $codename && $who =~ ^(user|root|arm64|package)$ ]] || {
  echo "usage: dev/fresh.sh 12|13 user|root|arm64|package [FOLDER]" >&2
  exit 2
}
[[ $EUID -eq 0 ]] || {
  echo "fresh: error: making a Debian system needs root" >&2
  exit 1
}

# A new mount namespace: its mounts end with the process.
if [[ ${VERBATIM_FRESH_INSIDE-} != 1 ]]; then
  VERBATIM_FRESH_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$PWD/dev/fresh.sh" "$@"
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/verbatim-fresh.XXXXXX")
first=$root
second=$root.second # Only package has it.
chmod 755 "$root" # Otherwise the new system's ordinary user cannot access "/".
cleanup() {
  # Never remove a folder while something from outside is still mounted in it.
  local system
  for system in "$first" "$second"; do
    umount --recursive --lazy "$system"/{proc,sys,dev,var/cache/ccache} 2>/dev/null || true
    rm -rf --one-file-system "$system"
  done
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# quietly COMMAND...: shows its output only if it fails.
quietly() {
  "$@" >"$root.log" 2>&1 || {
    tail -n 20 "$root.log" >&2
    rm -f "$root.log"
    return 1
  }
  rm -f "$root.log"
}

# site PATTERN: prints this machine's first mirror whose address ends with PATTERN.
site() {
  # shellcheck disable=SC2016  # apt-get's own variable.
  apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null | grep -m 1 "/$1/\?\$"
}

mirror=$(site debian) || {
  echo "fresh: error: apt knows no Debian mirror: run apt-get update" >&2
  exit 1
}
echo "fresh: debootstrap of $codename from $mirror"
quietly debootstrap --variant=minbase "$codename" "$root" "$mirror"

# The machine's keys and proxies, and its package sources if it has the same release, else the same mirrors with
# this release.
places=(auth.conf.d apt.conf apt.conf.d keyrings)
rm -f "$root/etc/apt/sources.list"
if grep -qx "VERSION_CODENAME=$codename" /etc/os-release; then
  places+=(sources.list sources.list.d preferences.d)
else
  {
    echo "deb $mirror $codename main"
    echo "deb $mirror $codename-updates main"
    if security=$(site debian-security); then echo "deb $security $codename-security main"; fi
  } >"$root/etc/apt/sources.list"
fi
for place in "${places[@]}"; do
  if [[ -e /etc/apt/$place ]]; then cp -a "/etc/apt/$place" "$root/etc/apt/"; fi
done
mkdir -p "$root/usr/share/keyrings"
cp -an /usr/share/keyrings/. "$root/usr/share/keyrings/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

# The system is thrown away, so it need not be synced to the disk.
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"

mount_into() {
  mount -t proc proc "$1/proc"
  mount -t sysfs sysfs "$1/sys" 2>/dev/null || mount --rbind /sys "$1/sys"
  mount --rbind /dev "$1/dev"
  mount --make-rslave "$1/dev"
}

if [[ $who == package ]]; then
  cp -a "$first" "$second"
  mount_into "$second"
fi
mount_into "$first"
git clone --quiet --no-hardlinks "$PWD" "$root/opt/verbatim"

more_variables=()
in_root() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive "${more_variables[@]}" chroot "$root" "$@"
}

install() {
  quietly in_root sh -c "apt-get -q update && apt-get -q install -y --no-install-recommends $*"
}

commands=(./demo.sh ./test.sh)
run=(in_root bash -c)
case $who in
  user)
    install sudo
    in_root useradd --create-home --shell /bin/bash tester
    echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
    in_root chown -R tester: /opt/verbatim
    run=(in_root su - tester -c)
    ;;
  arm64)
    in_root dpkg --add-architecture arm64
    mapfile -t packages < <(awk '$1 == "arm64" { print $2 }' dev/packages.txt)
    install "${packages[@]}"
    commands=("cmake --preset aarch64" "cmake --build --preset aarch64" "ctest --preset aarch64")
    ;;
  package)
    commands=("nice ./setup.sh package")
    if [[ -n $debs ]]; then commands=(); fi
    # Uses the machine's compiler cache, if there is one.
    cache=${CCACHE_DIR:-${HOME-}/.cache/ccache}
    if [[ -z $debs && -d $cache ]]; then
      install ccache
      mkdir -p "$root/var/cache/ccache"
      mount --bind "$cache" "$root/var/cache/ccache"
      more_variables=(CCACHE_DIR=/var/cache/ccache CCACHE_BASEDIR=/ CCACHE_NOHASHDIR=1)
    fi
    ;;
esac

for command in "${commands[@]}"; do
  echo "fresh: $command as $who"
  "${run[@]}" "cd /opt/verbatim && $command"
done

if [[ $who == package ]]; then
  mkdir "$second/opt/verbatim"
  cp -a "$first"/opt/verbatim/{demo.sh,tests} "$second/opt/verbatim/"
  cp -a "${debs:-$first/opt/verbatim/build/debs}" "$second/opt/verbatim/debs"
  root=$second
  in_root /opt/verbatim/tests/package/try_packages.sh /opt/verbatim/debs
  # The example CI jobs, with the packages in their cache.
  for job in examples/ci/*.yml; do
    echo "fresh: the commands of $job"
    python3 -B tests/package/ci_steps.py "$job" >"$second/opt/job.sh"
    quietly in_root sh -c "cd /opt/verbatim && bash /opt/job.sh"
    in_root sh -c "userdel -f -r tester 2>/dev/null; apt-get -q -y purge 'verbatim*'" >/dev/null
  done
fi
echo "fresh: all commands passed in Debian $1, as $who"
