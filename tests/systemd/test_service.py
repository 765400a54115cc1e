#!/usr/bin/env python3
"""The agent as a service with the settings of its unit: it says that it is ready, serves a program, stays without one,
and goes when it is stopped."""

import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "programs"))
from testbed import Testbed, option_parser  # noqa: E402
from units import service_settings, unit_text  # noqa: E402

SKIPPED = 77


def main():
    if not os.path.isdir("/run/systemd/system") or os.geteuid() != 0:
        print("skipped: systemd does not run here, or we are not root")
        return SKIPPED
    with Testbed(option_parser(__doc__).parse_args()) as testbed:
        name = f"verbatim-test-{os.getpid()}"
        runtime = f"/run/{name}"
        settings = service_settings(unit_text(testbed.build, "system"))
        changed = [f"RuntimeDirectory={name}", f"Environment=XDG_RUNTIME_DIR={runtime} VERBATIM_CONFIG={testbed.folder}"]
        kept = [line for line in settings
                if not line.startswith(("ExecStart=", "RuntimeDirectory=", "Environment=", "Restart="))]
        words = [word for line in (*kept, *changed) for word in ("-p", line)]
        environment = testbed.environment() | {"XDG_RUNTIME_DIR": runtime}
        try:
            agent = [f"{testbed.build}/bin/verbatimd", "--node", "s", "--address", testbed.address("s"), "--stay"]
            subprocess.run(["systemd-run", f"--unit={name}", "--collect", *words, *agent], check=True, timeout=30)
            for _ in range(2):  # The second finds it without a program.
                shown = subprocess.run([f"{testbed.build}/bin/verbatim", "run", "--node", "s", "--", "ibv_devinfo"],
                                       env=environment, check=True, text=True, capture_output=True, timeout=30).stdout
                assert "PORT_ACTIVE" in shown, shown
                subprocess.run(["sleep", "1"], check=True)
            pid = subprocess.run(["systemctl", "show", "-P", "MainPID", name], check=True, text=True,
                                 capture_output=True, timeout=30).stdout.strip()
            assert pid in subprocess.run([f"{testbed.build}/bin/verbatim", "status"], env=environment, check=True,
                                         text=True, capture_output=True, timeout=30).stdout
        finally:
            subprocess.run(["systemctl", "stop", name], check=False, timeout=30)
        assert not os.path.exists(runtime), f"{runtime} is left"
    return 0


if __name__ == "__main__":
    sys.exit(main())
