"""Debian's nfs-ganesha, with a folder of a test's."""

import os
import shutil
import socket
import subprocess

from testbed import Failure, wait_until

CONFIGURATION = """
NFS_CORE_PARAM {{ NFS_Port = {port}; Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false; Bind_addr = 127.0.0.1;
  mount_path_pseudo = true; Enable_UDP = false; }}
NFSv4 {{ RecoveryBackend = fs; RecoveryRoot = {state}; Minor_Versions = 0,1,2; Allow_Numeric_Owners = true;
  Only_Numeric_Owners = true; Graceless = true; }}
EXPORT {{ Protocols = 4; Transports = TCP; Access_Type = RW; SecType = sys; Squash = None; Export_Id = 1; Path = {data};
  Pseudo = /data; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = EVENT; }}
"""


class NfsServer:
    """Serves `data` as /data, at 127.0.0.1. Its VFS back end needs root (CAP_DAC_READ_SEARCH)."""

    def __init__(self, folder, port):
        self.port = port
        self.data, state = os.path.join(folder, "data"), os.path.join(folder, "state")
        for one in (self.data, state):
            os.makedirs(one, exist_ok=True)
        self._log = os.path.join(folder, "ganesha.log")
        self._arguments = ["ganesha.nfsd", "-F", "-f", os.path.join(folder, "ganesha.conf"), "-L", self._log,
                           "-p", os.path.join(folder, "ganesha.pid")]
        with open(self._arguments[3], "w", encoding="ascii") as configuration:
            configuration.write(CONFIGURATION.format(port=port, state=state, data=self.data))
        self.start()

    def start(self):
        self._process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "--", *self._arguments])
        wait_until(self._listens, 60, "the NFS server to listen")

    def _listens(self):
        done = subprocess.run(["ss", "-ltnH", f"sport = :{self.port}"], capture_output=True, text=True, check=True)
        if self._process.poll() is not None:
            with open(self._log, encoding="utf-8", errors="replace") as log:
                raise Failure(f"nfs-ganesha has ended:\n{log.read()[-2000:]}")
        return done.stdout != ""

    def kill(self):
        self._process.kill()
        self._process.wait()

    def end(self):
        self._process.terminate()
        self._process.wait(20)


def why_not(alone=True):
    """Why no NFS server can run here; empty: one can. `alone`: with the addresses that this process sees."""
    if not shutil.which("ganesha.nfsd"):
        return "nfs-ganesha is not installed: ./setup.sh nfs"
    if os.geteuid() != 0:
        return "nfs-ganesha serves a folder for root alone"
    if not alone:
        return ""
    try:
        socket.getaddrinfo("127.0.0.1", None, flags=socket.AI_ADDRCONFIG)
    except socket.gaierror:
        return "this machine has no address but 127.0.0.1, which nfs-ganesha then refuses to listen at"
    return ""
