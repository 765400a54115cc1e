"""Rows of programs that know nothing of RDMA, over Verbatim's services: sockets by SDP, rsockets and RDS, disks of
`verbatim target` by iSER and by `verbatim disk`, files of `verbatim nfs`. (IP over InfiniBand, Lustre's network and SRP
on a fabric have no place between two nodes: tests/networks, tests/storage.)"""

from row import Row

PATHS = {"wire": {}, "direct": {"near": True}}
VERBATIM = "{build}/bin/verbatim"
IQN = "iqn.2026-01.com.example:disk"
TARGET = (f"{{build}}/bin/verbatim-ulpd target --name a --iscsi {IQN} --allow-any-initiator yes "
          "--iscsi-listen {a}:{port} --ram 16M")


def _sockets(fields, path):
    for option in ("--sdp", "--rsockets"):
        run = f"{VERBATIM} run {option} --"
        yield Row("iperf3", f"iperf3 -n 100M, run {option} ({path})", f"{run} iperf3 -c {{a}} -p {{port}} -n 100M",
                  f"{run} iperf3 -s -1 -p {{port}}", expect="receiver", quick=option == "--sdp" and path == "wire", **fields)
    run = f"{VERBATIM} run --rsockets --"
    yield Row("redis-server", f"redis-benchmark, run --rsockets ({path})",
              f"{run} redis-benchmark -h {{a}} -p {{port}} -n 2000 -c 10 -t set,get -q",
              f"{run} redis-server --bind {{a}} --port {{port}} --protected-mode no --save '' --dir {{folder}}",
              expect="(?s)SET: .*GET: ", ends=False, **fields)


def _disks(fields, path):
    url = f"iser://{{a}}:{{port}}/{IQN}/0"
    yield Row("libiscsi-bin", f"iscsi-inq, iscsi-perf by iSER, of verbatim target ({path})",
              f"bash -c 'iscsi-inq -i {IQN}.b {url} && iscsi-perf -i {IQN}.b -m 8 -b 64 -t 2 {url}'", TARGET,
              expect="(?s)RAMDISK.*iops average", ends=False, **fields)
    served = f"{VERBATIM} disk {url} --name {{port}} --socket {{folder}}/nbd"
    nbd = "nbd+unix:///?socket={folder}/nbd"
    yield Row("qemu-utils", f"qemu-io, of verbatim disk, of verbatim target ({path})",
              f"bash -c '{served} & disk=$!; until [ -S {{folder}}/nbd ]; do sleep 0.1; done; "
              f"qemu-io -f raw -c \"write -P 7 1M 4M\" -c \"read -P 7 1M 4M\" \"{nbd}\"; status=$?; "
              "kill $disk; wait $disk; exit $status'", TARGET,
              expect=r"(?s)^(?!.*verification failed).*read 4194304/4194304", ends=False, quick=path == "wire", **fields)


def _files(fields, path):
    serve = "{build}/bin/verbatim-ulpd nfs-serve --name a --folder {folder} --listen {a}:{port}"
    # Programs that speak TCP reach it by the client's gateway, at the next port.
    client = (f"{VERBATIM} nfs client {{a}}:{{port}} --listen 127.0.0.1:$(({{port}} + 1))",
              "nfs-cat \"nfs://127.0.0.1//greeting?version=4&nfsport=$(({port} + 1))\"", f"{VERBATIM} nfs down")
    yield Row("libnfs-utils", f"nfs-cat, of verbatim nfs ({path})",
              f"bash -c 'echo hello > {{folder}}/greeting; {client[0]} && {client[1]}; status=$?; {client[2]}; exit $status'", serve,
              expect="hello", ends=False, **fields)


def _rds(fields, path):
    run = f"{VERBATIM} run --rds -- python3 -c"
    receive = "import socket; one = socket.socket(21, socket.SOCK_SEQPACKET); one.bind((\\\"{a}\\\", {port})); " \
              "print(\\\"ready\\\", flush=True); data, peer = one.recvfrom(1 << 20); one.sendto(data[::-1], peer)"
    send = "import socket; one = socket.socket(21, socket.SOCK_SEQPACKET); one.bind((\\\"{b}\\\", 0)); " \
           "one.sendto(bytes(range(256)) * 1024, (\\\"{a}\\\", {port})); " \
           "print(one.recv(1 << 20) == (bytes(range(256)) * 1024)[::-1])"
    yield Row("python3-minimal", f"AF_RDS sockets, 256 KiB there and back, run --rds ({path})",
              f"bash -c '{run} \"{send}\"'", f"bash -c '{run} \"{receive}\"'", expect="True", says="ready", quick=path == "wire",
              **fields)


def rows():
    for path, fields in PATHS.items():
        for kind in (_sockets, _disks, _files, _rds):
            yield from kind(fields, path)
