"""Linux's ib_srp, in the guest, at `verbatim target --srp`, and our initiator at its ib_srpt: parts of run_storage.py."""

import guest as peer
from testbed import Failure, wait_until

PORT, GUID = 4242, "505400fffe780002"
TARGET = GUID + GUID  # The port: extension and GUID.
MODULES = "modprobe ib_srp reconnect_delay=1 fast_io_fail_tmo=60 dev_loss_tmo=120 && modprobe sd_mod"
DISK = "/dev/sda"
FIO = "fio --name=disk --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --rw=randwrite"
LINE = f"id_ext={GUID},ioc_guid={GUID},dest={peer.OUR_ADDRESS}:{PORT},max_cmd_per_lun=32"
REFUSED = 3  # Exit status of srp_disk.
REMOTE_PORTS = "/sys/class/srp_remote_ports"


def words(initiator):
    return ("--srp", TARGET, "--ram", "64M", "--srp-listen", f"{peer.OUR_ADDRESS}:{PORT}", "--allow-srp-initiator",
            initiator)


def initiator_of(guest):
    """The port that ib_srp logs in with: no extension, and the lower half of GID 0."""
    gid = guest.run(f"cat /sys/class/infiniband/{guest.stack}0/ports/1/gids/0").strip().replace(":", "")
    return "0" * 16 + gid[16:]


def add_target(guest, more=""):
    return f"echo '{LINE}{more}' > /sys/class/infiniband_srp/srp-{guest.stack}0-1/add_target"


def refuses_a_stranger(guest, target):
    guest.run(f"! ( {add_target(guest, ',initiator_ext=0000000000000099')} )")
    if "does not admit initiator" not in str(target.show()["incidents"]):
        raise Failure("the target does not say whom it has refused")
    wait_until(target.is_empty, 60, "the stranger's connections to end")


def is_a_disk(guest, _):
    guest.run(f"{add_target(guest)} && until [ -b {DISK} ]; do usleep 50000; done")
    guest.run(f"grep -q VERBATIM /sys/block/sda/device/vendor && [ $(cat /sys/block/sda/size) = 131072 ]")


def keeps_a_file_system(guest, _):
    guest.run(f"mkfs.ext4 -q {DISK} && mkdir -p /mnt && mount -t ext4 {DISK} /mnt", 120)
    guest.run("dd if=/dev/urandom of=/tmp/file bs=1M count=16 && cp /tmp/file /mnt/file && umount /mnt", 120)
    guest.run(f"mount -t ext4 {DISK} /mnt && cmp /tmp/file /mnt/file && umount /mnt", 120)


def verifies_random_writes(guest, _):
    guest.run(f"{FIO} --filename={DISK} --size=16M --verify=crc32c", 300)
    guest.run(f"{FIO} --filename={DISK} --size=16M --bsrange=512-128k --verify=crc32c", 300)


def resets_a_unit(guest, _):
    """Linux's error handling: LUN reset under load, by task management."""
    load = guest.start(f"{FIO} --filename={DISK} --size=16M --verify=crc32c")
    wait_until(lambda: load.output() or load.status() is not None, 60, "the load")
    guest.run("sg_reset --device /dev/sda")
    load.expect_success(300)


def is_killed_under_load(guest, target):
    """The initiator logs in again, sends what was not answered, and goes on. The memory of the disk was lost."""
    load = guest.start(f"{FIO} --filename={DISK} --size=32M --time_based --runtime=8")
    wait_until(lambda: load.output() or load.status() is not None, 60, "the load")
    target.kill()
    target.up()
    load.expect_success(120)
    guest.run(f"{FIO} --filename={DISK} --size=8M --verify=crc32c", 300)


def is_left(guest, target):
    guest.run(f"for port in {REMOTE_PORTS}/*; do echo 1 > $port/delete; done")
    wait_until(target.is_empty, 60, "the initiator to leave")


def serves_us(guest, target):
    """Linux's ib_srpt, with a disk in a file. Its port has the name of GID 0's lower half; what it calls the initiator is
    the address that the login has come to."""
    guest.run(f"""set -e
for module in target_core_file ib_srpt; do modprobe $module; done
mount -t configfs configfs /sys/kernel/config 2>/dev/null || true
T=/sys/kernel/config/target
dd if=/dev/zero of=/tmp/disk bs=1M count=16
mkdir -p $T/core/fileio_0/disk
echo fd_dev_name=/tmp/disk,fd_dev_size=16777216 > $T/core/fileio_0/disk/control
echo 1 > $T/core/fileio_0/disk/enable
mkdir -p $T/srpt
P=$(cut -d: -f5-8 /sys/class/infiniband/{guest.stack}0/ports/1/gids/0)
mkdir -p $T/srpt/$P/$P/lun/lun_0 $T/srpt/$P/$P/acls/{peer.ADDRESS}
ln -s $T/core/fileio_0/disk $T/srpt/$P/$P/lun/lun_0/disk
mkdir $T/srpt/$P/$P/acls/{peer.ADDRESS}/lun_0
ln -s $T/srpt/$P/$P/lun/lun_0 $T/srpt/$P/$P/acls/{peer.ADDRESS}/lun_0/disk
echo {PORT} > $T/srpt/discovery_auth/rdma_cm_port
echo 1 > $T/srpt/$P/$P/enable""")
    guid = guest.run("cat /sys/module/ib_srpt/parameters/srpt_service_guid").strip().removeprefix("0x")
    line = f"id_ext={guid},ioc_guid={guid},dest={peer.ADDRESS}:{PORT}"
    disk = target.start("srp_disk", "300", line)
    disk.expect_success(300)
    if "LIO-ORG" not in disk.output() or "1 sessions" not in disk.output():
        raise Failure(f"not the guest's disk: {disk.output()}")
    stranger = target.start("srp_disk", "1", line.replace(f"id_ext={guid}", "id_ext=0000000000000001"))
    if stranger.wait(60) != REFUSED or "no port of this identifier" not in stranger.output():
        raise Failure(f"a port that is not there: {stranger.output()}")


