#!/bin/bash
# Runs well-known RDMA programs on two nodes, and prints which of them work. See --help.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

usage() {
  cat <<'END'
Usage: ./compat.sh [--all | --quick] [--infiniband] [--write] [--pyverbs RUNS] [--list] [PATTERN]...

Runs Debian's unmodified programs (ibverbs-utils, perftest, rdmacm-utils, qperf, UCX, libfabric, Open
MPI, fio, uDAPL, iSER, QEMU's live migration; over services: iperf3, Redis, qemu-io, libnfs...) between
two nodes in network namespaces of their own, or on loopback where the direct path is meant, each with
content or figures checked, and prints a line for each. Needs root, or a kernel that lets users have
network namespaces.

  PATTERN         only rows whose "package: arguments" has it, such as 'qperf*' or '*rping*'
  --all           every row (as without it), and rdma-core's own test suite 20 times
  --quick         only those that the default test suite runs, too
  --pyverbs RUNS  also (without --write and PATTERN: only) rdma-core's own test suite, so often
  --infiniband    only between two hosts of an InfiniBand fabric, three switches apart (--write has them, too)
  --write         writes docs/compatibility.md from what was seen
  --list          says what would run
END
}

for argument in "$@"; do
  case $argument in -h | --help) usage && exit 0 ;; esac
done
./setup.sh compat >&2
exec python3 -B tests/compat/run.py "$@"
