"""Linux's ib_srp, in the guest, at `verbatim target --srp`: parts of run_storage.py."""

import guest as peer
from testbed import Failure, wait_until

PORT, GUID = 4242, "505400fffe780002"
TARGET = GUID + GUID  # The port: extension and GUID.
MODULES = "modprobe ib_srp reconnect_delay=1 fast_io_fail_tmo=60 dev_loss_tmo=120 && modprobe sd_mod"
DISK = "/dev/sda"
FIO = "fio --name=disk --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --rw=randwrite"
LINE = f"id_ext={GUID},ioc_guid={GUID},dest={peer.OUR_ADDRESS}:{PORT},max_cmd_per_lun=32"
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


PARTS = (refuses_a_stranger, is_a_disk, keeps_a_file_system, verifies_random_writes, resets_a_unit,
         is_killed_under_load, is_left)
