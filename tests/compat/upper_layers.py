"""Rows of programs on top of verbs that bring a protocol of their own: uDAPL, live migration; and of
one that watches the port. Each runs over every path and protocol that it works on, with contents checked."""

from row import Row

# How the nodes are joined: what the row's name says, and its fields.
PATHS = {
    "wire": {},
    "wire, iWARP": {"protocol": "iwarp"},
    "direct": {"near": True},
    "direct, iWARP": {"near": True, "protocol": "iwarp"},
}


def _dapl():
    group = "dapl2-utils"
    validated = "client SR 4096 2 server SR 4096 2 client RW 4096 2 server RR 4096 2 client SR 1024 server SR 1024"
    runs = (
        ("dtest", "dtest -P verbatim", "-b 65536 -D", r"(?s)DAPL Test Complete\. PASSED"),
        ("dtestcm -c 200", "dtestcm -P verbatim -c 200", "", "ALL 200 CONNECTED on Client"),
        ("dtestx", "dtestx -P verbatim", "", "PASSED"),
    )
    # A provider for each node: its address is part of the file.
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
                continue  # RNICs are connected by rdma_cm alone; and on one host both ends take the same address.
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
                          quick=path in ("wire", "direct, iWARP"), **fields)


def _qemu():
    for path, fields in PATHS.items():
        yield Row("qemu-system-x86", f"migrate rdma: ({path})", "bash {here}/migrate.sh {folder} rdma:{a}:{port}",
                  "bash -c 'exec qemu-system-x86_64 -machine pc,accel=tcg -m 64 -nodefaults -nographic -S -monitor stdio "
                  "-incoming rdma:{a}:{port} <> {folder}/commands > {folder}/answers'",
                  before="mkfifo {folder}/commands", expect="the same memory", **fields)


def _exporter():
    # On the wire alone: the direct path sends no packets, so that the port counts none.
    yield Row("prometheus-node-exporter", "--collector.infiniband",
              "python3 -B {here}/scrape.py {a} {port} {port}", "ib_write_bw -F -p {port} -n 500 -s 65536",
              expect=r"the port has sent \d{8} bytes", quick=True)


def rows():
    for some in (_dapl(), _qemu(), _exporter()):
        yield from some
