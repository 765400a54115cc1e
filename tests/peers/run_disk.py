#!/usr/bin/env python3
"""`verbatim disk` at Linux's own targets, ib_isert and nvmet-rdma, which run in a guest under QEMU: copies, random
writes that are verified, zeroes; the kernel's disk has the bytes; a target that goes away under load comes back."""

import os
import sys

import guest as peer
from testbed import Failure, Testbed, are_installed, option_parser

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "storage"))
from served_disk import SECONDS, TOOLS, ServedDisk

PROTOCOLS = {"rxe": "roce", "siw": "iwarp"}
MEGABYTES = 32
IQN, NQN = "iqn.2026-01.test:lio", "nqn.2026-01.test:nvmet"
# Modules that the kernel asks for itself; the disk is a file in memory.
BEGIN = f"""set -e
mount | grep -q configfs || mount -t configfs none /sys/kernel/config
echo /bin/modprobe >/proc/sys/kernel/modprobe
dd if=/dev/zero of=/tmp/disk bs=1M count={MEGABYTES} 2>/dev/null
"""
LIO = BEGIN + f"""for m in target_core_file ib_isert; do modprobe $m; done
T=/sys/kernel/config/target; D=$T/core/fileio_0/disk; P=$T/iscsi/{IQN}/tpgt_1
mkdir -p $D && echo fd_dev_name=/tmp/disk,fd_dev_size={MEGABYTES << 20} >$D/control && echo 1 >$D/enable
mkdir -p $P/lun/lun_0 && ln -s $D $P/lun/lun_0/disk
for a in authentication=0 generate_node_acls=1 demo_mode_write_protect=0 cache_dynamic_acls=1; do
  echo ${{a#*=}} >$P/attrib/${{a%=*}}; done
mkdir -p $P/np/{peer.ADDRESS}:3260 && echo 1 >$P/np/{peer.ADDRESS}:3260/iser && echo 1 >$P/enable
"""
NVMET = BEGIN + f"""for m in nvmet nvmet_rdma loop; do modprobe $m; done
losetup /dev/loop0 /tmp/disk
N=/sys/kernel/config/nvmet; S=$N/subsystems/{NQN}; P=$N/ports/1
mkdir $S && echo 1 >$S/attr_allow_any_host && mkdir $S/namespaces/1
echo -n /dev/loop0 >$S/namespaces/1/device_path && echo 1 >$S/namespaces/1/enable
mkdir $P && echo rdma >$P/addr_trtype && echo ipv4 >$P/addr_adrfam && echo {peer.ADDRESS} >$P/addr_traddr
echo 4420 >$P/addr_trsvcid && ln -s $S $P/subsystems/{NQN}
"""


class Iser:
    """LIO."""
    url = f"iser://{peer.ADDRESS}/{IQN}/0"
    set_up = LIO
    group = f"/sys/kernel/config/target/iscsi/{IQN}/tpgt_1"
    lose, bring_back = f"echo 0 >{group}/enable", f"echo 1 >{group}/enable"
    secret = (f"echo -n bob >{group}/auth/userid && echo -n secretofbob12 >{group}/auth/password && "
              f"echo 1 >{group}/attrib/authentication")


class Nvme:
    """nvmet."""
    url = f"nvme://{peer.ADDRESS}/{NQN}/1"
    set_up = NVMET
    link = f"/sys/kernel/config/nvmet/ports/1/subsystems/{NQN}"
    lose, bring_back = f"rm {link}", f"ln -s /sys/kernel/config/nvmet/subsystems/{NQN} {link}"
    secret = ""


class Bench:
    def __init__(self, testbed, guest, target):
        self.testbed, self.guest, self.target = testbed, guest, target

    def served(self, *options):
        return ServedDisk(self.testbed, self.target.url, *options)


def is_copied(bench):
    with bench.served() as disk:
        digest = disk.is_copied_both_ways(MEGABYTES << 20)
    if digest not in bench.guest.run("sync; md5sum /tmp/disk"):
        raise Failure("the kernel's disk has other bytes")


def is_verified(bench):
    with bench.served() as disk:
        disk.is_verified()
        disk.is_cleared()


def is_waited_for(bench):
    def goes_and_comes():
        bench.guest.run(bench.target.lose)
        bench.guest.run("sleep 2")
        bench.guest.run(bench.target.bring_back)
    with bench.served() as disk:
        disk.goes_on_over(goes_and_comes)


def authenticates(bench):
    bench.guest.run(bench.target.secret)
    for name, secret in (("secrets", "secretofbob12"), ("wrong", "secretofeve12")):
        with open(f"{bench.testbed.folder}/{name}", "w", encoding="ascii") as file:
            file.write(f"userid bob\npassword {secret}\n")
    with bench.served("--auth", f"{bench.testbed.folder}/secrets") as disk:
        disk.qemu_io("write -P 7 0 64k", "read -P 7 0 64k")
    refused = bench.testbed.start("b", [f"{bench.testbed.build}/bin/verbatim", "disk", bench.target.url, "--auth",
                                        f"{bench.testbed.folder}/wrong"])
    # The kernel's answer may not come before its disconnection.
    words = ("authentication has failed", "is the secret right?")
    if refused.wait(SECONDS) == 0 or not any(word in refused.output() for word in words):
        raise Failure("the wrong secret is taken")


PARTS = (is_copied, is_verified, is_waited_for, authenticates)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--stack", default="rxe", choices=peer.STACKS, help="Linux's")
    parser.add_argument("--only", choices=("Iser", "Nvme"), help="one of the two targets")
    options = parser.parse_args()
    if not are_installed(*TOOLS) or not os.path.exists(f"{options.build}/lib/nbdkit-verbatim-plugin.so"):
        peer.skip("nbdkit, its plugin, or a program that uses it is missing")
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    # Over iWARP the kernel's iSCSI target has the port for TCP.
    targets = [target for target in ((Iser, Nvme) if options.stack == "rxe" else (Nvme,))
               if options.only in (None, target.__name__)]
    with Testbed(options) as testbed:
        testbed.set_addresses("b", peer.OUR_ADDRESS)
        testbed.set_variables("b", VERBATIM_PROTOCOL=PROTOCOLS[options.stack])
        with peer.Guest(testbed.folder, system, options.stack, megabytes=1024) as guest:
            for target in targets:
                guest.run(target.set_up)
                print(f"{target.__doc__} of Linux {guest.version} over {options.stack}", flush=True)
                for part in PARTS if target.secret else PARTS[:-1]:
                    part(Bench(testbed, guest, target))
                    print(f"passed: {part.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
