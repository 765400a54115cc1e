#!/usr/bin/env bash
# dpdk-headers.sh FOLDER: brings the four headers that a DPDK driver needs and that libdpdk-dev lacks, as Debian builds DPDK
# without enable_driver_sdk: from Debian's source package of exactly the DPDK that is installed. Needs no root, leaves
# apt's lists and sources alone, and keeps nothing but the headers (BSD-3-Clause), which are not part of this tree.
set -euo pipefail
folder=${1:?usage: dpdk-headers.sh FOLDER}
die() {
  printf 'dpdk-headers: %s\n' "$*" >&2
  exit 1
}
version=$(dpkg-query -W -f '${source:Version}' libdpdk-dev 2>/dev/null || true)
[[ -n $version ]] || die "libdpdk-dev is not installed: apt-get install libdpdk-dev"
[[ $version == 22.11.* ]] || die "the driver is written for DPDK 22.11 (Debian 12); this is $version"
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [[ -s $folder/version && $(<"$folder/version") == "$version" ]]; then exit 0; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
# The sources of this machine's own entries for Debian.
shopt -s nullglob
for each in /etc/apt/sources.list.d/*.sources; do
  if grep -q debian-archive-keyring "$each"; then sed 's/^Types:.*/Types: deb-src/' "$each"; echo; fi
done >"$work/src.sources"
cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | grep '^deb .*debian' |
  grep -E '/debian(-security)?/? ' | sed 's/^deb /deb-src /' >"$work/src.list" || true
list=$work/src.sources
[[ -s $list ]] || list=$work/src.list
apt=(apt-get -qq -o "Dir::Etc::SourceList=$list" -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$work/lists"
  -o "Dir::Cache=$work/cache" -o "APT::Sandbox::User=$(id -un)")
"${apt[@]}" update
(cd "$work" && "${apt[@]}" source --download-only "dpdk=$version" >"$work/log" 2>&1) ||
  die "no source of dpdk $version to be had: $(tail -1 "$work/log")"
tar -C "$work" --strip-components=1 -xf "$work"/dpdk_*.orig.tar.xz --wildcards '*/lib/ethdev/ethdev_driver.h' \
  '*/lib/ethdev/ethdev_vdev.h' '*/drivers/bus/vdev/bus_vdev_driver.h' '*/lib/eal/include/dev_driver.h'
cp "$work"/lib/ethdev/ethdev_{driver,vdev}.h "$work/drivers/bus/vdev/bus_vdev_driver.h" \
  "$work/lib/eal/include/dev_driver.h" "$folder/"
echo "$version" >"$folder/version"
