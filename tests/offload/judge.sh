#!/usr/bin/env bash
# shellcheck disable=SC1091,SC2015,SC2016,SC2034,SC2086,SC2155,SC2164,SC2317 # Checks are functions that are named by words.
# judge.sh BUILD [CHECK...]: what Debian's unmodified Open vSwitch makes of the card and its driver. Each check has Open
# vSwitch, card and namespaces of its own; the whole lies in namespaces of this user's, so it needs no root. Prints one
# line a check; exits with the number that failed, or 77 with a word if this machine cannot run it.
skip() { echo "skipped: $*"; exit 77; }
if [[ -z ${JUDGE_INSIDE:-} ]]; then
  [[ -x /usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk ]] || skip "openvswitch-switch-dpdk is not installed"
  [[ -e $1/lib/librte_net_verbatim.so ]] || skip "the DPDK driver is not built (./setup.sh nic)"
  [[ -r /dev/net/tun && -w /dev/net/tun ]] || skip "/dev/net/tun cannot be opened"
  unshare -Urnm true 2>/dev/null || skip "no user namespaces"
  JUDGE_INSIDE=1 exec unshare -Urnm --kill-child "$0" "$@"
fi
mount -t tmpfs none /run && mkdir /run/netns && mount -t sysfs none /sys && ip link set lo up || skip "no mounts"
here=$(cd "$(dirname "$0")" && pwd); export BUILD=$(cd "$1" && pwd); shift; cd "$here"
all="load devargs full stopped counts dumps ageing backlog partial actions tunnel change reconfigure ports card_killed vswitchd_killed threads"
[[ $# -gt 0 ]] || set -- $all
fail() { echo "FAIL: $*"; exit 1; }
up() {  # up [KEY=VALUE...]
  EXTRA="-d librte_net_verbatim.so" lab_ovs pmd-maxsleep=500 hw-offload=true "$@" 2>/dev/null; lab_card 2; lab_card_ports 2
}
warm() { ns n0 ping -c 3 -i 0.3 -q "${1:-10.9.0.2}" >/dev/null || fail "no ping to ${1:-10.9.0.2}"; }
lost() { ns "$1" ping -c "$3" -i "$4" -q -W 1 "$2" | sed -n 's/.* \([0-9.]*\)% packet loss.*/\1/p'; }
offloaded() { appctl dpctl/dump-flows -m type=offloaded | grep -c 'offloaded:yes, dp:dpdk'; }
rules() { "$BUILD/bin/verbatim" nic show --json | sed -n 's/.*"rules": *\([0-9]*\).*/\1/p'; }
of_packets() { ofctl dump-flows br0 "$1" | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }
until_true() { local i; for ((i = 0; i < ${2:-50}; i++)); do eval "$1" && return 0; sleep 0.1; done; return 1; }

check_load() {
  up; local p
  for p in up0 vf0 vf1; do
    grep -q "$p: Assigned flow API 'dpdk_flow_api'" "$R/ovs-vswitchd.log" || fail "$p has no flow API"
    vsctl get Interface $p status | grep -q 'driver_name=net_verbatim' || fail "$p: status"
  done
  grep -E 'ERR|EMER' "$R/ovs-vswitchd.log" && fail 'errors in the log'; true
}
check_devargs() {  # names of functions as mlx5 has them; MAC and link of a function from its representor
  lab_card_ports() {
    local c=net_verbatim0,socket=$R/card.sock
    vsctl add-port br0 vf0 -- set Interface vf0 type=dpdk "options:dpdk-devargs=\"$c,representor=[0]\""
    vsctl add-port br0 vf1 -- set Interface vf1 type=dpdk "options:dpdk-devargs=\"$c,representor=c1pf0vf1\""
    vsctl add-port br0 up0 -- set Interface up0 type=dpdk "options:dpdk-devargs=\"$c\""
  }
  up; warm
  vsctl del-port br0 vf1; vsctl add-port br0 vf1 -- set Interface vf1 type=dpdk "options:dpdk-devargs=\"net_verbatim0,representor=pf0vf1\""
  until_true '[[ $(lost n0 10.9.0.2 3 0.1) == 0 ]]' 20 || fail 'pf0vf1 is not vf1'
  vsctl set Interface vf1 options:dpdk-vf-mac=02:00:00:00:00:77
  until_true '[[ $(ns n1 cat /sys/class/net/eth0/address) == 02:00:00:00:00:77 ]]' || ns n1 ip -br link show eth0 | grep -q 02:00:00:00:00:77 || fail "dpdk-vf-mac: $(ns n1 ip -br link)"
  ofctl mod-port br0 vf1 down; until_true 'ns n1 ip -br link show eth0 | grep -q NO-CARRIER' || fail 'the link stays up'
  ofctl mod-port br0 vf1 up; until_true '! ns n1 ip -br link show eth0 | grep -q NO-CARRIER' || fail 'the link stays down'
}
check_full() {
  up; warm; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'flows were not offloaded'
  appctl dpif-netdev/pmd-stats-clear; [[ $(lost n0 10.9.0.2 50 0.02) == 0 ]] || fail 'lost'
  local n; n=$(appctl dpif-netdev/pmd-stats-show | sed -n 's/.*packets received: *\([0-9]*\).*/\1/p' | sort -n | tail -1)
  [[ $n -le 10 ]] || fail "software saw $n of 100 packets"
}
check_stopped() {
  up; warm; warm 10.9.0.100; until_true '[[ $(offloaded) -ge 4 ]]' || fail 'flows were not offloaded'
  ns n0 ip neigh replace 10.9.0.100 lladdr 02:00:00:00:00:64 dev eth0 nud permanent; ns n-up ip neigh replace 10.9.0.1 lladdr 02:00:00:00:00:01 dev eth0 nud permanent
  ns n1 ip neigh replace 10.9.0.100 lladdr 02:00:00:00:00:64 dev eth0 nud permanent; ns n-up ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev eth0 nud permanent
  kill -STOP "$(<"$R/ovs-vswitchd.pid")"
  [[ $(lost n0 10.9.0.100 20 0.1) == 0 ]] || fail 'offloaded traffic stopped with ovs-vswitchd'
  [[ $(lost n1 10.9.0.100 5 0.1) == 100 ]] || fail 'a flow that nobody has decided was forwarded'
  kill -CONT "$(<"$R/ovs-vswitchd.pid")"
  until_true '[[ $(lost n1 10.9.0.100 3 0.1) == 0 ]]' 20 || fail 'new flows do not recover'
}
exact() {  # flows whose packets OpenFlow counts, one for each direction; before any traffic, because what OVS has not booked when flows change goes anywhere
  # In one step: between a deletion and an addition Open vSwitch decides to drop, and the card does it.
  printf '%s\n' arp,actions=NORMAL icmp,in_port=vf0,actions=output:vf1 icmp,in_port=vf1,actions=output:vf0 | ofctl --bundle replace-flows br0 -
}
check_counts() {
  up; exact; ns n0 ping -c 1000 -i 0.002 -q 10.9.0.2 >"$W/ping" || fail "ping: $(tail -2 "$W/ping" | head -1)"
  [[ $(offloaded) -ge 2 ]] || fail 'not offloaded'
  until_true '[[ $(of_packets icmp,in_port=vf0) == 1000 && $(of_packets icmp,in_port=vf1) == 1000 ]]' 40 || fail "OpenFlow counts $(of_packets icmp,in_port=vf0) and $(of_packets icmp,in_port=vf1) of 1000"
}
check_dumps() {  # somebody dumps all the time while counters run
  up; exact; (while :; do ovs-appctl --target="$R/ovs-vswitchd.ctl" dpctl/dump-flows >/dev/null 2>&1; done) & local d=$!
  ns n0 ping -c 2000 -i 0.002 -q 10.9.0.2 >/dev/null; kill $d; wait $d 2>/dev/null
  until_true '[[ $(of_packets icmp,in_port=vf0) == 2000 ]]' 40 || fail "OpenFlow counts $(of_packets icmp,in_port=vf0) of 2000"
}
check_ageing() {
  up max-idle=2000; warm; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'not offloaded'
  (ns n0 ping -i 0.2 -c 40 -q 10.9.0.2 >/dev/null) & local p=$!; sleep 6; [[ $(rules) -ge 2 ]] || fail 'no rule in the card'
  [[ $(offloaded) -ge 2 ]] || fail 'a live flow was deleted'; wait $p; sleep 4
  [[ $(offloaded) == 0 ]] || fail 'an idle flow lives on'; until_true '[[ $(rules) == 0 ]]' || fail 'rules were not destroyed'
}
check_backlog() {  # 50 ms a rule: the queue rises and drains, packets do not wait
  export CARD_ARGS=,delay=50; up; warm; ofctl del-flows br0; ofctl add-flow br0 priority=1,actions=NORMAL
  ofctl add-flow br0 'priority=9,udp,actions=move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL'; sleep 1
  ns n0 python3 -c "
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range(60): s.sendto(b'x', ('10.9.0.2', 3000 + i))"
  local most=0 n i; (lost n0 10.9.0.2 40 0.05 >"$W/lost") & local p=$!
  for ((i = 0; i < 20; i++)); do n=$(appctl dpctl/offload-stats-show | sed -n 's/.*Total *Enqueued offloads: *//p'); ((n > most)) && most=$n; sleep 0.1; done
  wait $p; [[ $most -ge 20 ]] || fail "backlog at most $most"; [[ $(<"$W/lost") == 0 ]] || fail "pings lost meanwhile: $(<"$W/lost") %"
  until_true '[[ $(appctl dpctl/offload-stats-show | sed -n "s/.*Total *Enqueued offloads: *//p") == 0 ]]' 80 || fail 'backlog does not drain'
}
check_partial() {  # a meter cannot be offloaded: the card marks the packets
  up; warm; ofctl -O OpenFlow13 add-meter br0 meter=1,pktps,bands=type=drop,rate=1000000
  ofctl -O OpenFlow13 add-flow br0 icmp,in_port=vf0,actions=meter:1,output:vf1; ofctl -O OpenFlow13 add-flow br0 icmp,in_port=vf1,actions=meter:1,output:vf0
  ns n0 ping -c 10 -i 0.1 -q 10.9.0.2 >/dev/null
  until_true '[[ $(appctl dpctl/dump-flows -m type=partially-offloaded | grep -c offloaded:partial) -ge 2 ]]' || fail 'not partially offloaded'
  ns n0 ping -c 30 -i 0.02 -q 10.9.0.2 >/dev/null; [[ $(appctl dpif-netdev/pmd-stats-show | sed -n 's/.*phwol hits: *//p' | sort -n | tail -1) -ge 30 ]] || fail 'marks are not seen'
}
# Each action: the first packets go through software, later ones through the card; all must come out the same.
udp_frame=020000000002020000000001080045000030000040004011266f0a0900010a0900020bb80fa0001c0000$(printf '41%.0s' {1..20})
vlan_frame=0200000000020200000000018100606408004500002c0000400040112673.0a0900010a0900020bb80fa000180000$(printf '42%.0s' {1..16})
check_actions() {
  up; warm; ns n1 sysctl -qw net.ipv4.conf.all.rp_filter=0; local bad=0 what frame
  while read -r frame what; do
    local f=udp_frame; [[ $frame == vlan ]] && f=vlan_frame
    echo "${!f//./}" >"$W/frame"; ofctl del-flows br0; ofctl add-flow br0 "udp,in_port=vf0,actions=$what" || fail "$what"
    rm -f "$W/ready" "$W/ready-up"; (ns n1 ./frames.py receive eth0 2.5 "$W/ready" | grep -E '(41414141|42424242)' >"$W/got") & local g=$!; (ns n-up ./frames.py receive eth0 2.5 "$W/ready-up" | grep -E '(41414141|42424242)' >"$W/got-up") & local h=$!
    until_true '[[ -e $W/ready && -e $W/ready-up ]]' 200; ns n0 ./frames.py send eth0 "$W/frame" 20 0.05; sleep 0.2
    local hw; hw=$(appctl dpctl/dump-flows -m type=offloaded | grep 'in_port(vf0)' | grep 'eth_type(0x0800)' | grep -c 'offloaded:yes'); wait $g $h
    local kinds; kinds=$(wc -l <"$W/got"); local n; n=$(awk '{s += $1} END {print s + 0}' "$W/got" "$W/got-up")
    if [[ $kinds -gt 1 || $(wc -l <"$W/got-up") -gt 1 ]]; then echo "  $frame $what: software and card differ:"; cat "$W/got" "$W/got-up"; bad=1
    elif [[ $what != drop && $n == 0 ]]; then echo "  $frame $what: nothing came"; bad=1
    elif [[ $hw == 0 ]]; then echo "  $frame $what: not offloaded"; bad=1; fi
  done <<'A'
plain output:vf1
plain mod_dl_src:02:11:22:33:44:55,mod_dl_dst:02:00:00:00:00:02,output:vf1
plain mod_vlan_vid:100,output:vf1
plain mod_vlan_vid:100,mod_vlan_pcp:5,output:vf1
vlan strip_vlan,output:vf1
vlan mod_vlan_vid:7,output:vf1
plain output:vf1,output:up0
plain output:up0,mod_dl_src:02:11:22:33:44:55,output:vf1
plain drop
plain mod_nw_src:10.9.0.77,output:vf1
plain mod_nw_dst:10.9.0.78,output:vf1
plain mod_tp_src:7777,output:vf1
plain mod_tp_dst:7778,output:vf1
plain dec_ttl,output:vf1
plain mod_nw_ttl:9,output:vf1
plain mod_nw_src:10.9.0.77,mod_tp_dst:7778,dec_ttl,mod_vlan_vid:9,output:vf1
A
  [[ $bad == 0 ]] || fail 'see above'
}
check_tunnel() {  # VXLAN: what the card sends is what software sends, but for the source port
  up; local card=net_verbatim0,socket=$R/card.sock
  vsctl del-port br0 up0 -- add-br br-phy -- set bridge br-phy datapath_type=netdev -- \
    add-port br-phy up0 -- set Interface up0 type=dpdk "options:dpdk-devargs=$card" -- \
    add-port br0 vx0 -- set Interface vx0 type=vxlan options:remote_ip=172.16.0.100 options:key=42
  ip addr add 172.16.0.1/24 dev br-phy; ip link set br-phy up; ns n-up ip addr add 172.16.0.100/24 dev eth0
  ns n-up ping -c 2 -i 0.3 -q 172.16.0.1 >/dev/null || fail 'no ping to the end of the tunnel'
  appctl tnl/neigh/set br-phy 172.16.0.100 02:00:00:00:00:64 >/dev/null  # Or the first frame is lost in Open vSwitch.
  echo "$udp_frame" >"$W/frame"; ofctl replace-flows --bundle br0 <(echo udp,in_port=vf0,actions=output:vx0)
  (ns n-up ./frames.py receive eth0 2.5 "$W/ready" | grep 41414141 >"$W/got") & local g=$!
  until_true '[[ -e $W/ready ]]' 200; ns n0 ./frames.py send eth0 "$W/frame" 20 0.05; sleep 0.2
  local hw; hw=$(appctl dpctl/dump-flows -m type=offloaded | grep tnl_push | grep -c 'offloaded:yes'); wait $g
  [[ $hw -ge 1 ]] || { appctl dpctl/dump-flows -m; fail 'not offloaded'; }
  # Of 34 bytes of Ethernet and IPv4, the next two are the source port.
  [[ $(sed -E 's/^([0-9]+ .{68}).{4}/\1/' "$W/got" | cut -d' ' -f2 | sort -u | wc -l) == 1 ]] || fail "software and card differ: $(<"$W/got")"
  [[ $(awk '{s += $1} END {print s + 0}' "$W/got") == 20 ]] || fail "of 20 frames: $(<"$W/got")"
}
check_change() {
  up; warm; exact; (ns n0 ping -c 100 -i 0.05 -q 10.9.0.2 >"$W/ping") & local p=$!; sleep 1.5
  ofctl mod-flows br0 "icmp,in_port=vf0,actions=output:up0,output:vf1"; sleep 1.5
  appctl dpctl/dump-flows -m type=offloaded | grep -qE 'in_port\(vf0\).*actions:(up0,vf1|vf1,up0)' || fail 'the changed flow is not offloaded'
  wait $p; grep -q ' 0% packet loss' "$W/ping" || fail "$(sed -n 4p "$W/ping")"
  # A change is destroy and create: what the rule counted after its last query is lost in OVS 3.1, with any card.
  until_true '[[ $(of_packets icmp,in_port=vf0) -ge 85 ]]' 40 || fail "OpenFlow counts $(of_packets icmp,in_port=vf0) of 100"; [[ $(of_packets icmp,in_port=vf0) -le 100 ]] || fail 'counted twice'
}
check_reconfigure() {  # queues and MTU change: the port stops and starts, its rules stay
  # A second MTU needs a second pool of packets: the default one of 262,144 has taken all memory (and OVS does not ask for less then).
  MEM=512 up per-port-memory=true; warm; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'not offloaded'
  (ns n0 ping -c 60 -i 0.05 -q 10.9.0.2 >"$W/ping") & local p=$!; sleep 0.5
  vsctl set Interface vf0 options:n_rxq=2; vsctl set Interface vf1 mtu_request=3000; wait $p
  grep -q ' 0% packet loss' "$W/ping" || fail "$(sed -n 4p "$W/ping")"; appctl dpctl/dump-flows >/dev/null || fail 'ovs-vswitchd is gone'
}
check_ports() {
  up; warm; (ns n0 ping -c 60 -i 0.05 -q 10.9.0.2 >/dev/null) & local p=$!; sleep 0.5
  vsctl del-port br0 vf1; sleep 0.5; vsctl add-port br0 vf1 -- set Interface vf1 type=dpdk 'options:dpdk-devargs="net_verbatim0,representor=vf1"'; wait $p
  until_true '[[ $(lost n0 10.9.0.2 3 0.1) == 0 ]]' 20 || fail 'no traffic after the port is back'; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'not offloaded again'
}
check_card_killed() {  # under load, three times: the driver gives the next card all rules
  up; exact; warm; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'not offloaded'
  local vswitchd turn before=0 now had; vswitchd=$(<"$R/ovs-vswitchd.pid"); had=$(rules)
  for turn in 1 2 3; do
    (ns n0 timeout 2 ping -i 0.005 -q 10.9.0.2 >/dev/null 2>&1) & local p=$!
    sleep 0.5; kill -KILL "$lab_card_pid"; wait "$lab_card_pid" 2>/dev/null
    for ((i = 0; i < 5; i++)); do now=$(of_packets icmp,in_port=vf0); ((now >= before)) || fail "counters went from $before to $now"; before=$now; sleep 0.1; done
    lab_card_start 2; wait $p 2>/dev/null
    until_true '[[ $(lost n0 10.9.0.2 3 0.1) == 0 ]]' 30 || fail "turn $turn: no traffic by the new card"
    [[ $(rules) -ge $had ]] || fail "turn $turn: $(rules) rules of $had"
    warm; appctl dpif-netdev/pmd-stats-clear; [[ $(lost n0 10.9.0.2 50 0.02) == 0 ]] || fail 'lost'
    local n; n=$(appctl dpif-netdev/pmd-stats-show | sed -n 's/.*packets received: *\([0-9]*\).*/\1/p' | sort -n | tail -1)
    [[ $n -le 10 ]] || fail "turn $turn: software saw $n of 100 packets"
    now=$(of_packets icmp,in_port=vf0); ((now >= before)) || fail "counters went from $before to $now"; before=$now
  done
  [[ $(<"$R/ovs-vswitchd.pid") == "$vswitchd" ]] && kill -0 "$vswitchd" || fail 'ovs-vswitchd has ended'
  grep -E 'ERR|EMER' "$R/ovs-vswitchd.log" && fail 'errors in the log'; true
}
check_vswitchd_killed() {  # its rules go, the card lives, the next one connects
  up; warm; until_true '[[ $(offloaded) -ge 2 ]]' || fail 'not offloaded'
  kill -KILL "$(<"$R/ovs-vswitchd.pid")"; until_true '[[ $(rules) == 0 ]]' || fail 'its rules stay'
  kill -0 "$lab_card_pid" || fail 'the card has ended'
  lab_vswitchd; until_true '[[ $(lost n0 10.9.0.2 3 0.1) == 0 ]]' 30 || fail 'no traffic by the next one'
  until_true '[[ $(offloaded) -ge 2 ]]' || fail 'the next one does not offload'
}
check_threads() {
  up n-offload-threads=4; warm; ofctl del-flows br0; ofctl add-flow br0 priority=1,actions=NORMAL
  ofctl add-flow br0 'priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL'
  ns n0 python3 -c "
import socket, time
s = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
for i in range(4000):
    s[i & 3].sendto(b'x', ('10.9.0.2', 3000 + (i >> 2)))
    if i % 50 == 0: time.sleep(0.01)"
  until_true '[[ $(appctl dpctl/offload-stats-show | sed -n "s/.*Total *Enqueued offloads: *//p") == 0 ]]' 80; sleep 1
  local all hw; all=$(appctl dpctl/dump-flows | grep -c 'in_port'); hw=$(appctl dpctl/dump-flows type=offloaded | grep -c in_port)
  [[ $hw -ge 3000 && $((all - hw)) -le 20 ]] || fail "$hw of $all flows offloaded"; grep -h "Inserted" <(appctl dpctl/offload-stats-show) >/dev/null
}
failed=0
for c; do
  if out=$( . ./lab.sh; "check_$c" 2>&1 ); then echo "ok    $c"; else echo "FAIL  $c"; failed=$((failed + 1)); fi
  grep -vE 'opened log file' <<<"$out" | sed '/^$/d; s/^/      /'
done
exit $failed
