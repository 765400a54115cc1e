# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154
# Sourced by guest.sh: a card with two functions in namespaces n0 and n1, Open vSwitch with the kernel's datapath.
W=/run/lab R=/run/lab/ovs DB=unix:/run/lab/ovs/db.sock
UP=vnicp0 V0=vnicpf0vf0 V1=vnicpf0vf1
export XDG_RUNTIME_DIR=$W/runtime OVS_RUNDIR=$R OVS_LOGDIR=$R OVS_DBDIR=$R OVS_SYSCONFDIR=$R
fail() { # With what helps to see why.
  echo "FAIL: $*"
  cat /run/ping
  nic stats && nic flows
  exit 1
}
until_true() { local i; for ((i = 0; i < ${2:-50}; i++)); do eval "$1" && return 0; sleep 0.2; done; return 1; }
ns() { ip netns exec "$@"; }
vsctl() { ovs-vsctl --db="$DB" -t 60 "$@"; }
appctl() { timeout 60 ovs-appctl --target="$R/ovs-vswitchd.ctl" "$@"; }
nic() { "$BUILD/bin/verbatim" nic "$@"; }
# lost NAMESPACE ADDRESS COUNT GAP [WAIT]: how many percent of pings; WAIT is short where all shall be lost.
lost() { ns "$1" ping -c "$3" -i "$4" -q -W "${5:-10}" "$2" >/run/ping; sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p' /run/ping; }
rule() { tc filter add dev "$1" ingress "${@:2}"; } # rule INTERFACE [chain N] prio N protocol P flower ... action ...
packets() { tc -s filter show dev "$1" ingress ${2:+prio "$2"} | sed -n 's/.*Sent hardware \([0-9]*\) bytes \([0-9]*\) pkt.*/\2/p' | head -1; }
rules() { nic show --json | sed -n 's/.*"rules": *\([0-9]*\).*/\1/p'; }

card_start() { # card_start [OPTION...]: also in the place of one that was killed, whose interfaces are there.
  "$BUILD/bin/verbatim-nicd" --vfs 2 --rules 4096 --prefix f --device /dev/verbatim-nic --log $W/card.log "$@" &
  card=$!
  until_true 'nic show >/dev/null 2>&1' || fail "no card: $(cat $W/card.log)"
}
card_up() { # card_up [OPTION...]
  card_start "$@"
  local i
  printf '%s\n' "link set fvf0 netns n0 name eth0" "link set fvf1 netns n1 name eth0" "link set $UP up" "link set $V0 up" "link set $V1 up" | ip -batch -
  for i in 1 2; do # Few processes: in the guest each takes its time.
    printf '%s\n' "link set eth0 address 02:00:00:00:00:0$i" "addr add 10.9.0.$i/24 dev eth0" "addr add fd09::$i/64 dev eth0 nodad" \
      "link set eth0 up" "neigh replace 10.9.0.$((3 - i)) lladdr 02:00:00:00:00:0$((3 - i)) dev eth0 nud permanent" | ip -n "n$((i - 1))" -batch -
  done
}
namespaces_up() { # Once, for all checks.
  local i
  for i in 0 1; do
    ip netns add "n$i"
    ns "n$i" sysctl -qw net.ipv6.conf.default.autoconf=0 net.ipv6.conf.default.router_solicitations=0
    ip -n "n$i" link set lo up
  done
  sysctl -qw net.ipv6.conf.default.disable_ipv6=1 net.ipv6.conf.all.disable_ipv6=1
}
lab_up() {
  mkdir -p $R && mkdir -m 700 $XDG_RUNTIME_DIR
  insmod "$SHARE/verbatim_nic.ko" || fail "the module cannot be loaded"
  card_up "$@"
  printf 'qdisc add dev %s ingress\n' $UP $V0 $V1 | tc -batch -
}
lab_end() {
  [[ -s $R/ovs-vswitchd.pid ]] && { kill -CONT "$(<$R/ovs-vswitchd.pid)"; appctl exit --cleanup; kill "$(<$R/ovsdb-server.pid)"; } >/dev/null 2>&1
  ip link del vxlan0; ip link del geneve0; ip link del gretap1; ip netns del nw
  kill "$card" && wait "$card"
  until_true 'rmmod verbatim_nic 2>/dev/null' 20 || echo "the module cannot be unloaded"
  rm -rf $W
} 2>/dev/null

ovs_up() {
  until_true '[[ $(cut -d. -f1 /proc/uptime) -ge 13 ]]' 100 # Sooner, Open vSwitch 3.1 gets no thread for upcalls.
  ovsdb-tool create $R/conf.db /usr/share/openvswitch/vswitch.ovsschema
  ovsdb-server $R/conf.db --remote=punix:$R/db.sock --pidfile=$R/ovsdb-server.pid --log-file=$R/ovsdb-server.log \
    --unixctl=$R/ovsdb-server.ctl --detach --no-chdir -vconsole:off
  vsctl --no-wait init -- set Open_vSwitch . other_config:hw-offload=true other_config:tc-policy=skip_sw
  printf 'qdisc del dev %s ingress\n' $UP $V0 $V1 | tc -batch -
  /usr/lib/openvswitch-switch/ovs-vswitchd $DB --pidfile=$R/ovs-vswitchd.pid --log-file=$R/ovs-vswitchd.log \
    --unixctl=$R/ovs-vswitchd.ctl --detach --no-chdir -vconsole:off || fail "no ovs-vswitchd"
  vsctl add-br br0 -- add-port br0 $UP -- add-port br0 $V0 -- add-port br0 $V1
}
offloaded() { appctl dpctl/dump-flows -m type=offloaded | grep -c 'offloaded:yes, dp:tc'; }
