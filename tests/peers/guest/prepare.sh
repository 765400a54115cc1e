#!/bin/bash
# Builds a small system with Linux's own RDMA stack for QEMU: prepare.sh FOLDER. FOLDER then has
# vmlinuz and initramfs.gz: Debian's kernel, its rdma_rxe, siw from Debian's linux-source (Debian's
# kernel lacks it), rdma-core, perftest, busybox. It is built once; later runs return at once.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[[ $# -eq 1 ]] || { echo "usage: prepare.sh FOLDER" >&2 && exit 2; }
mkdir -p "$1"
cd "$1"

# The content of the guest; if the list changes, the guest is built again.
readonly modules=(virtio_pci virtio_net 9pnet_virtio 9p crc32_generic crc32_pclmul crc32c_generic
  crc32c_intel libcrc32c rdma_rxe rdma_ucm)
readonly modules_on_demand=(nvme_rdma nvmet_rdma loop ext4 rpcrdma nfsv3 nfsv4 nfsd rds rds_rdma sd_mod ib_srp
  ib_srpt ib_iser ib_isert target_core_mod target_core_file) # For who calls modprobe.
readonly programs=(ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
  ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw ib_atomic_lat
  rping ucmatose udaddy rdma_client rdma_server rstream riostream udpong qperf rdma ip
  nvme fio mkfs.ext4 sg_reset)
readonly programs_if_installed=(mount.nfs exportfs rpc.mountd iscsid iscsiadm) # ./setup.sh nfs targets

say() { echo "guest: $*"; }
die() {
  echo "guest: error: $*" >&2
  exit 1
}

# Unpacks the kernel's package without installing it.
unpack_kernel() {
  local package
  package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image-/ {print $2; exit}')
  [[ -n $package ]] || die "no linux-image package is known: run apt-get update"
  say "downloading $package"
  rm -rf kernel && mkdir kernel
  apt-get download -qq "$package" || die "$package cannot be downloaded"
  dpkg -x ./"$package"_*.deb kernel
  rm -f ./"$package"_*.deb
  version=$(ls kernel/lib/modules)
  depmod -b kernel "$version"
}

build_siw() {
  local sources
  sources=$(echo /usr/src/linux-source-*.tar.xz)
  say "building siw from ${sources##*/}"
  rm -rf siw && mkdir siw
  tar -C siw --strip-components 5 -xf "$sources" --wildcards 'linux-source-*/drivers/infiniband/sw/siw'
  make -s -C "/lib/modules/$version/build" M="$PWD/siw" CONFIG_RDMA_SIW=m modules >siw.log 2>&1 ||
    { tail -n 5 siw.log >&2 && die "siw does not build"; }
}

# copy_program NAME: copies it with the libraries that it loads, to the same paths.
copy_program() {
  local path library
  path=$(PATH=$PATH:/usr/sbin:/sbin command -v "$1") || die "$1 is not installed"
  mkdir -p "root$(dirname "$path")"
  cp -L "$path" "root$path"
  while read -r library; do
    mkdir -p "root$(dirname "$library")"
    cp -nL "$library" "root$library"
  done < <(ldd "$path" | grep -oE '/[^ )]+')
}

copy_modules() {
  local module file to=root/lib/modules/$version
  mkdir -p "$to/extra"
  for module in "${modules[@]}" "${modules_on_demand[@]}"; do
    modprobe -d kernel -S "$version" --show-depends "$module" 2>/dev/null | awk '/^insmod/ {print $2}'
  done | sort -u | while read -r file; do
    file=${file#*/lib/modules/}
    mkdir -p "root/lib/modules/$(dirname "$file")"
    cp "kernel/lib/modules/$file" "root/lib/modules/$file"
  done
  cp siw/siw.ko "$to/extra/"
  cp kernel/lib/modules/"$version"/modules.{builtin,order,builtin.modinfo} "$to/"
  depmod -b root "$version"
}

build_root() {
  local name libraries=/usr/lib/x86_64-linux-gnu
  rm -rf root
  mkdir -p root/{bin,sbin,etc/libibverbs.d,proc,sys,dev,tmp,run,host,usr/bin,usr/sbin,lib64} \
    "root$libraries/libibverbs"
  ln -s usr/lib root/lib # As in today's Debian.
  cp /bin/busybox root/bin/
  for name in $(busybox --list | grep -vx busybox); do ln -s busybox "root/bin/$name"; done
  copy_modules
  for name in "${programs[@]}"; do copy_program "$name"; done
  for name in "${programs_if_installed[@]}"; do
    if PATH=$PATH:/usr/sbin:/sbin command -v "$name" >/dev/null; then copy_program "$name"; fi
  done
  cp -L "$libraries/libgcc_s.so.1" "root$libraries/" # pthread_exit loads it.
  for name in rxe siw; do
    echo "driver $name" >"root/etc/libibverbs.d/$name.driver"
    cp "$libraries"/libibverbs/lib"$name"-rdmav*.so "root$libraries/libibverbs/"
  done
  echo 'root:x:0:0::/:/bin/sh' >root/etc/passwd
  echo 'root:x:0:' >root/etc/group
  echo '127.0.0.1 localhost' >root/etc/hosts
  printf '%s\n' "${modules[@]}" siw >root/etc/modules # For init.
  cp "$here/init" root/init
}

if [[ initramfs.gz -nt $here/init && initramfs.gz -nt $here/prepare.sh ]]; then exit 0; fi
unpack_kernel
build_siw
say "packing $version"
build_root
cp "kernel/boot/vmlinuz-$version" vmlinuz
(cd root && find . | cpio -o -H newc --quiet | gzip -1) >initramfs.new
rm -rf root kernel siw
mv initramfs.new initramfs.gz
