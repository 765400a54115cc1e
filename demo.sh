#!/bin/bash
# Runs Debian's own, unmodified RDMA programs between two emulated hosts of this machine. See --help.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")" || exit

usage() {
  cat <<'END'
Usage: ./demo.sh

Builds Verbatim where needed (./setup.sh), then runs ibv_devices, ibv_devinfo, the ping-pong programs
of ibverbs-utils and the bandwidth and latency programs of perftest between node a (127.0.0.2) and node
b (127.0.0.3), then some of them between two hosts of an InfiniBand fabric under opensm, and prints a table.
The exit status is 0 where all of them succeeded.

VERBATIM_BUILD=FOLDER uses that build instead of ./build and builds nothing.
END
}

case ${1-} in
  "") ;;
  -h | --help) usage && exit 0 ;;
  *) usage >&2 && exit 2 ;;
esac

if [[ -z ${VERBATIM_BUILD-} ]]; then ./setup.sh || exit 1; fi
verbatim=${VERBATIM_BUILD:-$PWD/build}/bin/verbatim
address_a=127.0.0.2
address_b=127.0.0.3
seconds_max=20 # Of one program.

# A new runtime folder, so that the demo does not meet other nodes.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/verbatim-demo.XXXXXX")
export XDG_RUNTIME_DIR=$scratch
unset VERBATIM_NODE VERBATIM_ADDRESS VERBATIM_HOST VERBATIM_FABRIC
server_pid=
client_pid=

# Running agents of the demo's nodes: they end soon after the last program, or with the fabric.
agents() {
  local folder
  for folder in /proc/[0-9]*; do
    [[ $(cat "$folder/comm" 2>/dev/null) == verbatimd ]] || continue
    tr '\0' '\n' 2>/dev/null <"$folder/environ" | grep -qxF "XDG_RUNTIME_DIR=$scratch" &&
      echo "${folder#/proc/}"
  done
}

cleanup() {
  trap - EXIT
  local pid
  # Each is a `timeout`, which forwards the signal to its program.
  for pid in $server_pid $client_pid; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null; done
  for pid in $(agents); do kill "$pid" 2>/dev/null; done
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'echo "demo: interrupted"; exit 130' INT TERM

on_a=(timeout "$seconds_max" "$verbatim" run --node a --address "$address_a" --)
on_b=(timeout "$seconds_max" "$verbatim" run --node b --address "$address_b" --)

# is_listening PORT: true if a TCP socket of this network namespace listens there.
is_listening() {
  local port_hex
  printf -v port_hex %04X "$1"
  grep -qs "^ *[0-9]*: [0-9A-F]*:$port_hex [0-9A-F]*:0000 0A" /proc/net/tcp /proc/net/tcp6
}

free_port() {
  local port=$((20000 + $$ % 8000))
  while grep -qs ":$(printf %04X "$port") [0-9A-F]*:" /proc/net/tcp /proc/net/tcp6; do
    port=$((port + 1))
  done
  echo "$port"
}

# Prints the figure in the output of a client, in words, or nothing.
figure() {
  case $1 in
    ibv_*_pingpong) awk '/usec\/iter/ { printf "%.2f us a round trip", $(NF - 1) }' "$2" ;;
    # #bytes #iterations BW_peak BW_average MsgRate
    *_bw) awk '$1 ~ /^[0-9]+$/ && NF == 5 { last = $0 } END { if (split(last, f)) {
            if (f[1] >= 64) printf "%.0f MB/s with %d bytes", f[4] * 1.048576, f[1]
            else printf "%.3f million/s with %d bytes", f[5], f[1] } }' "$2" ;;
    # #bytes #iterations t_min t_max t_typical t_avg t_stdev 99% 99.9%
    *_lat) awk '$1 ~ /^[0-9]+$/ && NF >= 6 { printf "%.2f us with %d bytes", $5, $1 }' "$2" ;;
  esac
}

rows=()
programs=0
failures=0

# report PROGRAM STATUS FIGURE
report() {
  local result=passed
  programs=$((programs + 1))
  if [[ $2 -ne 0 ]]; then
    result=FAILED
    failures=$((failures + 1))
  fi
  printf '%-8s %s\n' "$result" "$3"
  rows+=("$(printf '%-18s %-8s %s' "$1" "$result" "$3")")
}

