"""What is run of which program: the table behind docs/compatibility.md. Every program is Debian's, unmodified.

`server` runs on node a, `client` on node b; a row without a server runs on node a alone. In both, {a} and {b}
are the nodes' addresses, {a6} and {b6} their IPv6 ones, {port} a free port, {folder} a folder of the row's own, {build} the build folder,
{here} this file's.
"""

import services
import upper_layers
from row import Row


def _alone(group, program, arguments="", expect="", quick=True):
    words = f"{program} {arguments}".strip()
    return Row(group, words, words, expect=expect, quick=quick)


def _ibverbs_utils():
    group = "ibverbs-utils"
    yield _alone(group, "ibv_devices", expect="verbatim0")
    yield _alone(group, "ibv_devinfo", "-v", expect="PORT_ACTIVE")
    pingpong = (
        "ibv_rc_pingpong -c", "ibv_rc_pingpong -c -e", "ibv_rc_pingpong -c -N", "ibv_rc_pingpong -c -t",
        "ibv_rc_pingpong -c -o", "ibv_rc_pingpong -c -o -P", "ibv_rc_pingpong -c -j", "ibv_rc_pingpong -c -j -N",
        "ibv_uc_pingpong -c", "ibv_ud_pingpong -c", "ibv_ud_pingpong -c -e",
        "ibv_srq_pingpong -c", "ibv_srq_pingpong -c -q 8 -e",
        "ibv_xsrq_pingpong -c 1", "ibv_xsrq_pingpong -c 1 -e",
    )
    for words in pingpong:
        run = f"{words} -g 1 -p {{port}}"
        yield Row(group, words, f"{run} {{a}}", run, expect="usec/iter|Mbit/sec|success", quick=True)


def _perftest():
    group = "perftest"
    operations = {"ib_send": "RC UC UD XRC", "ib_write": "RC UC XRC", "ib_read": "RC XRC", "ib_atomic": "RC XRC"}
    figures = r"(?m)^ *\d+ +\d+ +[\d.]+ "
    for operation, services in operations.items():
        for kind in ("bw", "lat"):
            program = f"{operation}_{kind}"
            for service in services.split():
                # perftest refuses UC and XRC with the connection manager.
                variants = ["", "-R"] if service in ("RC", "UD") else [""]
                if service == "RC":
                    variants += ["--use_old_post_send", "-e" if operation != "ib_write" else "-I 64"]
                    if operation in ("ib_send", "ib_write") and kind == "bw":
                        variants += ["-b", "-q 4", "--use_old_post_send -q 2 -b"]
                if operation == "ib_send" and service in ("RC", "UD"):
                    variants.append("--use-srq")
                for variant in variants:
                    words = f"{program} -c {service} {variant}".strip()
                    few = "-n 16" if service in ("UC", "UD") else "-n 200"
                    if operation == "ib_atomic" and "-I" in variant:
                        continue
                    # Atomics have no choice of service except by -c, like the others.
                    run = f"{words} -F {few} -p {{port}}"
                    yield Row(group, words, f"{run} {{a}}", run, expect=figures,
                              quick=service in ("RC", "XRC") and variant in ("", "-R"))
    for program in ("raw_ethernet_bw", "raw_ethernet_lat"):
        words = "-d verbatim0 -n 200 -s 256 -F"
        yield Row(group, program,
                  f"{program} --client {words} -B {{mac_b}} -E {{mac_a}}",
                  f"{program} --server {words} -B {{mac_a}} -E {{mac_b}}", expect=figures)


