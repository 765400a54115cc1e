# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154
# Sourced by guest.sh: rules by tc alone.
redirect() { rule "$V0" protocol all prio 1 flower skip_sw action mirred egress redirect dev "$V1" && rule "$V1" protocol all prio 1 flower skip_sw action mirred egress redirect dev "$V0"; }

check_names() { # What udev, OVS and scripts read.
  [[ $(cat /sys/class/net/$UP/phys_port_name) == p0 && $(cat /sys/class/net/$V1/phys_port_name) == pf0vf1 ]] || fail "phys_port_name"
  [[ $(cat /sys/class/net/$UP/phys_switch_id) == $(cat /sys/class/net/$V1/phys_switch_id) ]] || fail "phys_switch_id"
  devlink dev eswitch show platform/verbatim-nic.0 | grep -q 'mode switchdev' || fail "eswitch mode"
  devlink dev eswitch set platform/verbatim-nic.0 mode switchdev || fail "eswitch set"
  ! devlink dev eswitch set platform/verbatim-nic.0 mode legacy 2>/dev/null || fail "it took the mode legacy"
  devlink port show $V1 | grep -q 'flavour pcivf .*vfnum 1' || fail "devlink port"
  devlink port function set $V1 hw_addr 02:00:00:00:00:99 || fail "devlink port function"
  ns n1 ip -br link show eth0 | grep -q 02:00:00:00:00:99 || fail "the function's address: $(ns n1 ip -br link)"
  ethtool -k $V0 | grep -q 'hw-tc-offload: on' || fail "hw-tc-offload"
}
check_slice() { # output and drop
  redirect || fail "tc"
  [[ $(lost n0 10.9.0.2 10 0.1) == 0 ]] || fail "lost"
  tc filter show dev $V0 ingress | grep -q 'in_hw in_hw_count 1' || fail "not in hardware"
  [[ $(packets $V0) -ge 10 ]] || fail "$(packets $V0) packets"
  ethtool -S $V0 | grep -q 'offloaded_packets: 1[0-9]' || fail "$(ethtool -S $V0)"
  tc filter del dev $V0 ingress
  rule $V0 protocol ip prio 1 flower skip_sw ip_proto icmp action drop
  [[ $(lost n0 10.9.0.2 5 0.1 1) == 100 ]] || fail "not dropped"
  until_true '[[ $(packets $V0) == 5 ]]' || fail "dropped $(packets $V0)"
  tc filter del dev $V0 ingress && tc filter del dev $V1 ingress
  [[ $(rules) == 0 ]] || fail "$(rules) rules are left"
}
check_misses() { # What no rule decides goes through the representors, here between ports of a bridge.
  local i
  ip link add bridge0 type bridge && ip link set bridge0 up
  for i in $V0 $V1; do ip link set $i master bridge0; done
  until_true '[[ $(lost n0 10.9.0.2 1 0.1 1) == 0 ]]' 100 || fail "no way"
  [[ $(lost n0 10.9.0.2 300 0.002) == 0 ]] || fail "lost"
  [[ $(ns n0 ping -c 5 -i 0.1 -s 1400 -q 10.9.0.2 | grep -c ' 0% packet loss') == 1 ]] || fail "long ones are lost"
  ns n1 iperf3 -s -1 -D >/dev/null
  until_true 'ns n0 iperf3 -c 10.9.0.2 -t 1 -f m >/run/iperf' 10 || fail "TCP: $(cat /run/iperf)"
  redirect || fail "tc"
  local was
  was=$(cat /sys/class/net/$V0/statistics/rx_packets)
  [[ $(lost n0 10.9.0.2 50 0.01) == 0 ]] || fail "lost with a rule"
  [[ $(($(cat /sys/class/net/$V0/statistics/rx_packets) - was)) -le 5 ]] || fail "software saw them"
  ip link del bridge0
}
check_chains() { # goto; a shared block; a priority that wins
  local i
  for i in $V0 $V1; do tc qdisc del dev $i ingress; tc qdisc add dev $i ingress_block 7 ingress; done
  rule_in() { tc filter add block 7 "$@"; }
  rule_in chain 70000 protocol ip prio 1 flower skip_sw dst_mac 02:00:00:00:00:02 action mirred egress redirect dev $V1 || fail "chain"
  rule_in chain 70000 protocol ip prio 2 flower skip_sw dst_mac 02:00:00:00:00:01 action mirred egress redirect dev $V0 || fail "chain"
  rule_in protocol ip prio 9 flower skip_sw action goto chain 70000 || fail "goto"
  [[ $(lost n0 10.9.0.2 5 0.1) == 0 ]] || fail "lost"
  tc filter show block 7 chain 70000 | grep -q 'in_hw in_hw_count 2' || fail "$(tc filter show block 7)"
  [[ $(rules) == 6 ]] || fail "$(rules) rules"
  rule_in protocol ip prio 3 flower skip_sw ip_proto icmp action drop || fail "drop"
  [[ $(lost n0 10.9.0.2 3 0.1 1) == 100 ]] || fail "the lower priority won"
  tc filter del block 7 chain 70000; tc filter del block 7
  [[ $(rules) == 0 ]] || fail "$(rules) rules are left"
}
check_refusals() { # in words, and nothing is left
  local line
  while read -r line; do
    # shellcheck disable=SC2086
    rule $V0 ${line%%|*} 2>/run/why && fail "it took $line"
    grep -q "verbatim_nic: ${line#*|}" /run/why || fail "$line: $(cat /run/why)"
  done <<LINES
protocol arp prio 1 flower skip_sw arp_tip 10.0.0.1 action drop|The card does not match
protocol ip prio 1 flower skip_sw ip_flags nofirstfrag action drop|The card does not match
protocol ip prio 1 flower skip_sw ip_proto udp action police rate 1mbit burst 9k conform-exceed pipe/pipe action mirred egress redirect dev $V1|The card does not police
protocol ip prio 1 flower skip_sw ip_proto udp action police rate 1mbit burst 9k conform-exceed drop/pipe action drop|The card does not do
protocol ipv6 prio 1 flower skip_sw ip_proto icmpv6 type 128 action drop|The card does not match
protocol ip prio 1 flower skip_sw action mirred egress redirect dev lo|The interface is not
protocol ip prio 1 flower skip_sw action pedit ex munge ip tos set 8 pipe action mirred egress redirect dev $V1|The card does not do
protocol ip prio 1 flower skip_sw action skbedit mark 1 pipe action mirred egress redirect dev $V1|The card does not do
LINES
  rule $V0 protocol ip prio 1 flower ip_flags nofirstfrag action drop || fail "without skip_sw it is software's"
  tc filter show dev $V0 ingress | grep -q not_in_hw || fail "not_in_hw"
  [[ $(rules) == 0 ]] || fail "$(rules) rules are left"
}
send_udp() { # send_udp COUNT FIRST_PORT [STEP]: datagrams from n0 to n1
  ns n0 python3 -c "import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for i in range($1): s.sendto(bytes(972), ('10.9.0.2', $2 + i * ${3:-0}))"
}
received() { ns n1 awk '/^Udp:/ { if (names) print $3; names = 1 }' /proc/net/snmp; } # UDP to no port.
check_ranges() { # of ports
  rule $V0 protocol ip prio 1 flower skip_sw ip_proto udp dst_port 3010-3019 action mirred egress redirect dev $V1 || fail "tc"
  rule $V0 protocol ip prio 2 flower skip_sw ip_proto udp src_port 1-65535 dst_port 3030-3034 action mirred egress redirect dev $V1 || fail "tc"
  local was
  was=$(received)
  send_udp 50 3000 1
  until_true '[[ $(packets $V0 1) == 10 && $(packets $V0 2) == 5 ]]' || fail "$(tc -s filter show dev $V0 ingress)"
  until_true '[[ $(($(received) - was)) == 15 ]]' || fail "$(received) after $was"
}
check_police() { # What exceeds is dropped; a policer that rules share; the next card polices on
  rule $V0 protocol ip prio 1 flower skip_sw ip_proto udp dst_port 3000 action police pkts_rate 1 pkts_burst 10 conform-exceed drop/pipe index 7 action mirred egress redirect dev $V1 || fail "tc"
  rule $V0 protocol ip prio 2 flower skip_sw ip_proto udp dst_port 3001 action police index 7 action mirred egress redirect dev $V1 || fail "tc"
  local was count
  for again in no yes; do
    was=$(received)
    send_udp 30 3000 && send_udp 30 3001
    until_true '[[ $(packets $V0 2) -ge 30 ]]' || fail "$(tc -s filter show dev $V0 ingress)"
    count=$(($(received) - was))
    ((count >= 10 && count <= 25)) || fail "$count of 60 passed"
    [[ $again == yes ]] || { kill -9 "$card"; wait "$card"; card_start; until_true '[[ $(rules) == 2 ]]' || fail "rules"; }
  done
  tc filter del dev $V0 ingress
  [[ $(rules) == 0 ]] || fail "$(rules) rules are left"
}
check_full() { # A full table says so; there is room again when a rule goes.
  local i
  for ((i = 1; i <= 4096; i++)); do echo "filter add dev $V0 ingress protocol ip prio 1 handle $i flower skip_sw dst_ip 10.$((i / 256)).$((i % 256)).1 action drop"; done >/run/many
  tc -batch /run/many || fail "4096 rules"
  rule $V0 protocol ip prio 1 flower skip_sw dst_ip 11.0.0.1 action drop 2>/run/why && fail "there is room for more"
  grep -q "table is full" /run/why || fail "$(cat /run/why)"
  tc filter del dev $V0 ingress protocol ip prio 1 handle 5 flower || fail "del"
  rule $V0 protocol ip prio 1 flower skip_sw dst_ip 11.0.0.1 action drop || fail "no room again"
}
check_killed() { # The card ends: the next one gets the rules, and counters go on.
  redirect || fail "tc"
  [[ $(lost n0 10.9.0.2 20 0.02) == 0 ]] || fail "lost"
  kill -9 "$card"; wait "$card"
  [[ $(cat /sys/class/net/$V0/carrier) == 0 ]] || fail "the carrier stays"
  rule $V0 protocol ip prio 5 flower skip_sw action drop 2>/run/why && fail "a rule without a card"
  grep -q "No card is attached" /run/why || fail "$(cat /run/why)"
  [[ $(packets $V0) -ge 20 ]] || fail "counters went back"
  local was
  was=$(packets $V0)
  card_start
  until_true '[[ $(rules) == 2 ]]' || fail "$(rules) rules came back"
  [[ $(lost n0 10.9.0.2 20 0.02) == 0 ]] || fail "lost"
  [[ $(packets $V0) -ge $((was + 20)) ]] || fail "$was, then $(packets $V0) packets"
}
check_stopped_card() { # A card that does not answer stops nobody else, and forgets nothing.
  redirect || fail "tc"
  kill -STOP "$card"
  rule $V0 protocol ip prio 5 flower skip_sw action drop 2>/run/why && fail "it answers"
  grep -q "does not answer" /run/why || fail "$(cat /run/why)"
  timeout 5 tc filter del dev $V0 ingress prio 1 || fail "a rule cannot be deleted"
  timeout 5 tc -s filter show dev $V1 ingress >/dev/null || fail "statistics wait"
  kill -CONT "$card"
  until_true '[[ $(rules) == 1 ]]' || fail "$(rules) rules"
  rule $V0 protocol all prio 1 flower skip_sw action mirred egress redirect dev $V1 || fail "it does not answer again"
  [[ $(lost n0 10.9.0.2 5 0.1) == 0 ]] || fail "lost"
}
check_same_as_software() { python3 -B "$here/oracle.py" $V0 $V1; }
wire_up() { # A host at the wire, and interfaces of tunnels here: as Open vSwitch makes them, rules say which tunnel it is.
  ip netns add nw
  ip link set fup netns nw name eth0
  ip -n nw -batch - <<<"addr add 10.8.0.2/24 dev eth0
link set eth0 address 02:00:00:00:00:09
link set eth0 up"
  ip -batch - <<<"link set $UP address 02:00:00:00:00:08
addr add 10.8.0.1/24 dev $UP
link add vxlan0 type vxlan external dstport 4789
link add geneve0 type geneve external dstport 6081
link add gretap1 type gretap external
link set vxlan0 up
link set geneve0 up
link set gretap1 up"
  printf 'qdisc add dev %s ingress\n' vxlan0 geneve0 gretap1 | tc -batch -
}
check_encap() { # The card puts frames into a tunnel. Who has the other end is asked, and may have another MAC later.
  wire_up
  local enc="enc_src_ip 10.8.0.2 enc_dst_ip 10.8.0.1 enc_dst_port 4789 enc_key_id 42" was
  ip -n nw -batch - <<<"link add vx type vxlan id 42 remote 10.8.0.1 dstport 4789
link set vx address 02:00:00:00:00:07
link set vx up
addr add 10.9.0.7/24 dev vx
neigh add 10.9.0.1 lladdr 02:00:00:00:00:01 dev vx nud permanent
neigh add 10.8.0.1 lladdr 02:00:00:00:00:08 dev eth0 nud permanent"
  ip -n n0 neigh replace 10.9.0.7 lladdr 02:00:00:00:00:07 dev eth0 nud permanent
  rule vxlan0 protocol all prio 1 flower $enc action tunnel_key unset pipe action mirred egress redirect dev $V0 || fail "the way back"
  rule $V0 protocol ip prio 1 flower skip_sw dst_mac 02:00:00:00:00:07 action tunnel_key set id 42 src_ip 10.8.0.1 dst_ip 10.8.0.2 dst_port 4789 nocsum action mirred egress redirect dev vxlan0 || fail "tc"
  tc filter show dev $V0 ingress | grep -q 'in_hw in_hw_count 1' || fail "not in hardware"
  until_true '[[ $(lost n0 10.9.0.7 1 0.1 1) == 0 ]]' || fail "no way"
  was=$(cat /sys/class/net/$V0/statistics/rx_packets)
  [[ $(lost n0 10.9.0.7 50 0.02) == 0 ]] || fail "lost"
  [[ $(($(cat /sys/class/net/$V0/statistics/rx_packets) - was)) -le 3 ]] || fail "software saw them"
  was=$(packets $V0)
  ((was >= 51)) || fail "$was packets"
  ip -n nw link set eth0 address 02:00:00:00:00:19
  ip neigh replace 10.8.0.2 lladdr 02:00:00:00:00:19 dev $UP nud reachable
  until_true '[[ $(lost n0 10.9.0.7 1 0.1 1) == 0 ]]' || fail "no way to the other MAC"
  [[ $(lost n0 10.9.0.7 20 0.02) == 0 ]] || fail "lost to the other MAC"
  (($(packets $V0) >= was + 21)) || fail "counters went back: $(packets $V0) after $was"
  ip neigh replace 10.8.0.2 lladdr 02:00:00:00:00:19 dev $UP nud stale # It is asked, though software sends nothing.
  [[ $(lost n0 10.9.0.7 2 0.02) == 0 ]] || fail "lost to a stale neighbour"
  until_true 'packets $V0 >/run/packets && ip neigh show 10.8.0.2 dev $UP | grep -q "DELAY\|PROBE\|REACHABLE"' || fail "$(ip neigh)"
  ip neigh replace 10.8.0.2 lladdr 02:00:00:00:00:19 dev $UP nud permanent
  ip -n nw neigh replace 10.8.0.1 lladdr 02:00:00:00:00:08 dev eth0 nud permanent
  ip neigh replace 10.8.0.3 lladdr 02:00:00:00:00:29 dev $UP nud permanent
  sleep 0.5
  ip route replace 10.8.0.2/32 via 10.8.0.3 dev $UP # Routes change, and no neighbour.
  until_true '[[ $(lost n0 10.9.0.7 1 0.1 1) == 100 ]]' 10 || fail "the way is as before: $(nic flows)"
  ip route del 10.8.0.2/32
  until_true '[[ $(lost n0 10.9.0.7 1 0.1 1) == 0 ]]' || fail "no way by the route that was"
  kill -9 "$card"; wait "$card"; card_start
  until_true '[[ $(lost n0 10.9.0.7 1 0.1 1) == 0 ]]' || fail "no way with the next card"
  ip addr del 10.8.0.1/24 dev $UP # No route: software's.
  until_true '! nic flows | grep -q raw_encap' || fail "$(nic flows)"
  tc filter del dev $V0 ingress
  rule $V0 protocol ip prio 1 flower skip_sw action tunnel_key set id 42 src_ip 10.8.0.1 dst_ip 10.8.0.2 dst_port 4789 action mirred egress redirect dev vxlan0 2>/run/why && fail "a tunnel without a way"
  grep -q "is not the way" /run/why || fail "$(cat /run/why)"
}
check_encap_as_software() {
  wire_up
  sysctl -qw net.ipv6.conf.$UP.disable_ipv6=0
  ip netns exec nw sysctl -qw net.ipv6.conf.eth0.disable_ipv6=0
  ip -batch - <<<"addr add fd08::1/64 dev $UP nodad
neigh replace 10.8.0.2 lladdr 02:00:00:00:00:09 dev $UP nud permanent
neigh replace fd08::2 lladdr 02:00:00:00:00:09 dev $UP nud permanent"
  python3 -B "$here/oracle.py" $V0 $UP encap
}
check_tunnels_as_software() { wire_up && python3 -B "$here/oracle.py" $UP $V1 tunnels; }
echoes() { ns n1 awk '/^Icmp:/ { if (names) print $10; names = 1 }' /proc/net/snmp; } # Requests that came.
check_tunnels() { # in hardware, counted, through chains; deleted with their interface. Linux takes no skip_sw there.
  wire_up
  local enc="enc_src_ip 10.8.0.2 enc_dst_ip 10.8.0.1 enc_dst_port 4789 enc_key_id 42" line was
  was=$(echoes)
  rule vxlan0 chain 5 protocol ip prio 1 flower $enc ip_proto icmp action tunnel_key unset pipe action mirred egress redirect dev $V1 || fail "chain"
  rule vxlan0 protocol all prio 1 flower $enc action goto chain 5 || fail "goto"
  tc filter show dev vxlan0 ingress chain 5 | grep -q 'in_hw in_hw_count 1' || fail "not in hardware"
  ip -n nw -batch - <<<"link add vx type vxlan id 42 remote 10.8.0.1 dstport 4789
link set vx address 02:00:00:00:00:07
link set vx up
addr add 10.9.0.7/24 dev vx
neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev vx nud permanent
neigh add 10.8.0.1 lladdr 02:00:00:00:00:08 dev eth0 nud permanent"
  ns nw ping -c 7 -i 0.1 -W 0.1 -q 10.9.0.2 >/run/ping
  until_true '[[ $(packets vxlan0) == 7 ]]' || fail "$(tc -s filter show dev vxlan0 ingress)"
  [[ $(($(echoes) - was)) == 7 ]] || fail "$(echoes) requests after $was"
  while read -r line; do # What names no tunnel that the card sees is software's.
    # shellcheck disable=SC2086
    rule vxlan0 protocol ip prio 9 flower $line action drop || fail "$line"
    tc filter show dev vxlan0 ingress prio 9 | grep -q not_in_hw || fail "$line"
    tc filter del dev vxlan0 ingress prio 9
  done <<LINES
enc_key_id 42 enc_dst_port 4789
enc_key_id 42 enc_dst_ip 10.8.0.1
enc_key_id 42 enc_dst_ip 10.8.0.1 enc_dst_port 4790
LINES
  ip link del vxlan0 || fail "vxlan0"
  [[ $(rules) == 0 ]] || fail "$(rules) rules are left"
}
