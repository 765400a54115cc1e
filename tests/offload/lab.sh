# shellcheck shell=bash disable=SC2015
# Sourced by bash scripts: Open vSwitch of Debian with DPDK, without huge pages and without systemd, in a folder
# of its own; network namespaces; the card. Everything is ended by `lab_end` (a trap).
# BUILD: the build's folder.
W=$(mktemp -d); R=$W/run; mkdir -p "$R"
lab_pids=(); lab_ns=(); lab_links=()
DB=unix:$R/db.sock
export OVS_RUNDIR=$R OVS_LOGDIR=$R OVS_DBDIR=$R OVS_SYSCONFDIR=$R
vsctl() { ovs-vsctl --db="$DB" -t 20 "$@"; }
appctl() { timeout 20 ovs-appctl --target="$R/ovs-vswitchd.ctl" "$@"; }
ofctl() { timeout 20 ovs-ofctl "$@"; }
say() { printf '%s\n' "$*"; }

lab_end() {
  set +e
  local p
  [[ -s $R/ovs-vswitchd.pid ]] && { p=$(<"$R/ovs-vswitchd.pid"); kill -CONT "$p" 2>/dev/null; timeout 10 ovs-appctl --target="$R/ovs-vswitchd.ctl" exit --cleanup >/dev/null 2>&1; sleep 0.3; kill -9 "$p" 2>/dev/null; }
  [[ -s $R/ovsdb-server.pid ]] && kill "$(<"$R/ovsdb-server.pid")" 2>/dev/null
  for p in "${lab_pids[@]}"; do kill "$p" 2>/dev/null; done
  for p in "${lab_ns[@]}"; do ip netns pids "$p" 2>/dev/null | xargs -r kill -9 2>/dev/null; ip netns del "$p" 2>/dev/null; done
  for p in "${lab_links[@]}"; do ip link del "$p" 2>/dev/null; done
  [[ -n ${KEEP:-} ]] && say "kept: $W" || rm -rf "$W"
}
trap lab_end EXIT

netns() {   # netns NAME
  ip netns add "$1"; lab_ns+=("$1")
  ip netns exec "$1" sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
  ip -n "$1" link set lo up
}
into() {    # into NS LINK ADDRESS/LEN [MAC]: moves a link into a namespace as eth0
  ip link set "$2" netns "$1" name eth0
  [[ -n ${4:-} ]] && ip -n "$1" link set eth0 address "$4"
  ip -n "$1" addr add "$3" dev eth0; ip -n "$1" link set eth0 up
}
ns() { ip netns exec "$@"; }

# lab_ovs [KEY=VALUE...]: starts OVS, other_config of the arguments; EXTRA: more of dpdk-extra.
lab_ovs() {
  ovsdb-tool create "$R/conf.db" /usr/share/openvswitch/vswitch.ovsschema
  ovsdb-server "$R/conf.db" --remote="punix:$R/db.sock" --pidfile="$R/ovsdb-server.pid" --log-file="$R/ovsdb-server.log" \
    --unixctl="$R/ovsdb-server.ctl" --detach --no-chdir -vconsole:off
  vsctl --no-wait init
  vsctl --no-wait set Open_vSwitch . other_config:dpdk-init=true other_config:pmd-cpu-mask="${PMD_MASK:-0x2}" \
    other_config:dpdk-extra="--no-huge --legacy-mem -m ${MEM:-128} --no-pci --no-shconf --no-telemetry ${EXTRA:-}"
  local kv; for kv in "$@"; do vsctl --no-wait set Open_vSwitch . "other_config:$kv"; done
  lab_vswitchd
  vsctl add-br br0 -- set bridge br0 datapath_type=netdev; lab_links+=(br0 ovs-netdev)
}
lab_vswitchd() {
  LD_LIBRARY_PATH=$BUILD/lib nice -n "${NICE:-0}" /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk "$DB" \
    --pidfile="$R/ovs-vswitchd.pid" --log-file="$R/ovs-vswitchd.log" --unixctl="$R/ovs-vswitchd.ctl" --detach --no-chdir -vconsole:off ||
    { tail -20 "$R/ovs-vswitchd.log"; exit 1; }
}
# lab_card [VFS]: the card with an uplink and functions as TAPs vcup, vcvf0... in namespaces n-up, n0...
lab_card() {
  local n=${1:-2} i
  export XDG_RUNTIME_DIR=$W/runtime
  mkdir -m 700 "$XDG_RUNTIME_DIR"
  netns n-up
  for ((i = 0; i < n; i++)); do netns "n$i"; done
  lab_card_start "$n"
}
# lab_card_start VFS: starts the card, also one in the place of one that was killed, and plugs its interfaces.
lab_card_start() {
  local i
  rm -f "$R/card.sock"
  nice -n "${NICE:-0}" "$BUILD/bin/verbatim-nicd" --vfs "$1" --prefix vc --socket "$R/card.sock" --log "$R/card.log" &
  lab_card_pid=$!; lab_pids+=($!)
  for ((i = 0; i < 50; i++)); do [[ -S $R/card.sock ]] && break; sleep 0.1; done
  into n-up vcup 10.9.0.100/24 02:00:00:00:00:64
  for ((i = 0; i < $1; i++)); do into "n$i" "vcvf$i" "10.9.0.$((i + 1))/24" "02:00:00:00:00:0$((i + 1))"; done
}
# Each port says where the card is: an ovs-vswitchd that starts again adds them in any order.
lab_card_ports() {
  local n=${1:-2} i card="net_verbatim0,socket=$R/card.sock${CARD_ARGS:-}"
  vsctl add-port br0 up0 -- set Interface up0 type=dpdk options:dpdk-devargs="$card"
  for ((i = 0; i < n; i++)); do
    vsctl add-port br0 "vf$i" -- set Interface "vf$i" type=dpdk "options:dpdk-devargs=\"$card,representor=vf$i\""
  done
}
