#!/bin/bash
# The source of a live migration of QEMU over RDMA: migrate.sh FOLDER rdma:HOST:PORT. The destination reads its monitor's
# commands from FOLDER/commands and answers into FOLDER/answers. In the end the script compares both memories.
set -euo pipefail
folder=$1 to=$2
readonly mebibytes=64
head -c $((32 << 20)) /dev/urandom >"$folder/contents"
save() { echo "pmemsave 0 $((mebibytes << 20)) \"$folder/$1\""; }

# The guest is stopped, so that its memory does not change after it was sent; the firmware writes below 1 MiB.
printf '%s\n' "migrate $to" "info migrate" "$(save source)" quit |
  qemu-system-x86_64 -machine pc,accel=tcg -m "$mebibytes" -nodefaults -nographic -S -monitor stdio \
    -device "loader,file=$folder/contents,addr=0x1000000,force-raw=on" >"$folder/said"
grep -o 'Migration status: .*' "$folder/said" || { cat "$folder/said" && exit 1; }
grep -q 'Migration status: completed' "$folder/said"

until grep -q 'VM status: paused (prelaunch)' "$folder/answers"; do # "(inmigrate)" before.
  echo 'info status' >"$folder/commands"
  sleep 0.1
done
printf '%s\n' "$(save destination)" quit >"$folder/commands"
until [[ $(stat -c %s "$folder/destination" 2>/dev/null) == $((mebibytes << 20)) ]]; do sleep 0.1; done
cmp "$folder/source" "$folder/destination"
cmp -n $((32 << 20)) -i 0:$((16 << 20)) "$folder/contents" "$folder/destination"
echo "the same memory"
