#!/usr/bin/env python3
"""Sessions of each protocol that are logged in and do nothing: the memory that each costs the target has a bound, and
initiators that are killed leave no connection."""

import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "..", "programs"), os.path.join(HERE, "..", "..", "bench")]

from storage import BYTES_MAX, WAYS, Idle
from testbed import Failure, Testbed, option_parser


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--sessions", type=int, default=200)
    options = parser.parse_args()
    for way in WAYS:
        with Testbed(options) as testbed:
            found = Idle(testbed, way, options.sessions)
            wanted = options.sessions * (2 if way == "nvme" else 1)
            if found.count != wanted:
                raise Failure(f"{way}: {found.count} connections, not {wanted}")
            if not options.preload and found.bytes > BYTES_MAX[way]:
                raise Failure(f"{way}: an idle connection costs {found.bytes:.0f} bytes, {BYTES_MAX[way]} at most")
        print(f"passed: {way}, {found.bytes:.0f} bytes a connection, {found.left:.0f} when they were killed", flush=True)


if __name__ == "__main__":
    main()
