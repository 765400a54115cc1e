#!/bin/bash
# try_packages.sh FOLDER: runs in a clean Debian system, as root: installs the packages of FOLDER,
# runs perftest and a C++ program as an ordinary user, with `verbatim run` and with verbatim-system,
# removes the packages, and checks that nothing is left. dev/fresh.sh creates the system and runs
# this in it.
set -euo pipefail
packages=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
log=$(mktemp)

fail() {
  cat "$log" >&2
  echo "packages: error: $*" >&2
  exit 1
}
apt() { DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends "$@" >"$log" 2>&1 || fail "apt-get $*"; }
# In a new network namespace, as the user: no other test has these addresses.
# shellcheck disable=SC2016  # The inner shell expands it.
as_user() { unshare --net -- sh -c 'ip link set lo up && exec su - tester -c "$1"' sh "$1"; }
# Checks a command's output, and that it exits with STATUS.
expect() {
  local status=0
  as_user "timeout 60 sh -c '$2'" >"$log" 2>&1 || status=$?
  [[ $status -eq $1 ]] || fail "$2: status $status, not $1"
}
says() { grep -q -e "$1" "$log" || fail "nobody says: $1"; }
# What runs of the packages.
ours() { pgrep -a '^verbatim' >"$log" || pgrep -af '^nbdkit.*verbatim' >"$log"; }
files() {
  find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /var/lib/apt -o -path /var/lib/dpkg \
    -o -path /var/cache -o -path /var/log -o -path /opt -o -path /home \) -prune -o -print | sort
}

echo "packages: what a user of RDMA has, without Verbatim"
apt update
apt install ibverbs-utils perftest infiniband-diags opensm g++ cmake make pkgconf iproute2 procps libnbd-bin
useradd --create-home --shell /bin/bash tester
apt autoremove
files >/opt/before
ldconfig -p | sort >/opt/libraries_before
expect 1 "verbatim --help || exit 1"

echo "packages: install"
apt install "$packages"/verbatim_*.deb "$packages"/libverbatim1_*.deb "$packages"/verbatim-dev_*.deb \
  "$packages"/verbatim-doc_*.deb
if ours; then fail "the packages have started these"; fi
for binary in /usr/bin/verbatim /usr/bin/verbatimd /usr/lib/verbatim/*.so* /usr/lib/libverbatim.so.1; do
  ldd "$binary" >"$log" 2>&1 || fail "ldd $binary"
  if grep "not found" "$log"; then fail "$binary lacks a library"; fi
done
expect 0 "verbatim devices; ls /usr/share/doc/verbatim"
if as_user "ibv_devices 2>&1" | grep verbatim; then fail "verbatim is before the system's libraries"; fi

echo "packages: the demo, as an ordinary user"
as_user "VERBATIM_BUILD=/usr $here/../../demo.sh" >"$log" 2>&1 || fail "demo.sh"
cat "$log"
says "on hosts of the fabric"

echo "packages: C++ programs, found with pkg-config and with CMake"
expect 0 "g++ -std=c++20 $here/program/own_program.cpp -o own_program \$(pkg-config --cflags --libs verbatim)"
expect 0 "cmake -S $here/program -B own -DCMAKE_CXX_STANDARD=20 && cmake --build own"
cat >/opt/pair.sh <<'END'
# pair.sh COMMAND...: runs COMMAND serve PORT on node a, COMMAND ADDRESS PORT on node b. VIA: a
# prefix of both.
$VIA_A "$@" serve 7000 &
server=$!
sleep 1
$VIA_B "$@" 127.0.0.2 7000 && wait $server
END
for path in auto wire; do
  for program in ./own_program own/own_program; do
    expect 0 "VERBATIM_PATH=$path VIA_A=\"verbatim run --node a --address 127.0.0.2 --\" \
      VIA_B=\"verbatim run --node b --address 127.0.0.3 --\" sh /opt/pair.sh $program"
    says "found: written from afar"
  done
done

echo "packages: services, and what runs when their packages are removed"
if compgen -G "$packages/verbatim-nbdkit_*.deb" >/dev/null; then
  apt install "$packages"/verbatim-nbdkit_*.deb
  iqn=iqn.2026-01.com.example:disk
  expect 0 "verbatim target up --node s --address 127.0.0.4 --iscsi $iqn --allow-any-initiator; verbatim rds up --node s
    verbatim disk iser://127.0.0.4/$iqn/0 --node t --address 127.0.0.5 --socket ./nbd >/dev/null 2>&1 &
    until [ -S nbd ]; do sleep 0.1; done; nbdinfo --size \"nbd+unix:///?socket=./nbd\""
  says 67108864
  ours || fail "the services have ended with their shell"
  apt remove verbatim-nbdkit
  apt remove verbatim
  for _ in $(seq 100); do ours || break; sleep 0.1; done
  if ours; then fail "these still run"; fi
  apt install "$packages"/verbatim_*.deb
fi

echo "packages: verbatim-system"
apt install "$packages"/verbatim-system_*.deb
expect 0 "ibv_devices"
says "verbatim0"
expect 0 "VIA_A=\"env VERBATIM_NODE=a VERBATIM_ADDRESS=127.0.0.2\" \
  VIA_B=\"env VERBATIM_NODE=b VERBATIM_ADDRESS=127.0.0.3\" sh /opt/pair.sh ./own_program"
says "found: written from afar"
echo "packages: a machine where no agent can run has no devices, as one without a card"
chmod -x /usr/bin/verbatimd
expect 0 "ibv_devices"
if grep verbatim0 "$log"; then fail "a device without an agent"; fi
expect 255 "ibv_devinfo"
chmod +x /usr/bin/verbatimd

echo "packages: removed, verbatim-system first"
apt remove verbatim-system
if as_user "ibv_devices 2>&1" | grep verbatim; then fail "verbatim-system has left its traces"; fi
apt remove verbatim libverbatim1 verbatim-dev verbatim-doc
apt autoremove
files >/opt/after
ldconfig -p | sort >/opt/libraries_after
diff /opt/before /opt/after >"$log" || fail "files have stayed, or have gone"
diff /opt/libraries_before /opt/libraries_after >"$log" || fail "the linker's cache is another"
userdel -f -r tester 2>/dev/null
echo "packages: all passed; nothing is left"
