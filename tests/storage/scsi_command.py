#!/usr/bin/env python3
"""One SCSI command by libiscsi, over iSCSI: prints its status, and what came or the sense (key/code)."""

import argparse
import ctypes
import sys

NORMAL, NONE, READ, WRITE = 2, 0, 1, 2


class Sense(ctypes.Structure):
    _fields_ = [("error_type", ctypes.c_ubyte), ("key", ctypes.c_int), ("code", ctypes.c_int),
                ("field_pointer", ctypes.c_uint)]


class Task(ctypes.Structure):
    """The beginning of libiscsi's struct scsi_task."""
    _fields_ = [("status", ctypes.c_int), ("cdb_bytes", ctypes.c_int), ("direction", ctypes.c_int),
                ("expected", ctypes.c_int), ("cdb", ctypes.c_ubyte * 16), ("residual_status", ctypes.c_int),
                ("residual", ctypes.c_size_t), ("sense", Sense), ("in_bytes", ctypes.c_int),
                ("data", ctypes.POINTER(ctypes.c_ubyte))]


class Data(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("data", ctypes.c_char_p)]


def library():
    iscsi = ctypes.CDLL("libiscsi.so.7")
    iscsi.iscsi_create_context.restype = ctypes.c_void_p
    iscsi.iscsi_get_error.restype = ctypes.c_char_p
    iscsi.scsi_create_task.restype = ctypes.POINTER(Task)
    iscsi.iscsi_scsi_command_sync.restype = ctypes.POINTER(Task)
    iscsi.iscsi_scsi_command_sync.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(Task), ctypes.POINTER(Data)]
    return iscsi


class Session:
    def __init__(self, portal, target, initiator):
        self.iscsi = library()
        self.context = ctypes.c_void_p(self.iscsi.iscsi_create_context(initiator.encode()))
        self.iscsi.iscsi_set_targetname(self.context, target.encode())
        self.iscsi.iscsi_set_session_type(self.context, NORMAL)
        for step in (lambda: self.iscsi.iscsi_connect_sync(self.context, portal.encode()),
                     lambda: self.iscsi.iscsi_login_sync(self.context)):
            if step() != 0:
                raise SystemExit(self.iscsi.iscsi_get_error(self.context).decode())

    def command(self, lun, cdb, in_bytes, out):
        direction = WRITE if out else READ if in_bytes else NONE
        task = self.iscsi.scsi_create_task(len(cdb), cdb, direction, len(out) or in_bytes)
        data = Data(len(out), out)
        done = self.iscsi.iscsi_scsi_command_sync(self.context, lun, task, ctypes.byref(data) if out else None)
        if not done:
            raise SystemExit(self.iscsi.iscsi_get_error(self.context).decode())
        return done.contents


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("portal")
    parser.add_argument("target")
    parser.add_argument("cdb", type=bytes.fromhex)
    parser.add_argument("--lun", type=int, default=0)
    parser.add_argument("--initiator", default="iqn.2026-01.com.test:i1")
    parser.add_argument("--in-bytes", type=int, default=0)
    parser.add_argument("--out", type=bytes.fromhex, default=b"")
    options = parser.parse_args()
    session = Session(options.portal, options.target, options.initiator)
    done = session.command(options.lun, options.cdb, options.in_bytes, options.out)
    # After a refusal the data is the sense.
    said = f"{done.sense.key:x}/{done.sense.code:04x}" if done.status == 2 else bytes(done.data[:done.in_bytes]).hex()
    print(f"status {done.status}", said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
