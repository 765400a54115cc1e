"""The units of the agent and of services, as the build has made them."""

import os

SERVICES = ("target", "nfs-serve", "nfs-client", "rds", "lnet")
UNITS = (("system", "verbatimd@"), ("user", "verbatimd@"), *(("user", f"verbatim-{kind}@") for kind in SERVICES))


def unit_text(build, kind, unit="verbatimd@"):
    """Returns the unit with the build's program, which is not installed."""
    with open(f"{build}/systemd/{kind}/{unit}.service", encoding="utf-8") as file:
        lines = file.read().splitlines()
    program = f"{os.path.abspath(build)}/bin/{'verbatimd' if unit == 'verbatimd@' else 'verbatim'}"
    return "\n".join(f"ExecStart={program}{line[line.index(' '):]}" if line.startswith("ExecStart=") else line
                     for line in lines) + "\n"


def service_settings(text):
    """Returns the lines of [Service], in the form of systemd-run."""
    section = text.split("[Service]\n")[1].split("\n[")[0]
    return [line for line in section.splitlines() if "=" in line and not line.startswith("#")]
