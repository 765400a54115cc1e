"""Copies a file to an NFS server by libnfs, in WRITEs of a megabyte: nfs_write.py SOURCE URL. Debian's nfs-cp does not
write more than a kilobyte by version 4."""

import ctypes
import sys

PIECE = 1 << 20


class Url(ctypes.Structure):
    _fields_ = (("server", ctypes.c_char_p), ("path", ctypes.c_char_p), ("file", ctypes.c_char_p))


def main():
    source, place = sys.argv[1:]
    nfs = ctypes.CDLL("libnfs.so.13")
    nfs.nfs_init_context.restype = ctypes.c_void_p
    nfs.nfs_parse_url_full.restype = ctypes.POINTER(Url)
    nfs.nfs_get_error.restype = ctypes.c_char_p
    context = ctypes.c_void_p(nfs.nfs_init_context())

    def must(result, what):
        if result < 0:
            raise SystemExit(f"{what}: {nfs.nfs_get_error(context).decode()}")
        return result

    url = nfs.nfs_parse_url_full(context, place.encode()).contents
    must(nfs.nfs_mount(context, url.server, url.path), "mount")
    handle = ctypes.c_void_p()
    must(nfs.nfs_creat(context, url.file, 0o600, ctypes.byref(handle)), "create")
    offset = 0
    with open(source, "rb") as file:
        while piece := file.read(PIECE):
            while piece:
                done = must(nfs.nfs_pwrite(context, handle, ctypes.c_uint64(offset), ctypes.c_uint64(len(piece)), piece),
                            f"write at {offset}")
                offset, piece = offset + done, piece[done:]
    must(nfs.nfs_close(context, handle), "close")


main()
