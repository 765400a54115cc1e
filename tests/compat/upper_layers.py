"""Rows of programs on top of verbs that bring a protocol of their own: storage (iSER), uDAPL, live migration; and of
one that watches the port. Each runs over every path and protocol that it works on, with contents checked."""

from row import Row

# How the nodes are connected: the part of the row's name, and its fields.
PATHS = {
    "wire": {},
    "wire, iWARP": {"protocol": "iwarp"},
    "direct": {"near": True},
    "direct, iWARP": {"near": True, "protocol": "iwarp"},
}


TARGET = "iqn.2001-04.com.verbatim:t"
INITIATOR = "iqn.2001-04.com.verbatim:b"
URL = f"-i {INITIATOR} iser://{{a}}:{{port}}/{TARGET}/1"
DISK_BYTES = 4 << 20  # tgtd takes less than libiscsi's limit of a second for WRITE SAME of all of it.


def _tgtd():
    """tgtd as the server of a row: one target with one disk, for one initiator."""
    control = "-C {port}"  # Number of the control socket, which must differ from those of other tests.
    target = f"tgtadm {control} --lld iser --op"
    environment = "TGT_IPC_SOCKET={folder}/tgt"
    return {
        "before": f"head -c {DISK_BYTES} /dev/zero > {{folder}}/disk",
        "server": f"env {environment} tgtd -f {control} --iscsi portal=127.0.0.1:0 --iser port={{port}}",
        # With "-I ALL" only, tgtd 1.0.85 refuses all: the initiator's name must be bound, too.
        "setup": f"export {environment}; until {target} show --mode sys > /dev/null 2>&1; do sleep 0.1; done; "
                 f"{target} new --mode target --tid 1 -T {TARGET} && "
                 f"{target} new --mode logicalunit --tid 1 --lun 1 -b {{folder}}/disk && "
                 f"{target} bind --mode target --tid 1 -I ALL && "
                 f"{target} bind --mode target --tid 1 -Q {INITIATOR}",
        "ends": False,
        # libiscsi 1.19 treats a second without an answer, which a busy machine may need, as an
        # error; and tgtd fails an assertion if an initiator is gone when it is accepted.
        "again": "revents is not POLLIN|iser_conn_free: Assertion",
    }


# Left out: Read10 and Write10 (null pointer in libiscsi once its 256 descriptors are used up),
# iSCSITMF (libiscsi's a664ca8), Inquiry's AllocLength and BlockLimits (tgtd returns another length
# than the test wants).
FAMILIES = ("CompareAndWrite", "Inquiry.Standard", "Mandatory", "OrWrite", "Read6", "Read16", "ReadCapacity16",
            "TestUnitReady", "Verify10", "Write16", "WriteSame10")


def _iser():
    # libiscsi's iser_reg_mr reads a list before it is written (fixed upstream by b4ba920):
    # MALLOC_PERTURB_ fills it.
    perturbed = "env MALLOC_PERTURB_=255"
    families = " ".join(FAMILIES)
    all_passed = rf"(?s)(asserts +(\d+) +\2 +\2 +0 .*?){{{len(FAMILIES)}}}"
    for path, fields in PATHS.items():
        target = _tgtd() | fields
        # At the first login tgtd allocates and registers 1 GiB of buffers, which takes longer than
        # libiscsi waits.
        logged_in = f"until iscsi-inq {URL} > /dev/null 2>&1; do sleep 0.2; done"
        yield Row("libiscsi-bin", f"iscsi-inq, iscsi-readcapacity16, iscsi-perf, of tgtd --iser ({path})",
                  f"bash -c '{logged_in}; iscsi-inq {URL} && iscsi-readcapacity16 {URL} && iscsi-perf -m 8 -b 64 -t 2 {URL}'",
                  expect=rf"(?s)VIRTUAL-DISK.*Total size:{DISK_BYTES}.*iops average", seconds=120, **target)
        yield Row("libiscsi-bin", f"iscsi-test-cu, {len(FAMILIES)} families, of tgtd --iser ({path})",
                  f"bash -c '{logged_in}; for family in {families}; do {perturbed} iscsi-test-cu -d -t ALL.$family {URL} || exit; "
                  "done'",
                  expect=all_passed, seconds=600, **target)
        disk = (f"driver=raw,file.driver=iscsi,file.transport=iser,file.portal={{a}}:{{port}},file.target={TARGET},"
                f"file.lun=1,file.initiator-name={INITIATOR}")
        sizes = ("512", "4k", "64k", "256k")  # From 512 KiB on libiscsi 1.19 frees memory that it does not own.
        steps = [f"-c \"{step} -P {number + 17} {number}M {size}\"" for step in ("write", "read")
                 for number, size in enumerate(sizes)]
        yield Row("qemu-block-extra", f"qemu-io, of tgtd --iser ({path})",
                  f"bash -c '{logged_in}; {perturbed} qemu-io {' '.join(steps)} --image-opts {disk}'",
                  expect=r"(?s)^(?!.*Pattern verification failed).*read 262144/262144", seconds=120, **target)


