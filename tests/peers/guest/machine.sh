#!/bin/bash
# Runs a script under Debian's kernel with this machine's own files: machine.sh FOLDER SHARE SCRIPT [ARGUMENT...].
# The guest's root is this machine's, read-only by 9p under a RAM overlay, so every installed program runs there; SHARE is
# the same folder in both, writable. FOLDER keeps the kernel, which is downloaded once and not installed. The guest's
# console is the standard output, the script's status this one's (124: it was ended). SECONDS_MAX, MEMORY, and QEMU_OPTIONS,
# words that QEMU has in addition: see below.
set -euo pipefail
[[ $# -ge 3 ]] || { echo "usage: machine.sh FOLDER SHARE SCRIPT [ARGUMENT...]" >&2 && exit 2; }
mkdir -p "$1" "$2"
folder=$(realpath "$1") share=$(realpath "$2")
shift 2

# To reach its root. The rest is loaded from there.
readonly modules=(virtio_pci 9pnet_virtio 9p overlay virtio_rng)

die() {
  echo "machine: error: $*" >&2
  exit 1
}

unpack_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ {print $2; exit}')
  [[ -n $package ]] || die "no linux-image package is known: run apt-get update"
  rm -rf "$folder/kernel" && mkdir "$folder/kernel"
  (cd "$folder" && apt-get download -qq "$package") || die "$package cannot be downloaded"
  dpkg -x "$folder/$package"_*.deb "$folder/kernel"
  rm -f "$folder/$package"_*.deb
  depmod -b "$folder/kernel" "$(ls "$folder/kernel/lib/modules")"
}

# Its only program mounts the root and goes there.
pack_initramfs() {
  local root version module file applet
  root=$(mktemp -d) version=$(ls "$folder/kernel/lib/modules")
  mkdir -p "$root"/{bin,proc,sys,dev,lower,upper,new}
  cp /bin/busybox "$root/bin/"
  for applet in sh mount mkdir ln insmod sed chroot; do ln -s busybox "$root/bin/$applet"; done
  for module in "${modules[@]}"; do
    modprobe -d "$folder/kernel" -S "$version" --show-depends "$module" | awk '/^insmod/ {print $2}'
  done | awk '!seen[$0]++' >"$root/order"
  mkdir "$root/modules"
  while read -r file; do cp "$file" "$root/modules/"; done <"$root/order"
  sed -i 's|.*/||' "$root/order"
  cat >"$root/init" <<'INIT'
#!/bin/sh
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
while read -r module; do insmod /modules/$module; done </order
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose root /lower
mount -t tmpfs upper /upper; mkdir /upper/u /upper/w
mount -t overlay -o lowerdir=/lower,upperdir=/upper/u,workdir=/upper/w overlay /new
for folder in proc sys dev; do mount --move /$folder /new/$folder; done
mkdir -p /new/dev/shm /new/dev/pts /new/lib/modules
ln -s /proc/self/fd /new/dev/fd
for folder in run dev/shm; do mount -t tmpfs tmpfs /new/$folder; done
mount -t devpts devpts /new/dev/pts
share=$(sed 's/.* share=//; s/ .*//' /new/proc/cmdline) kernel=$(sed 's/.* kernel=//; s/ .*//' /new/proc/cmdline)
mkdir -p "/new$share"; mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 share "/new$share"
mount --bind "/lower$kernel/lib/modules" /new/lib/modules
exec chroot /new /bin/bash "$share/.begin"
INIT
  chmod +x "$root/init"
  (cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) >"$folder/initramfs.new"
  mv "$folder/initramfs.new" "$folder/initramfs.gz"
  rm -rf "$root"
}

[[ -d $folder/kernel/lib ]] || unpack_kernel
[[ $folder/initramfs.gz -nt ${BASH_SOURCE[0]} ]] || pack_initramfs
printf -v command '%q ' "$@"
cat >"$share/.begin" <<BEGIN
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb LANG=C.UTF-8
ip link set lo up; cd /; mkdir -p /run/lock /run/netns
bash $command; echo \$? >"$share/.status"
echo o >/proc/sysrq-trigger; while :; do :; done # Its files are gone by now: no program can start.
BEGIN
rm -f "$share/.status"
read -ra more <<<"${QEMU_OPTIONS-}"
timeout "${SECONDS_MAX:-300}" qemu-system-x86_64 -machine q35,accel=tcg -cpu max -smp 2 -m "${MEMORY:-1024}" -nographic -no-reboot -nodefaults \
  -serial stdio -kernel "$folder"/kernel/boot/vmlinuz-* -initrd "$folder/initramfs.gz" \
  -append "console=ttyS0 quiet panic=-1 loglevel=4 mitigations=off rdinit=/init share=$share kernel=$folder/kernel " \
  -object rng-random,id=r,filename=/dev/urandom -device virtio-rng-pci,rng=r \
  -virtfs local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap \
  -virtfs "local,path=$share,mount_tag=share,security_model=none" "${more[@]}" </dev/null 2>&1 |
  sed -u -e 's/\r//g' -e 's/\x1bc//g' -e 's/\x1b\[[0-9;?]*[A-Za-z]//g' -e '/^SeaBIOS/d' -e 's/^Booting from ROM\.*//' || true
[[ -s $share/.status ]] || exit 124
exit "$(<"$share/.status")"
