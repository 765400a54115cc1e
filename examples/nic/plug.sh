#!/bin/bash
# plug.sh host|dpu: an orchestrator gives two virtual machines a port each, on a host whose card has no processors of its
# own, or on one whose card is a DPU. What it must know is in the first table; the rest is the same. To run it:
#
#   verbatim nic ovs up --mode dpu
#   examples/nic/plug.sh dpu
#   verbatim nic ovs down
set -euo pipefail

case ${1:-} in
  host)
    agent=shell               # Open vSwitch, and the orchestrator's agent, are beside the virtual machines.
    machines=shell
    bridge_port=(vf0 vf1)     # What the agent calls a function's representor,
    representor=(vf0 vf1)     # and DPDK.
    ;;
  dpu)
    agent=shell               # They are on the DPU: the agent registers that as a machine of its own, without any
    machines=host             # virtual ones, and learns which host it belongs to.
    bridge_port=(pf0vf0 pf0vf1)
    representor=(c1pf0vf0 c1pf0vf1)  # Controller 1 is the host.
    ;;
  *)
    echo "usage: plug.sh host|dpu (after 'verbatim nic ovs up --mode host|dpu')" >&2
    exit 2
    ;;
esac
# What the orchestrator has decided: each port's identity, address and machine.
identity=(11111111-aaaa 22222222-bbbb)
mac=(02:00:00:00:00:a1 02:00:00:00:00:a2)
ip=(10.9.1.1 10.9.1.2)

at_agent() { verbatim nic ovs "$agent" -- "$@"; }
in_machine() { verbatim nic ovs "$machines" -- ip netns exec "vf$1" "${@:2}"; }

# The agent plugs a function: the bridge's port carries the identity by which others find it, and the MAC, which a host
# cannot change behind a DPU.
plug() {  # NUMBER
  local name=${bridge_port[$1]}
  at_agent ovs-vsctl -- --if-exists del-port br0 "$name" -- add-port br-int "$name" -- \
    set Interface "$name" type=dpdk "options:dpdk-devargs=\"net_verbatim0,representor=${representor[$1]}\"" \
    "options:dpdk-vf-mac=\"${mac[$1]}\"" "external_ids:iface-id=${identity[$1]}" \
    "external_ids:attached-mac=\"${mac[$1]}\""
}

at_agent ovs-vsctl -- --may-exist add-br br-int -- set Bridge br-int datapath_type=netdev
for number in 0 1; do
  plug "$number"
  in_machine "$number" ip addr replace "${ip[$number]}/24" dev eth0
  echo "machine $number: port ${identity[$number]} is ${bridge_port[$number]} of br-int," \
    "MAC $(in_machine "$number" ip -br link show eth0 | awk '{print $3}')"
done

until in_machine 0 ping -c 1 -W 1 -q "${ip[1]}" >/dev/null; do :; done
in_machine 0 ping -c 10 -i 0.1 -q "${ip[1]}" | grep loss
until [[ $(at_agent ovs-appctl dpctl/dump-flows type=offloaded | grep -c 'eth_type(0x0800)') -ge 2 ]]; do sleep 0.1; done
echo "offloaded: the flow of each direction"
