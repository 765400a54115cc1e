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
    if guest.stack == "siw":
        return  # Linux 6.1's ib_srpt does not take logins over iWARP.
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


PARTS = (refuses_a_stranger, is_a_disk, keeps_a_file_system, verifies_random_writes, resets_a_unit,
         is_killed_under_load, is_left, serves_us)
