#!/usr/bin/env python3
"""scrape.py HOST PORT EXPORTER_PORT: writes to HOST's ib_write_bw, then asks prometheus-node-exporter, which reads the
node's view, what the port has sent. Prints it once it is as much as was written; the row's time limit ends the wait."""

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request

MESSAGES, MESSAGE_BYTES = 500, 65536
METRIC = re.compile(r'^node_infiniband_port_data_transmitted_bytes_total\{device="verbatim0",port="1"\} (\S+)', re.MULTILINE)


def sent_bytes(port):
    """Returns None if the exporter does not answer yet, or shows no such counter."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            found = METRIC.search(page.read().decode())
            return float(found[1]) if found else None
    except urllib.error.URLError:
        return None


def main():
    host, port, exporter_port = sys.argv[1:]
    subprocess.run(["ib_write_bw", "-F", "-p", port, "-n", str(MESSAGES), "-s", str(MESSAGE_BYTES), host], check=True)
    exporter = subprocess.Popen(["prometheus-node-exporter", "--collector.disable-defaults", "--collector.infiniband",
                                 f"--path.sysfs={os.environ['VERBATIM_VIEW']}/sys",
                                 f"--web.listen-address=127.0.0.1:{exporter_port}"])
    try:
        while (sent_bytes(exporter_port) or 0) < MESSAGES * MESSAGE_BYTES:
            time.sleep(0.1)
        print(f"the exporter says that the port has sent {sent_bytes(exporter_port):.0f} bytes")
    finally:
        exporter.kill()


if __name__ == "__main__":
    main()
