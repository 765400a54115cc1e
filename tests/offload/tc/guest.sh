#!/usr/bin/env bash
# shellcheck disable=SC1091,SC2119,SC2317 # Checks are functions that are named by words.
# guest.sh BUILD SHARE MACHINE [CHECK...], in the guest: what tc and Debian's unmodified Open vSwitch make of the card by its module.
# Each check has a card, a module and namespaces of its own.
here=$(cd "$(dirname "$0")" && pwd)
export BUILD=$1 SHARE=$2 MACHINE=$3
shift 3
modprobe -a cls_flower sch_ingress act_mirred act_gact act_vlan act_pedit act_csum act_police act_tunnel_key act_skbedit \
  act_ct cls_matchall vxlan geneve ip_gre vrf 8021q openvswitch tun || exit 1
source "$here/lab.sh"
source "$here/rules.sh"
source "$here/ovs.sh"
source "$here/selftests.sh"
[[ $# -gt 0 ]] || mapfile -t all < <(declare -F | sed -n 's/^declare -f check_//p')
run() (
  trap lab_end EXIT
  lab_up
  "check_$1" || fail "its last command"
)
namespaces_up
failed=0
for check in "$@" "${all[@]}"; do
  before=$SECONDS
  if run "$check" >/run/said 2>&1; then
    echo "ok: $check ($((SECONDS - before)) s)"
  else
    echo "FAILED: $check"
    tail -n 30 /run/said
    failed=$((failed + 1))
  fi
  if dmesg | grep -E 'BUG|WARNING|Oops|Call Trace|INFO: task' >/run/kernel; then
    echo "FAILED: $check: the kernel says"
    dmesg | tail -n 40
    failed=$((failed + 1))
    dmesg -C
  fi
done
exit "$failed"
