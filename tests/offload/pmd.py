"""Debian's dpdk-testpmd as a client of a card, and frames to and from the card's interfaces. In namespaces of the test's
own."""

import os
import socket
import struct
import subprocess
import sys

SKIPPED = 77
PATIENCE = 30
MARK = bytes.fromhex("020000000002020000000001" "88b5") + bytes(46)  # Comes after all other frames.
PROMPT = "testpmd> "


def inside(build, script):
    """Runs the script in namespaces of its own, as an ordinary user may; returns if it is there already, or the status with
    which it skips."""
    if os.environ.get("VERBATIM_TEST_INSIDE") == "1":
        return None
    missing = None
    if subprocess.run(["which", "dpdk-testpmd"], stdout=subprocess.DEVNULL, check=False).returncode != 0:
        missing = "dpdk-testpmd is not installed (package dpdk-dev)"
    elif not os.path.exists(f"{build}/lib/librte_net_verbatim.so"):
        missing = "the DPDK driver is not built (./setup.sh nic)"
    elif not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        missing = "/dev/net/tun cannot be opened"
    elif subprocess.run(["unshare", "-Urnm", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        missing = "no user namespaces"
    if missing:
        print(f"skipped: {missing}")
        return SKIPPED
    os.environ["VERBATIM_TEST_INSIDE"] = "1"
    return os.execvp("unshare", ["unshare", "-Urnm", "--kill-child", sys.executable, "-B", script, *sys.argv[1:]])


def eal(build, folder, megabytes):
    """What every DPDK program gets: our driver, no huge pages."""
    os.environ["LD_LIBRARY_PATH"] = f"{build}/lib"
    return ["--no-huge", "--legacy-mem", "-m", str(megabytes), "--no-pci", "--no-shconf", "--no-telemetry", "-d",
            "librte_net_verbatim.so", f"--vdev=net_verbatim0,socket={folder}/card.sock"]


class Card:
    """With the interfaces tup, tvf0..."""

    def __init__(self, build, folder, *words):
        self.verbatim = f"{build}/bin/verbatim"
        os.environ["XDG_RUNTIME_DIR"] = folder
        subprocess.run(["sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1"], check=False)
        self.command("up", "--prefix", "t", "--socket", f"{folder}/card.sock", *words)
        self.sockets = {}

    def command(self, *words):
        done = subprocess.run([self.verbatim, "nic", *words], text=True, check=False, capture_output=True, timeout=60)
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def socket(self, name):
        if name not in self.sockets:
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
            made.bind((name, 0))
            made.settimeout(PATIENCE)
            self.sockets[name] = made
        return self.sockets[name]

    def exchange(self, source, to, *frames):
        """Sends frames, and the mark after them; returns what came at `to` before that."""
        receiver, sender = self.socket(to), self.socket(source)
        for frame in (*frames, MARK):
            sender.send(frame)
        came = []
        while True:
            frame, where = receiver.recvfrom(65536)
            if where[2] == socket.PACKET_OUTGOING:
                continue
            if frame[:len(MARK)] == MARK:
                return came
            came.append(frame)


class TestPmd:
    """Asks it and reads until it asks for the next command."""

    def __init__(self, build, folder, *words):
        self.process = subprocess.Popen(
            ["stdbuf", "-o0", "dpdk-testpmd", "-l", "0,1", *eal(build, folder, 128), "--", "-i",
             "--mask-event=all", "--total-num-mbufs=8192",
             *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self._read()

    def _read(self):
        said = b""
        while not said.endswith(PROMPT.encode()):
            byte = self.process.stdout.read(1)
            if not byte:
                raise AssertionError(f"testpmd has ended: {said.decode()}")
            said += byte
        return said.decode()[:-len(PROMPT)]

    def ask(self, command):
        self.process.stdin.write(f"{command}\n".encode())
        self.process.stdin.flush()
        return self._read().split("\n", 1)[-1]

    def quit(self):
        self.process.stdin.write(b"quit\n")
        self.process.stdin.flush()
        self.process.communicate(timeout=PATIENCE)
        return self.process.returncode


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def ip(protocol, payload, source=(10, 9, 0, 1), to=(10, 9, 0, 2)):
    header = struct.pack("!BBHHHBBH4B4B", 0x45, 0, 20 + len(payload), 7, 0, 64, protocol, 0, *source, *to)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def udp(source, to, payload=bytes(20)):
    return struct.pack("!HHHH", source, to, 8 + len(payload), 0) + payload


def frame(packet, to=2):
    return bytes((2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 1, 8, 0)) + packet


def udp_frame(source=1000, to=2000, **more):
    return frame(ip(17, udp(source, to), **more))


def vxlan(network, inner, port=4789):
    return frame(ip(17, udp(5555, port, struct.pack("!II", 0x08000000, network << 8) + inner)))