def _rdmacm_utils():
    group = "rdmacm-utils"
    listen = "-s -a {a} -p {port}"
    yield Row(group, "rping -V", "rping -c -a {a} -p {port} -C 50 -V -v", f"rping {listen} -C 50 -V",
              expect="rdma-ping-49", quick=True)
    yield Row(group, "rping -P", "rping -c -a {a} -p {port} -C 10 -V -v", f"rping {listen} -P",
              expect="rdma-ping-9", ends=False)
    yield Row(group, "rping -q", "rping -c -a {a} -p {port} -C 10 -V -v -q", f"rping {listen} -C 10 -V -q",
              expect="rdma-ping-9")
    for family, address in (("IPv6", "{a6}"), ("AF_IB", "-f gid ::ffff:{a}")):
        gid = address.startswith("-f")
        to, at = (address.split()[2], "-f gid ") if gid else (address, "")
        source = " -b ::ffff:{b}" if gid else ""
        for program, more in (("ucmatose", "-c 4"), ("rstream", "-S 65536 -C 100")):
            words = f"{program} {at}{more} -p {{port}}"
            yield Row(group, f"{program}, {family}", f"{words} -s {to}{source}", f"{words} -b {to}",
                      expect="return status 0" if program == "ucmatose" else "Gb/s|Gb/sec", quick=True)
    yield Row(group, "rping, IPv6", "rping -c -a {a6} -p {port} -C 50 -V -v", "rping -s -a {a6} -p {port} -C 50 -V",
              expect="rdma-ping-49", quick=True)
    yield Row(group, "udaddy, IPv6", "udaddy -s {a6} -c 4", "udaddy -b {a6} -c 4", expect="return status 0")
    yield Row(group, "ucmatose", "ucmatose -s {a} -p {port} -c 8", "ucmatose -b {a} -p {port} -c 8",
              expect="return status 0", quick=True)
    yield Row(group, "ucmatose -m", "ucmatose -s {a} -p {port} -c 4 -m", "ucmatose -b {a} -p {port} -c 4 -m",
              expect="return status 0")
    yield Row(group, "udaddy", "udaddy -s {a} -c 4", "udaddy -b {a} -c 4",
              expect="return status 0", quick=True)
    yield Row(group, "mckey", "mckey -m 239.7.7.7 -b {b} -s", "mckey -m 239.7.7.7 -b {a}",
              expect="return status 0", quick=True)
    yield Row(group, "rdma_server, rdma_client", "rdma_client -s {a} -p {port}", "rdma_server -p {port}",
              expect="rdma_client: end 0", quick=True)
    for kind in ("r", "x"):
        yield Row(group, f"rdma_xserver, rdma_xclient -c {kind}", f"rdma_xclient -s {{a}} -p {{port}} -c {kind}",
                  f"rdma_xserver -p {{port}} -c {kind}", expect="rdma_xclient: end 0", quick=True)
    for words in ("rstream -S 65536 -C 100", "rstream -S all -C 20", "rstream -S 65536 -C 100 -T v",
                  "rstream -S 4096 -C 100 -T a", "rstream -S 4096 -C 100 -T n", "rstream -S 4096 -C 100 -T r",
                  "riostream -S 65536 -C 100", "riostream -S 65536 -C 100 -T v"):
        yield Row(group, words, f"{words} -s {{a}} -p {{port}}", f"{words} -b {{a}} -p {{port}}",
                  expect="Gb/s|gbps|Gb/sec|usec", quick="-S all" not in words)
    for words in ("udpong -S 512 -C 100", "udpong -S 512 -C 100 -T e"):
        yield Row(group, words, f"{words} -s {{a}} -p {{port}}", f"{words} -b {{a}} -p {{port}}",
                  expect="usec|Gb/s", quick=True, ends=False)
    yield Row(group, "rcopy", "rcopy {folder}/source {a}:{folder}/copy -p {port}", "rcopy -p {port}",
              before="head -c 30000000 /dev/urandom > {folder}/source", after="cmp {folder}/source {folder}/copy",
              ends=False, quick=True)
    yield Row(group, "cmtime", "cmtime -s {a} -p {port} -c 50", "cmtime -b {a} -p {port} -c 50", expect="connect", ends=False)


def _qperf():
    """Over RoCE qperf addresses its peer completely only with the connection manager, which it supports only for
    RC."""
    served = (
        "rc_bi_bw rc_bw rc_lat rc_rdma_read_bw rc_rdma_read_lat rc_rdma_write_bw rc_rdma_write_lat "
        "rc_rdma_write_poll_lat rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add").split()
    refused = (
        "uc_bi_bw uc_bw uc_lat ud_bi_bw ud_bw ud_lat "
        "uc_rdma_write_bw uc_rdma_write_lat uc_rdma_write_poll_lat").split()
    for test in served:
        yield Row("qperf", f"-cm 1 {test}", f"qperf {{a}} -lp {{port}} -t 1 -cm 1 {test}", "qperf -lp {port}",
                  expect=rf"(?m)^{test}:\n +(bw|latency|send_bw|msg_rate)", ends=False,
                  quick=test in ("rc_bw", "rc_rdma_read_lat", "ver_rc_fetch_add"))
    for test in refused:
        yield Row("qperf", test, f"qperf {{a}} -lp {{port}} -t 1 {test}", "qperf -lp {port}", ends=False,
                  expect="failed to (modify QP to RTR|create address handle)", quick=test == "ud_lat",
                  refused="qperf gives no GRH, which RoCE needs: every RoCE device refuses it")


