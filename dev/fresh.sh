#!/bin/bash
# fresh.sh user|root: in a minimal Debian 12 made with debootstrap, clones this repository and runs the
# README's two commands, as an ordinary user with sudo or as root. Needs root; nothing is left behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

who=${1-}
[[ $who == user || $who == root ]] || {
  echo "usage: dev/fresh.sh user|root" >&2
  exit 2
}
[[ $EUID -eq 0 ]] || {
  echo "fresh: error: making a Debian system needs root" >&2
  exit 1
}

# Mounts of its own, which go with the process.
if [[ ${VERBATIM_FRESH_INSIDE-} != 1 ]]; then
  VERBATIM_FRESH_INSIDE=1 exec unshare --mount --pid --fork --kill-child "$PWD/dev/fresh.sh" "$who"
fi

root=$(mktemp -d "${TMPDIR:-/tmp}/verbatim-fresh.XXXXXX")
chmod 755 "$root" # Else "/" of the new system is closed to its ordinary user.
cleanup() {
  # Never remove what is still mounted from outside.
  umount --recursive --lazy "$root/proc" "$root/sys" "$root/dev" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The first mirror of Debian that this machine itself uses.
# shellcheck disable=SC2016  # apt-get's own variable.
mirror=$(apt-get indextargets --format '$(SITE)' 'Created-By: Packages' 2>/dev/null |
  grep -m 1 '/debian/\?$') || {
  echo "fresh: error: apt knows no Debian mirror: run apt-get update" >&2
  exit 1
}
echo "fresh: debootstrap from $mirror"
debootstrap --variant=minbase bookworm "$root" "$mirror" >"$root.log" 2>&1 || {
  tail -n 20 "$root.log" >&2
  rm -f "$root.log"
  exit 1
}
rm -f "$root.log"

# The machine's own package sources, keys and proxies.
rm -f "$root/etc/apt/sources.list"
for place in sources.list sources.list.d preferences.d auth.conf.d apt.conf apt.conf.d keyrings; do
  if [[ -e /etc/apt/$place ]]; then cp -a "/etc/apt/$place" "$root/etc/apt/"; fi
done
mkdir -p "$root/usr/share/keyrings"
cp -a /usr/share/keyrings/. "$root/usr/share/keyrings/"
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys" 2>/dev/null || mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"

git clone --quiet --no-hardlinks "$PWD" "$root/opt/verbatim"

in_root() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
    chroot "$root" "$@"
}

if [[ $who == user ]]; then
  in_root sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive \
    apt-get -q install -y --no-install-recommends sudo' >"$root/sudo.log" 2>&1 || {
    tail -n 20 "$root/sudo.log" >&2
    exit 1
  }
  in_root useradd --create-home --shell /bin/bash tester
  echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
  in_root chown -R tester: /opt/verbatim
  run=(in_root su - tester -c)
else
  run=(in_root bash -c)
fi

for command in ./demo.sh ./test.sh; do
  echo "fresh: $command as $who"
  "${run[@]}" "cd /opt/verbatim && $command"
done
echo "fresh: both commands passed as $who"