def _dapl():
    group = "dapl2-utils"
    validated = "client SR 4096 2 server SR 4096 2 client RW 4096 2 server RR 4096 2 client SR 1024 server SR 1024"
    runs = (
        ("dtest", "dtest -P verbatim", "-b 65536 -D", r"(?s)DAPL Test Complete\. PASSED"),
        ("dtestcm -c 200", "dtestcm -P verbatim -c 200", "", "ALL 200 CONNECTED on Client"),
        ("dtestx", "dtestx -P verbatim", "", "PASSED"),
    )
    # One provider per node, because the file contains its address.
    before = {
        "rdma_cm": "for node in {a} {b}; do echo \"verbatim u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "
                   "\\\"$node 0\\\" \\\"\\\"\" > {folder}/$node.conf; done",
        "sockets": "for node in {a} {b}; do echo 'verbatim u2.0 nonthreadsafe default libdaploscm.so.2 dapl.2.0 "
                   "\"verbatim0 1\" \"\"' > {folder}/$node.conf; done",
    }
    at = "env DAT_OVERRIDE={folder}/{%s}.conf "
    for provider, make in before.items():
        for path, fields in PATHS.items():
            if provider == "sockets" and path != "wire":
                continue  # rdma_cm is the only way to connect RNICs; and on one host both ends use the same address.
            for name, program, more, expect in runs:
                if name == "dtestx" and "iWARP" in path:
                    continue
                yield Row(group, f"{name}, over {provider} ({path})", f"{at % 'b'}{program} {more} -h {{a}}",
                          f"{at % 'a'}{program} {more} -s", expect=expect, before=make,
                          listens=0 if name.startswith("dtestcm") else 15828, **fields)
            for name, test in (("-T T -V", f"-T T -i 20 -V {validated}"), ("-T P RW", "-T P -i 500 RW 4096 2"),
                               ("-T P RR", "-T P -i 500 RR 4096 2")):
                yield Row(group, f"dapltest {name}, over {provider} ({path})",
                          f"{at % 'b'}dapltest {test.replace('-i', '-D verbatim -s {a} -i', 1)}",
                          f"{at % 'a'}dapltest -T S -D verbatim",
                          expect="Total Recv|Operation Throughput", before=make, ends=False,
                          says="Service Point Ready",
                          quick=path in ("wire", "direct, iWARP") and name.startswith("-T T"), **fields)


def _qemu():
    for path, fields in PATHS.items():
        yield Row("qemu-system-x86", f"migrate rdma: ({path})", "bash {here}/migrate.sh {folder} rdma:{a}:{port}",
                  "bash -c 'exec qemu-system-x86_64 -machine pc,accel=tcg -m 64 -nodefaults -nographic -S -monitor stdio "
                  "-incoming rdma:{a}:{port} <> {folder}/commands > {folder}/answers'",
                  before="mkfifo {folder}/commands", expect="the same memory", **fields)


def _exporter():
    # Only on the wire: the direct path sends no packets, so the port counts none.
    yield Row("prometheus-node-exporter", "--collector.infiniband",
              "python3 -B {here}/scrape.py {a} {port} {port}", "ib_write_bw -F -p {port} -n 500 -s 65536",
              expect=r"the port has sent \d{8,} bytes", quick=True)


def rows():
    for some in (_iser(), _dapl(), _qemu(), _exporter()):
        yield from some
