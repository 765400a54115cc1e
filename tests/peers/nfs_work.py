"""What people do on a mount of NFS over RDMA, in the guest: locks of two clients, git and a compiler, a long file, many
files. Called by run_nfs.py."""

import filecmp
import os

import guest as peer
from testbed import Failure, wait_until

ROOT = os.path.abspath(os.path.join(peer.HERE, "..", ".."))
PORT = 20049
GIT = "git -c safe.directory=* -c user.name=a -c user.email=a@b"
# A repository that is made, cloned, checked, changed and pushed to.
GIT_WORK = f"""set -ex
rm -rf /tmp/repo && mkdir /tmp/repo && cp -r {ROOT}/docs/guide /tmp/repo && cd /tmp/repo
{GIT} init -q -b main && {GIT} add -A && {GIT} commit -qm one
{GIT} clone -q /tmp/repo /mnt/clone && cd /mnt/clone
{GIT} fsck --full && test -z "$({GIT} status --porcelain)" && diff -r --exclude .git /tmp/repo /mnt/clone
{GIT} clone -q --bare /mnt/clone /mnt/bare.git && echo changed >>guide/README.md && {GIT} commit -qam two
{GIT} push -q /mnt/bare.git main && test "$({GIT} -C /mnt/bare.git rev-parse main)" = "$({GIT} rev-parse HEAD)"
"""
# Sources, objects, an archive and a program are on the mount, and it runs from there.
COMPILE = r"""set -ex
mkdir /mnt/program && cd /mnt/program
for i in 1 2 3; do echo "int f$i(int x) { return x + $i; }" >f$i.c; done
printf '#include <stdio.h>\nint f1(int),f2(int),f3(int);\n'\
'int main(void) { printf("%%d\\n", f1(f2(f3(0)))); return 0; }\n' >main.c
printf 'sum: main.o all.a\n\tcc -o $@ $^\nall.a: f1.o f2.o f3.o\n\tar rcs $@ $^\n' >Makefile
make -s -j2 CC=cc && test "$(./sum)" = 6 && touch f3.c && make -s && test "$(./sum)" = 6
"""


def mount_command(where, address, version, netid="rdma"):
    return (f"mkdir -p {where} && mount.nfs {address}:/ {where} -o proto={netid},port={PORT},vers={version},sec=sys && "
            f"grep '{where} .*proto={netid}' /proc/mounts")


def mount(guest, version="4.2"):
    guest.run(mount_command("/mnt", peer.OUR_ADDRESS, version))


def is_locked(guest, _):
    """Two clients, by IPv4 and by IPv6, as which Linux has two identities: what one has locked the other does not get."""
    first, second = "/tmp/first", "/tmp/second"
    guest.run_here(mount_command(first, peer.OUR_ADDRESS, "4.0"))
    guest.run_here(mount_command(second, f"[{peer.OUR_ADDRESS_6}]", "4.0", "rdma6"))
    guest.run_here(f"echo 1 >{first}/lock")
    for mine, others in ((first, second), (second, first)):
        holder = guest.start_here(f"exec 9<>{mine}/lock && flock -x 9 && touch /tmp/held && "
                                  "until [ -e /tmp/leave ]; do sleep 0.05; done")
        wait_until(lambda: holder.status() is not None or guest.run("ls /tmp").find("held") >= 0, 60, "the lock")
        guest.run_here(f"exec 9<>{others}/lock && ! flock -n -x 9 && ! flock -n -s 9")
        waiter = guest.start_here(f"exec 9<>{others}/lock && flock -x 9")
        guest.run("touch /tmp/leave")
        holder.expect_success(60)
        waiter.expect_success(90)  # Without calls back for locks, Linux asks again, each time later.
        guest.run("rm /tmp/held /tmp/leave")
    guest.run_here(f"umount {second} {first}")


def is_worked_in(guest, _):
    guest.run_here(mount_command("/mnt", peer.OUR_ADDRESS, "4.2"))
    guest.run_here(GIT_WORK, 300)
    print("  git: cloned, checked, pushed", flush=True)
    guest.run_here(COMPILE, 300)
    guest.run_here("rm -r /mnt/clone /mnt/bare.git /mnt/program && umount /mnt", 120)


def has_a_long_file(guest, gateways):
    """The guest copies it on the mount: each byte goes both ways. This machine compares."""
    source, copy = (os.path.join(gateways.data, name) for name in ("long", "copy"))
    with open(source, "wb") as file:
        for _ in range(gateways.megabytes):
            file.write(os.urandom(1 << 20))
    mount(guest)
    guest.run("dd if=/mnt/long of=/mnt/copy bs=1M && umount /mnt", 900)
    if not filecmp.cmp(source, copy, shallow=False):
        raise Failure("the copy differs")
    os.remove(source)
    os.remove(copy)


def has_many_files(guest, gateways):
    """Four at a time make them."""
    count = gateways.files // 4
    mount(guest, version="4.1")
    makers = [guest.start(f"mkdir /mnt/many{maker} && cd /mnt/many{maker} && i=0 && while [ $i -lt {count} ]; do "
                          "echo $i >$i || exit; i=$((i+1)); done") for maker in range(4)]
    wait_until(lambda: all(maker.status() is not None for maker in makers) or guest.has_ended(), 1200, "the files")
    for maker in range(4):
        makers[maker].expect_success(1)
        guest.run(f"cd /mnt/many{maker} && [ $(ls | wc -l) = {count} ] && [ $(cat * | wc -l) = {count} ] && "
                  f"grep -qx {count - 1} {count - 1}", 600)
    guest.run("rm -r /mnt/many* && umount /mnt", 900)