class Srpt:
    """What Debian's targetcli makes on our node, and what the guest writes to add_target for it."""

    def __init__(self, target, initiator):
        self.target, self.initiator = target, f"ib.{initiator}"
        gid = self.run("cat", "/sys/class/infiniband/verbatim0/ports/1/gids/0").strip().replace(":", "")
        guid = self.run("cat", "/sys/class/infiniband/verbatim0/node_guid").strip().replace(":", "")
        self.path = f"/srpt/ib.{gid}"
        self.folder = f"/sys/kernel/config/target/srpt/0x{gid}/tpgt_1"
        self.line = f"id_ext={guid},ioc_guid={guid},dest={peer.OUR_ADDRESS}:{PORT}"

    def run(self, *words):
        program = self.target.start_on_node(*words)
        program.expect_success(120)
        return program.output()

    def targetcli(self, *words):
        return self.run("targetcli", *words)

    def make(self):
        self.targetcli("/backstores/ramdisk", "create", "disk0", "64M")
        self.targetcli("/srpt", "create", self.path.rpartition("/")[2])
        self.targetcli(f"{self.path}/luns", "create", "/backstores/ramdisk/disk0")
        self.targetcli(f"{self.path}/acls", "create", self.initiator)
        self.run("bash", "-c", f"echo {PORT} > /sys/kernel/config/target/srpt/discovery_auth/rdma_cm_port")

    def wait_for_sessions(self, count):
        wait_until(lambda: len(self.target.show()["srp"]["initiators"]) == count, 120, f"{count} sessions")


def mounts_what_targetcli_made(guest, target):
    srpt = Srpt(target, initiator_of(guest))
    srpt.make()
    add = f"echo '{srpt.line}' > /sys/class/infiniband_srp/srp-{guest.stack}0-1/add_target"
    guest.run(f"{add} && until [ -b {DISK} ]; do usleep 50000; done")
    guest.run("grep -q LIO-ORG /sys/block/sda/device/vendor && grep -q disk0 /sys/block/sda/device/model")
    keeps_a_file_system(guest, target)
    srpt.targetcli("/backstores/ramdisk", "create", "disk1", "8M")
    srpt.targetcli(f"{srpt.path}/luns", "create", "/backstores/ramdisk/disk1", "5")
    guest.run("until [ -b /dev/sdb ]; do for host in /sys/class/scsi_host/*; do echo '- - -' > $host/scan; done; "
              "usleep 200000; done")
    guest.run("dd if=/tmp/file of=/dev/sdb bs=1M count=8 oflag=direct && cmp -n 8388608 /tmp/file /dev/sdb", 120)
    srpt.targetcli(f"{srpt.path}/luns", "delete", "lun5")
    guest.run("! dd if=/dev/sdb of=/dev/null bs=4k count=1 iflag=direct")
    srpt.wait_for_sessions(1)
    for end, begin in ((f"echo 0 > {srpt.folder}/enable", f"echo 1 > {srpt.folder}/enable"),
                       (f"targetcli {srpt.path}/acls delete {srpt.initiator}",
                        f"targetcli {srpt.path}/acls create {srpt.initiator}")):
        srpt.run("bash", "-c", end)
        srpt.wait_for_sessions(0)
        srpt.run("bash", "-c", begin)
        srpt.wait_for_sessions(1)  # The initiator has waited for it.
        guest.run(f"mount -t ext4 {DISK} /mnt && cmp /tmp/file /mnt/file && umount /mnt", 120)
    srpt.targetcli("/srpt", "delete", srpt.path.rpartition("/")[2])
    srpt.wait_for_sessions(0)
    guest.run(f"for port in {REMOTE_PORTS}/*; do echo 1 > $port/delete; done")


def parts(stack):
    """Linux 6.1's ib_srpt does not take logins over iWARP."""
    return PARTS if stack == "rxe" else tuple(part for part in PARTS if part != serves_us)


PARTS = (refuses_a_stranger, is_a_disk, keeps_a_file_system, verifies_random_writes, resets_a_unit,
         is_killed_under_load, is_left, serves_us)
