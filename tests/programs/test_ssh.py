#!/usr/bin/env python3
"""Debian's sshd as an ordinary user, and ssh, unmodified, over rsockets and SDP: its processes use one connection one after
another. A command, files both ways, and a session that ends by itself. Then servers in inetd's manner."""

import filecmp
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

from test_socket_calls import Carrier
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

SECONDS = 60
BYTES = 16 << 20
CONFIGURATION = """Port {port}
ListenAddress {address}
HostKey {folder}/host_key
PidFile none
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
"""
FORKING_MIXIN = """
import socketserver, sys
class Echo(socketserver.StreamRequestHandler):
    def handle(self):
        self.wfile.write(self.rfile.readline().upper() + self.rfile.read().upper())
class Server(socketserver.ForkingMixIn, socketserver.TCPServer):
    allow_reuse_address = True
Server((sys.argv[1], int(sys.argv[2])), Echo).serve_forever()
"""
ASK = """
import socket, sys
for number in range(3):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
        connection.sendall(b"a line\\n" * 20000)
        connection.shutdown(socket.SHUT_WR)
        found = b"".join(iter(lambda: connection.recv(65536), b""))
        assert found == b"A LINE\\n" * 20000, (number, len(found))
"""


def enter_mount_namespace():
    """As root: starts this script again where /etc/passwd may be another file."""
    if os.geteuid() == 0 and os.environ.get("VERBATIM_TEST_INSIDE") != "1":
        environment = dict(os.environ, VERBATIM_TEST_INSIDE="1")
        os.execvpe("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", *sys.argv], environment)


def ordinary(folder, home):
    """How a command becomes one of a user who is not root, since sshd does other things for root; and that user's name."""
    if os.geteuid() != 0:
        return [], pwd.getpwuid(os.geteuid()).pw_name
    nobody = pwd.getpwnam("nobody")
    own = {"passwd": f"nobody:x:{nobody.pw_uid}:{nobody.pw_gid}:nobody:{home}:/bin/sh", "shadow": "nobody:NP:20000:0:99999:7:::"}
    for name, line in own.items():
        with open(f"/etc/{name}", encoding="utf-8") as file:
            others = [one for one in file if not one.startswith("nobody:")]
        with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
            file.writelines([*others, line + "\n"])
        subprocess.run(["mount", "--bind", f"{folder}/{name}", f"/etc/{name}"], check=True)
    for path, _, names in os.walk(folder):
        for name in (path, *(os.path.join(path, one) for one in names)):
            os.chown(name, nobody.pw_uid, nobody.pw_gid)
    return ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups"], nobody.pw_name


def expect(testbed, argv, *words):
    client = testbed.start("b", argv)
    client.expect_success(SECONDS)
    for word in words:
        if word not in client.output():
            raise Failure(f"{' '.join(argv)} does not say {word!r}")
    return client


def run_ssh(testbed, carrier, folder):
    port = testbed.free_port()
    with open(f"{folder}/sshd_config", "w", encoding="ascii") as file:
        file.write(CONFIGURATION.format(port=port, address=testbed.address("a"), folder=folder))
    server = testbed.start_server("a", [shutil.which("sshd"), "-D", "-e", "-f", f"{folder}/sshd_config"], port)
    options = ["-i", f"{folder}/user_key", "-F", "/dev/null"]
    for one in ("StrictHostKeyChecking=no", f"UserKnownHostsFile={folder}/known", "BatchMode=yes"):
        options += ["-o", one]
    place = f"{testbed.user}@{testbed.address('a')}"
    expect(testbed, ["ssh", "-p", str(port), *options, place, "echo $((6 * 7)); echo $SSH_CONNECTION"], "42",
           f"{testbed.address('a')} {port}")
    for name, argv in (("get", [f"{place}:{folder}/there", f"{folder}/got"]), ("put", [f"{folder}/got", f"{place}:{folder}/put"])):
        expect(testbed, ["scp", "-q", "-P", str(port), *options, *argv])
        print(f"{carrier}: scp {name}", flush=True)
    with open(f"{folder}/batch", "w", encoding="ascii") as file:
        file.write(f"put {folder}/got {folder}/put2\n")
    expect(testbed, ["sftp", "-q", "-P", str(port), "-b", f"{folder}/batch", *options, place])
    for name in ("put", "put2"):
        if not filecmp.cmp(f"{folder}/there", f"{folder}/{name}", shallow=False):
            raise Failure(f"{carrier}: other bytes came back")
        os.remove(f"{folder}/{name}")
    os.remove(f"{folder}/got")
    wait = f"while [ ! -e {folder}/go ]; do sleep 0.1; done; rm {folder}/go; head -c 3000000 /dev/zero | wc -c"
    client = testbed.start("b", ["ssh", "-p", str(port), *options, place, wait])
    for node, name in (("a", "sshd"), ("b", "ssh")):
        wait_until(lambda node=node, name=name: any(program["name"] == name and program["queue_pairs"] for program in
                                                    testbed.status(node)), SECONDS, f"{name} to use RDMA")
    with open(f"{folder}/go", "w", encoding="ascii"):
        pass
    os.chmod(f"{folder}/go", 0o666)
    client.expect_success(SECONDS)
    if "3000000" not in client.output():
        raise Failure(f"{carrier}: not all output came")
    server.kill()
    print(f"{carrier}: ssh, scp, sftp", flush=True)


def run_inetd(testbed, carrier):
    """Servers that fork for each connection, as inetd does."""
    address = testbed.address("a")
    servers = {"ForkingMixIn": lambda port: ["/usr/bin/python3", "-c", FORKING_MIXIN, address, str(port)]}
    if shutil.which("socat"):
        servers["socat"] = lambda port: ["socat", f"TCP-LISTEN:{port},bind={address},reuseaddr,fork", "EXEC:tr a-z A-Z"]
    for name, argv in servers.items():
        port = testbed.free_port()
        server = testbed.start_server("a", argv(port), port)
        expect(testbed, ["/usr/bin/python3", "-c", ASK, address, str(port)])
        server.kill()
        print(f"{carrier}: {name}", flush=True)


class OrdinaryCarrier(Carrier):
    """All run as an ordinary user."""

    user = ""
    become = ()

    def _enter(self, node):
        return [*super()._enter(node), *self.become]


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("sshd", "ssh", "scp", "sftp", "ssh-keygen"):
        return SKIPPED
    enter_mount_namespace()
    with OrdinaryCarrier(options) as testbed:
        folder = tempfile.mkdtemp(prefix="ssh.", dir=testbed.folder)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        with open(f"{folder}/there", "wb") as file:
            file.write(os.urandom(BYTES))
        testbed.become, testbed.user = ordinary(testbed.folder, folder)
        for carrier in ("--rsockets", "--sdp"):
            testbed.options = [carrier]
            for node in "ab":
                testbed.set_variables(node, RDMAV_FORK_SAFE="1", HOME=folder)
            run_inetd(testbed, carrier)
            run_ssh(testbed, carrier, folder)
        wait_until(lambda: not testbed.status("a") and not testbed.status("b"), SECONDS, "all to leave")
    return 0


if __name__ == "__main__":
    sys.exit(main())
