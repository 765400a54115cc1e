#!/usr/bin/env bash
# run.sh BUILD [CHECK...]: the kernel's route, by tc: builds the module of kernel/, and runs guest.sh in a guest (Debian's
# kernel under QEMU, this machine's files), where card, module and Open vSwitch are. Prints one line a check; its status is
# the number that failed, or 77 with a word if this machine cannot run it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
root=$(cd "$here/../../.." && pwd)
shift
skip() { echo "skipped: $*"; exit 77; }
for tool in qemu-system-x86_64 busybox cpio make tc; do
  PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null || skip "not installed: $tool; ./test.sh --peers installs it"
done
[[ -x $build/bin/verbatim-nicd ]] || skip "the card is not built"

folder=$build/guest_machine
share=$(mktemp -d -p "$build" tc.XXXXXX)
trap 'rm -rf "$share"' EXIT
# The first run downloads the kernel, whose version the module must have.
if [[ ! -d $folder/kernel/lib ]]; then "$root/tests/peers/guest/machine.sh" "$folder" "$share" -c true; fi
version=$(ls "$folder/kernel/lib/modules")
module=$("$here/build_module.sh" "$build" "$version") || { status=$? && echo "$module" && exit $status; }
cp "$module/verbatim_nic.ko" "$share/"
sources=$(compgen -G '/usr/src/linux-source-*.tar.xz' | tail -n 1) || true
if [[ -n $sources && ! -d $folder/forwarding ]]; then # Linux's own tests.
  tar -C "$folder" --strip-components 5 -xf "$sources" --wildcards 'linux-source-*/tools/testing/selftests/net/forwarding'
fi
SECONDS_MAX=${SECONDS_MAX:-900} "$root/tests/peers/guest/machine.sh" "$folder" "$share" "$here/guest.sh" "$build" "$share" "$folder" "$@"