# single PROGRAM PATTERN: runs a program on node a alone; its output must match.
single() {
  printf '  %-18s ' "$1"
  local log=$scratch/$1.log status=0 found
  "${on_a[@]}" "$1" >"$log" 2>&1 || status=$?
  found=$(grep -m1 -o -E "$2" "$log" | tr -s '[:space:]' ' ') || status=1
  report "$1" "$status" "$found"
  if [[ $status -ne 0 ]]; then sed 's/^/    /' "$log"; fi
}

# pair PROGRAM ARGUMENTS...: runs it as server on node a and as client on node b.
pair() {
  local program=$1 port status=0 server_status=0 text
  shift
  printf '  %-18s ' "$program"
  local server_log=$scratch/$program.server.log client_log=$scratch/$program.client.log
  port=$(free_port)
  "${on_a[@]}" "$program" -p "$port" "$@" >"$server_log" 2>&1 &
  server_pid=$!
  while ! is_listening "$port" && kill -0 "$server_pid" 2>/dev/null; do sleep 0.02; done
  "${on_b[@]}" "$program" -p "$port" "$@" "$address_a" >"$client_log" 2>&1 &
  client_pid=$!
  wait "$client_pid" || status=$?
  client_pid=
  if [[ $status -ne 0 ]]; then kill "$server_pid" 2>/dev/null; fi # No client will connect any more.
  wait "$server_pid" || server_status=$?
  server_pid=
  text=$(figure "$program" "$client_log")
  if [[ $status -eq 0 && -z $text ]]; then status=1; fi
  report "$program" "$((status == 0 ? server_status : status))" "$text"
  if [[ $status -ne 0 || $server_status -ne 0 ]]; then
    sed 's/^/    server: /' "$server_log"
    sed 's/^/    client: /' "$client_log"
    echo "    exit status: server $server_status, client $status (124: over $seconds_max seconds)"
  fi
}

SECONDS=0
echo
echo "Two nodes: a ($address_a) and b ($address_b); servers run on a, clients on b."
single ibv_devices '[a-z]+[0-9]+[[:space:]]+[0-9a-f]{16}'
single ibv_devinfo 'PORT_ACTIVE'
for program in ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong; do pair "$program" -g 1; done
for program in ib_send_bw ib_write_bw ib_read_bw ib_send_lat ib_write_lat ib_read_lat ib_atomic_bw; do
  pair "$program" -F
done

echo
# In root's folders, where `verbatim` finds them. All of them; `command -v` succeeds if one is there.
if PATH=$PATH:/usr/sbin:/sbin type -P opensm ibnetdiscover >/dev/null; then
  echo "An InfiniBand fabric of 8 hosts and 6 switches: servers run on host H1, clients on H8, three switches away."
  "$verbatim" fabric generate fat-tree --hosts 8 --switch-ports 4 |
    "$verbatim" fabric up - --manager opensm --ends-with $$ || failures=$((failures + 1))
  on_a=(timeout "$seconds_max" "$verbatim" run --host H1 --)
  on_b=(timeout "$seconds_max" "$verbatim" run --host H8 --)
  address_a=127.0.0.1 # Where the programs exchange their LIDs.
  rows+=("on hosts of the fabric:")
  single ibnetdiscover 'Switch[[:space:]]+[0-9]+ "[^"]+"[[:space:]]+# "S2"'
  pair ibv_rc_pingpong
  for program in ib_write_bw ib_read_bw ib_send_lat; do pair "$program" -F; done
  "$verbatim" fabric down || failures=$((failures + 1))
else
  echo "There is no InfiniBand fabric: opensm and ibnetdiscover are not installed (opensm, infiniband-diags)"
fi

echo
printf '%-18s %-8s %s\n' PROGRAM RESULT "BANDWIDTH OR LATENCY"
printf '%s\n' "${rows[@]}"
echo
if [[ $failures -gt 0 ]]; then
  echo "demo: $failures of $programs programs failed (their output is above)"
  exit 1
fi
echo "demo: all $programs programs passed, in $SECONDS seconds"
