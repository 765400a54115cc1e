#!/usr/bin/env bash
# build_module.sh BUILD [VERSION]: builds the module of kernel/ in BUILD/kernel-VERSION, without warnings, and prints that
# folder. VERSION is that of Linux; without it, any 6.1 whose headers are installed (77: none).
set -euo pipefail
root=$(cd "$(dirname "$0")/../../.." && pwd)
build=$(cd "$1" && pwd)
version=${2:-6.1.*-amd64}
headers=$(compgen -G "/usr/src/linux-headers-$version" | tail -n 1) || true
[[ -e $headers/Makefile ]] || { echo "skipped: linux-headers-$version is not installed; ./test.sh --peers installs it"; exit 77; }
folder=$build/kernel-${headers#/usr/src/linux-headers-}
mkdir -p "$folder"
make -s -C "$root/kernel" KERNEL="$headers" OUT="$folder" >"$folder/log" 2>&1 || { tail -n 20 "$folder/log"; exit 1; }
! grep -v '^Skipping BTF\|^warning: the compiler differs\|^  The kernel was built by\|^  You are using' "$folder/log" || exit 1
echo "$folder"