def _ucx():
    group = "ucx-utils"
    yield Row(group, "ucx_info -d", "ucx_info -d", expect="rc_verbs[^$]*ud_verbs", quick=True)
    uct = "am_lat put_lat add_lat get fadd swap cswap am_bw put_bw add_mr".split()
    for transport in ("rc_verbs", "ud_verbs"):
        for test in uct:
            if transport == "ud_verbs" and not test.startswith("am_"):
                continue  # UD has only active messages.
            layout = "-D zcopy" if test == "get" else ""
            if test == "get":
                layout = "-D bcopy"
            run = f"ucx_perftest -t {test} -d verbatim0:1 -x {transport} {layout} -n 2000 -w 100 -p {{port}}"
            if test == "swap":
                yield Row(group, f"{transport} {test}", f"{run} {{a}}", run, ends=False,
                          expect="does not support required 64-bit atomic: swap",
                          refused="verbs have no swap: UCX has it on NVIDIA's own interface alone")
            else:
                yield Row(group, f"{transport} {test}", f"{run} {{a}}", run, expect="Final:",
                          quick=test == "am_lat")
    ucp = ("tag_lat tag_bw tag_sync_lat tag_sync_bw ucp_put_lat ucp_put_bw ucp_get ucp_add ucp_fadd ucp_swap "
           "ucp_cswap stream_bw stream_lat ucp_am_lat ucp_am_bw").split()
    for transport in ("rc_v", "ud_v"):
        for test in ucp:
            size = "8" if test.split("_")[-1] in ("add", "fadd", "swap", "cswap") else "8 -s 100000"
            run = (f"env UCX_TLS={transport},self UCX_NET_DEVICES=verbatim0:1 ucx_perftest -t {test} "
                   f"-s {size.split()[0]} -n 1000 -w 100 -p {{port}}")
            yield Row(group, f"UCX_TLS={transport} {test}", f"{run} {{a}}", run, expect="Final:",
                      quick=test in ("tag_bw", "stream_lat"))
    # ucx_perftest 1.13 cannot set them up by address, over rdma_cm.
    for transport in ("rc_v", "ud_v"):
        run = (f"env UCX_TLS={transport} UCX_NET_DEVICES=verbatim0:1 UCX_SOCKADDR_TLS_PRIORITY=rdmacm "
               "{program} {port}")
        yield Row(group, f"UCX_TLS={transport}, connected over rdmacm", f"{run} {{a}}", run,
                  expect="messages came back", source="ucp_sockaddr.c -lucp -lucs", quick=True)


def _libfabric():
    group = "libfabric-bin"
    yield _alone(group, "fi_info", "-p verbs", expect="FI_EP_MSG")
    for kind, provider in (("msg", "verbs"), ("rdm", "verbs;ofi_rxm"), ("dgram", "verbs")):
        run = f"fi_pingpong -p '{provider}' -e {kind} -c -I 10 -S all"
        yield Row(group, f"fi_pingpong -p {provider} -e {kind}", f"{run} -P {{port}} {{a}}",
                  f"{run} -B {{port}}", expect=r"(?m)^\d.*\d$", quick=True)


def _open_mpi():
    for transport in ("rc_v", "ud_v"):
        yield Row("openmpi-bin", f"ring, all-to-all, Put, Get, Accumulate over UCX_TLS={transport}",
                  f"mpi {transport}", expect="mpi_check: all as expected", quick=transport == "rc_v", seconds=120)


def _fio():
    """Its server serves one client. The contents are verified where the server gets each block by a message.

    fio allows no retry for RNR. Over the network a receiver that is late refuses at once, as a card does, so there
    the server's depth holds all messages."""
    for near, where in ((False, "over the network"), (True, "on one machine")):
        for verb in ("write", "read", "send"):
            words = f"fio --name=job --thread --ioengine=rdma --bs=64k --size=16m --port={{port}} --verb={verb}"
            check = " --verify=crc32c --verify_state_save=0 --do_verify=0" if verb == "send" else ""
            depth = 64 if near else 256
            client = f"{words} --rw=write --iodepth=4 --hostname={{a}}{check}"
            yield Row("fio", f"--verb={verb} --bs=64k, {where}", client,
                      f"{words} --rw=read --iodepth={depth}{check.replace(' --do_verify=0', '')}",
                      expect=r"err= 0", near=near, quick=True)


def all_rows():
    for rows in (_ibverbs_utils(), _perftest(), _rdmacm_utils(), _qperf(), _ucx(), _libfabric(), _open_mpi(), _fio(),
                 upper_layers.rows(), services.rows()):
        yield from rows
