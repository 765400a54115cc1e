#!/usr/bin/env python3
"""Captures real traffic of each opcode on a loopback interface of its own, and has tshark and scapy judge
every packet (tests/wire_judge)."""

import os
import re
import signal
import subprocess
import sys

from testbed import Failure, Testbed, option_parser, wait_until
from namespaces import enter_user_namespace

SECONDS_MAX = 60
PCAP_HEADER_BYTES = 24
PYTHON = "/usr/bin/python3"  # Debian's own, to which python3-scapy belongs.
JUDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "wire_judge", "judge.py")

# RC, UC and UD (IBA volume 1, table 38), without the opcodes that are not sent here: those with
# invalidate.
OPCODES = {*range(0x00, 0x15), *range(0x20, 0x2C), 0x64, 0x65}

# Between two nodes; every_opcode adds what none of Debian's programs sends (immediate data).
RUNS = (
    "ib_send_bw -F -n 20 -s 20000 -m 1024",
    "ib_write_bw -F -n 20 -s 20000 -m 4096",
    "ib_read_bw -F -n 20 -s 20000 -m 1024",
    "ib_atomic_bw -F -n 50",
    "ib_send_lat -F -n 50 -c UD -s 100",
    "ib_send_lat -F -n 20 -c UC -s 10001 -m 2048",
)


class Capture:
    """dumpcap, from the constructor's return until `stop`."""

    def __init__(self, folder, interface="lo", what="udp port 4791"):
        self.path = f"{folder}/capture.pcap"
        self._log_path = f"{folder}/dumpcap.log"
        with open(self._log_path, "wb") as log:
            self._process = subprocess.Popen(
                ["dumpcap", "-q", "-P", "-i", interface, "-f", what, "-B", "64", "-w", self.path], stdout=log, stderr=log)
        wait_until(self._is_ready, 20, "dumpcap to begin")

    def _log(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def _is_ready(self):
        if self._process.poll() is not None:
            raise Failure(f"dumpcap ended: {self._log()}")
        return "File:" in self._log()

    def stop(self):
        # The kernel delivers packets in blocks, with a delay; packets that it still has at the end
        # are lost.
        wait_until(lambda: os.path.getsize(self.path) > PCAP_HEADER_BYTES, SECONDS_MAX, "captured packets")
        self._process.send_signal(signal.SIGINT)
        self._process.wait(SECONDS_MAX)
        print(self._log())
        if "dropped" not in self._log():
            raise Failure("dumpcap said nothing about what it captured")


def judged_opcodes(path):
    """Has every packet judged. Returns the opcodes in the capture."""
    judged = subprocess.run([PYTHON, JUDGE, path], check=False, text=True, stdout=subprocess.PIPE)
    print(judged.stdout)
    if judged.returncode != 0:
        raise Failure(f"the judge found fault with the capture (status {judged.returncode})")
    return {int(code, 16) for code in re.findall("^(0x[0-9a-f]{2}) ", judged.stdout, re.MULTILINE)}


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    # So that a capture shows packets as on a cable, not datagrams before segmentation.
    subprocess.run(["ethtool", "-K", "lo", "tx-udp-segmentation", "off"], check=True)
    with Testbed(options) as testbed:
        capture = Capture(testbed.folder)
        testbed.start("a", [f"{testbed.build}/bin/every_opcode"]).expect_success(SECONDS_MAX)
        for run in RUNS:
            testbed.run_pair(run, SECONDS_MAX)
        capture.stop()
        seen = judged_opcodes(capture.path)
        if OPCODES - seen:
            raise Failure("no packet of opcode " + ", ".join(f"0x{code:02x}" for code in OPCODES - seen))


if __name__ == "__main__":
    sys.exit(main())
