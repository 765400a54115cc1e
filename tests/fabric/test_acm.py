#!/usr/bin/env python3
"""Debian's ibacm on two hosts: ib_acme asks it for paths by LID and by name, and compares them with the subnet
administrator's. Names are resolved by multicast between the services."""

import os
import re
import sys
import unittest

from fabricbed import TRIANGLE, FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, are_installed, option_parser

BED = None  # Set in main.
BESIDE = """
"$@" &
until [ -e /run/ibacm-unix.sock ]; do sleep 0.1; done
sh -c "$QUESTIONS"
status=$?
kill $!
exit $status
"""
OPTIONS = """log_file {folder}/log
log_level 1
lock_file {folder}/lock
addr_prot acm
route_prot sa
server_mode unix
"""


def service(host):
    """The command of an ibacm whose one address is the host's name."""
    folder = f"{BED.folder}/acm-{host}"
    os.mkdir(folder)
    for name, text in (("addr", f"{host.lower()} verbatim0 1 default\n"), ("opts", OPTIONS.format(folder=folder))):
        with open(f"{folder}/ibacm_{name}.cfg", "w", encoding="ascii") as file:
            file.write(text)
    return "ibacm", "-P", "-A", f"{folder}/ibacm_addr.cfg", "-O", f"{folder}/ibacm_opts.cfg"


class PathsOfTheService(unittest.TestCase):
    def test_by_lid_and_by_name(self):
        lids = BED.lids()
        # The service's socket is in /run: each host has its own.
        BED.start("H4", *BED.with_own("/run", *service("H4")))
        wait_for_text(f"{BED.folder}/acm-H4/log", "acm_activate_devices")
        questions = f"ib_acme -v -f l -s {lids['H1']} -d {lids['H4']} && ib_acme -v -f n -s h1 -d h4"
        text = BED.run("H1", *BED.with_own("/run", "env", f"QUESTIONS={questions}", "sh", "-c", BESIDE, "sh", *service("H1")))
        self.assertEqual(text.count("SA verification: success"), 2, text)
        self.assertEqual(re.findall(r"dlid: (\d+)", text), [str(lids["H4"])] * 2)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibacm", "ib_acme"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(TRIANGLE, "--manager", "opensm")
        BED.wait_until_active("H1", "H4")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
