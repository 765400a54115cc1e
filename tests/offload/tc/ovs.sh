# shellcheck shell=bash disable=SC2016,SC2034,SC2086,SC2154
# Sourced by guest.sh: Debian's Open vSwitch with the kernel's datapath, tc-policy=skip_sw.
of_packets() { ovs-ofctl dump-flows br0 "$1" | sed -n 's/.*n_packets=\([0-9]*\).*/\1/p'; }

check_ovs() { # offloaded; ovs-vswitchd stopped; idle flows go
  ovs_up
  until_true '[[ $(lost n0 10.9.0.2 3 0.3 2) == 0 ]]' 10 || fail "no ping"
  until_true '[[ $(offloaded) -ge 2 ]]' || fail "not offloaded"
  appctl dpctl/dump-flows type=ovs | grep -q 'eth_type(0x0800)' && fail "the kernel's datapath has it, too"
  tc filter show dev $V0 ingress | grep -q 'in_hw in_hw_count 1' || fail "not in hardware"
  local was
  was=$(cat /sys/class/net/$V0/statistics/rx_packets)
  kill -STOP "$(<$R/ovs-vswitchd.pid)"
  [[ $(lost n0 10.9.0.2 50 0.1) == 0 ]] || fail "traffic stopped with ovs-vswitchd"
  kill -CONT "$(<$R/ovs-vswitchd.pid)"
  [[ $(($(cat /sys/class/net/$V0/statistics/rx_packets) - was)) -le 5 ]] || fail "software saw them"
  until_true 'appctl dpctl/dump-flows type=offloaded | grep -q "packets:5[0-9],"' || fail "$(appctl dpctl/dump-flows type=offloaded)"
  until_true '[[ $(offloaded) == 0 && $(rules) == 0 ]]' 150 || fail "an idle flow lives on: $(nic flows)"
}
check_ovs_counts() { # OpenFlow's counters are exact
  ovs_up
  printf '%s\n' arp,actions=NORMAL icmp,in_port=$V0,actions=output:$V1 icmp,in_port=$V1,actions=output:$V0 | ovs-ofctl replace-flows br0 -
  ns n0 ping -c 1000 -i 0.002 -q 10.9.0.2 >/run/ping || fail "$(cat /run/ping)"
  [[ $(offloaded) -ge 2 ]] || fail "not offloaded"
  until_true '[[ $(of_packets icmp,in_port=$V0) == 1000 && $(of_packets icmp,in_port=$V1) == 1000 ]]' 100 ||
    fail "OpenFlow counts $(of_packets icmp,in_port=$V0) and $(of_packets icmp,in_port=$V1) of 1000"
}
check_ovs_actions() { # tags, addresses, TTL, ports: offloaded, and a ping comes back through them
  ovs_up
  ip -n n0 link add link eth0 name eth0.5 type vlan id 5
  ip -n n0 addr add 10.10.0.1/24 dev eth0.5 && ip -n n0 link set eth0.5 up
  ip -n n1 addr add 10.10.0.2/24 dev eth0
  vsctl set port $V1 tag=5
  until_true '[[ $(lost n0 10.10.0.2 3 0.3 2) == 0 ]]' 10 || fail "no ping through a tag"
  until_true 'appctl dpctl/dump-flows -m type=offloaded | grep "offloaded:yes, dp:tc" | grep -q pop_vlan' || fail "no pop"
  appctl dpctl/dump-flows -m type=offloaded | grep 'offloaded:yes, dp:tc' | grep -q 'push_vlan(vid=5' || fail "no push"
  vsctl clear port $V1 tag
  ip -n n0 neigh replace 10.9.0.77 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
  printf '%s\n' "ip,in_port=$V0,nw_dst=10.9.0.77,actions=mod_dl_dst:02:00:00:00:00:02,mod_nw_dst:10.9.0.2,mod_nw_ttl:9,output:$V1" \
    "ip,in_port=$V1,nw_src=10.9.0.2,actions=mod_nw_src:10.9.0.77,output:$V0" | ovs-ofctl replace-flows br0 -
  until_true '[[ $(lost n0 10.9.0.77 3 0.3 2) == 0 ]]' 10 || fail "no ping through an address"
  until_true 'appctl dpctl/dump-flows -m type=offloaded | grep "offloaded:yes, dp:tc" | grep -q "set(ipv4(dst=10.9.0.2,ttl=9))"' ||
    fail "$(appctl dpctl/dump-flows -m)"
}
check_ovs_software() { # What the card does not do is the kernel's datapath's: nothing is lost.
  ovs_up
  printf '%s\n' "arp,actions=NORMAL" "ip,in_port=$V0,actions=mod_nw_tos:32,output:$V1" "ip,in_port=$V1,actions=output:$V0" | ovs-ofctl replace-flows br0 -
  until_true '[[ $(lost n0 10.9.0.2 3 0.3 2) == 0 ]]' 10 || fail "no ping"
  [[ $(lost n0 10.9.0.2 20 0.05) == 0 ]] || fail "lost"
  appctl dpctl/dump-flows type=ovs | grep -q 'set(ipv4(tos=0x20' || fail "$(appctl dpctl/dump-flows -m)"
  [[ $(offloaded) -ge 1 ]] || fail "the way back is not offloaded"
}
check_ovs_card_killed() { # Open vSwitch lives, and goes on with the next card.
  ovs_up
  until_true '[[ $(lost n0 10.9.0.2 3 0.3 2) == 0 ]]' 10 || fail "no ping"
  kill -9 "$card"; wait "$card"
  card_start
  until_true '[[ $(lost n0 10.9.0.2 3 0.3 2) == 0 ]]' 20 || fail "no ping after it"
  until_true '[[ $(offloaded) -ge 2 ]]' || fail "not offloaded"
}
