# shellcheck shell=bash disable=SC2015,SC2016,SC2086,SC2154
# Sourced by guest.sh: Linux's own tests of tc (tools/testing/selftests/net/forwarding of Debian's linux-source). They want
# ports that are cabled together, all with hw-tc-offload: representors, whose functions are joined in software. Each test
# runs with skip_hw, then with skip_sw.
selftest() { # selftest SCRIPT [TEST...]
  TESTS="${*:2}" bash "./$1.sh" >/run/selftest 2>&1 || { cat /run/selftest; fail "$1"; }
  grep '^TEST' /run/selftest
  grep -q 'skip_sw.*OK' /run/selftest || fail "$1 ran nothing in hardware"
}
check_selftests() {
  local i
  [[ -d $MACHINE/forwarding ]] || { echo "linux-source is not installed"; return; }
  command -v mausezahn jq ncat >/dev/null || { echo "netsniff-ng, jq or ncat is not installed"; return; }
  # Other ports than the lab's: another card, and a module that knows no other yet.
  kill "$card"; wait "$card"
  rmmod verbatim_nic && insmod "$SHARE/verbatim_nic.ko" || fail "the module"
  "$BUILD/bin/verbatim-nicd" --vfs 4 --rules 4096 --prefix f --device /dev/verbatim-nic --log $W/card.log &
  card=$!
  until_true '[[ -e /sys/class/net/vnicpf0vf3 ]]' || fail "no ports"
  for i in 0 1 2 3; do
    ip link set "fvf$i" up
    ip link set "vnicpf0vf$i" up
    tc qdisc add dev "fvf$i" ingress
    tc filter add dev "fvf$i" ingress matchall action mirred egress redirect dev "fvf$((i ^ 1))"
  done
  cp -r "$MACHINE/forwarding" /run/ && cd /run/forwarding || fail "no tests"
  { echo 'declare -A NETIFS'
    for i in 1 2 3 4; do echo "NETIFS[p$i]=vnicpf0vf$((i - 1))"; done
    printf '%s\n' NETIF_CREATE=no WAIT_TIME=1 TC_HIT_TIMEOUT=3000; } >forwarding.config
  selftest tc_shblocks shared_block_test match_indev_test
  selftest tc_chains unreachable_chain_test gact_goto_chain_test
  selftest tc_flower match_vlan_test match_ip_ttl_test
  selftest tc_actions gact_drop_and_ok_test mirred_egress_redirect_test
}
