#!/bin/bash
# In a virtual machine whose disk is /dev/vda: vhost_user_guest.sh SHARE. SHARE/pattern is to be written; files in
# SHARE tell the test how far this is.
set -euo pipefail
share=$1
bytes=$(stat -c %s "$share/pattern")
readonly parts=4 # Written at a time.

wait_for() { until [[ -e $1 ]]; do sleep 0.1; done; }

write_part() { # NUMBER
  local blocks=$((bytes / 4096 / parts))
  dd if="$share/pattern" of=/dev/vda bs=4096 count=$blocks skip=$(($1 * blocks)) seek=$(($1 * blocks)) oflag=direct \
    conv=fsync,notrunc status=none
}

write_all() {
  local part jobs=()
  for ((part = 0; part < parts; ++part)); do
    write_part $part &
    jobs+=($!)
  done
  for part in "${jobs[@]}"; do wait "$part"; done
}

is_there() {
  blockdev --flushbufs /dev/vda
  cmp -n "$bytes" "$share/pattern" /dev/vda
}

modprobe virtio_blk
wait_for /dev/vda
{
  blockdev --getsize64 /dev/vda
  blockdev --getss /dev/vda
  cat /sys/block/vda/serial
} >"$share/facts"
write_all
is_there
touch "$share/written"
wait_for "$share/seen"

# The backend is killed meanwhile; each write is done once at least, and none fails.
blkdiscard --zeroout /dev/vda
while [[ ! -e $share/back ]]; do
  write_all
  touch "$share/load"
done
write_all
is_there
touch "$share/outlived"
wait_for "$share/seen-again"

blkdiscard --zeroout --offset 0 --length 1M /dev/vda
blkdiscard --offset 1M --length 1M /dev/vda
blockdev --flushbufs /dev/vda
cmp -n 1048576 /dev/zero /dev/vda
if dmesg | grep -E 'vda.*error|I/O error'; then exit 1; fi
