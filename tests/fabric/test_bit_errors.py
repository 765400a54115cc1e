#!/usr/bin/env python3
"""Bit errors of a cable: the next port drops damaged packets and counts them, RC sends them again, and Debian's diagnostic
programs find the cable."""

import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, Failure, are_installed, option_parser

BED = LOG = None  # Set in main: the fabric, and its manager's log.
# The middle switch's cable to the switch of H1; H2 writes to H1, so that its packets end at port 2 of S1.
CABLE, VICTIM, VICTIM_PORT = "S2/1", "S1", 2
SECONDS_MAX = 60


def errors_of(switch, port):
    return BED.counter("PortRcvErrors", switch, port), BED.counter("SymbolErrorCounter", switch, port)


def write():
    """100 messages of 16 packets, and none of them is lost: the programs fail otherwise."""
    BED.run_pair("H1", "H2", "ib_write_bw", "-F", "-n", "100", "-s", "65536", "-u", "10")


class BitErrors(unittest.TestCase):
    def test_damaged_packets_are_counted_and_sent_again(self):
        self.assertEqual(errors_of(VICTIM, VICTIM_PORT), (0, 0))
        BED.verbatim("fabric", "link", CABLE, "errors", "1e-6")
        write()
        BED.verbatim("fabric", "link", CABLE, "errors", "0")
        packets = BED.counter("PortRcvPkts", VICTIM, VICTIM_PORT, "-x")
        damaged, symbols = errors_of(VICTIM, VICTIM_PORT)
        self.assertGreater(damaged, 0)
        self.assertGreaterEqual(symbols, damaged)
        self.assertGreater(packets, 1600 + damaged)  # 16 packets of each message, and those that were sent again.
        self.assertEqual(errors_of("S2", 2), (0, 0))  # Other cables are as good as new.
        found = BED.run("H1", "ibqueryerrors", check=False)
        self.assertRegex(found, rf'Errors for .*"{VICTIM}"')
        self.assertRegex(found, rf"GUID .* port {VICTIM_PORT}:.*PortRcvErrors == {damaged}\b")
        write()
        self.assertEqual(errors_of(VICTIM, VICTIM_PORT), (damaged, symbols))

    def test_too_many_make_the_link_recover_and_the_port_tell(self):
        """So many that no packet of 4 KiB arrives."""
        BED.verbatim("fabric", "link", "S3/1", "errors", "1e-4")
        server, command = BED.start_server("H1", "ib_write_bw", "-F", "-s", "65536", "-u", "10")
        client = BED.start("H2", *command)
        self.assertNotEqual(client.wait(SECONDS_MAX), 0)  # Retries exceeded.
        BED.end(server)
        BED.verbatim("fabric", "link", "S3/1", "errors", "0")
        wait_for_text(LOG, "num:129")
        found = BED.counter("LocalLinkIntegrityErrors", "S2", 2)
        self.assertGreater(found, 0)
        # Both ends train again.
        for switch, port in (("S2", 2), ("S3", 1)):
            self.assertGreaterEqual(BED.counter("LinkErrorRecoveryCounter", switch, port), found)
        # perfquery's counter has 4 bits; ibqueryerrors asks for a wider one.
        self.assertRegex(BED.run("H1", "ibqueryerrors", check=False), r"port 2:.*LocalLinkIntegrityErrors == \d+")
        write()

    def test_what_no_cable_has_is_refused(self):
        for rate in ("1", "-1e-9", "nan", "often"):
            with self.assertRaisesRegex(Failure, "rate"):
                BED.verbatim("fabric", "link", CABLE, "errors", "--", rate)
        with self.assertRaisesRegex(Failure, "at which rate"):
            BED.verbatim("fabric", "link", CABLE, "errors")

    def test_show_tells_and_up_ends_it(self):
        def rates():
            return [link["bit_error_rate"] for link in BED.status()["links"] if link["bit_error_rate"] != 0]
        BED.verbatim("fabric", "link", CABLE, "errors", "1e-12")
        self.assertEqual(rates(), [1e-12])
        self.assertIn("errors 1e-12", BED.verbatim("fabric", "show"))
        BED.verbatim("fabric", "link", CABLE, "up")
        self.assertEqual(rates(), [])


def main():
    global BED, LOG
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ibqueryerrors", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(CHAIN)
        _, LOG = BED.start_manager("H1")
        BED.wait_until_active("H1", "H2")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
