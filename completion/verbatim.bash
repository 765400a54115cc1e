# Completion of verbatim(1) in bash. Debian's bash-completion loads it; else: source completion/verbatim.bash

# Running nodes: a new program can join them.
_verbatim_nodes() {
  verbatim status --names 2> /dev/null
}

# The fabrics that run.
_verbatim_fabrics() {
  verbatim fabric show --names 2> /dev/null
}

# Completes the current word from the given words.
_verbatim_reply() {
  mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2")
}

# Completes another command line, which begins at the word of this number.
_verbatim_other_command() {
  if declare -F _command_offset > /dev/null; then
    _command_offset "$1"
  elif ((COMP_CWORD == $1)); then
    mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
  else
    mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]}")
  fi
}

_verbatim() {
  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} command="" word
  local node_options="--node --address --protocol --roce --device --profile --function --path" common="-h --help --version"
  COMPREPLY=()
  for ((word = 1; word < COMP_CWORD; ++word)); do
    case ${COMP_WORDS[word]} in
      --) _verbatim_other_command $((word + 1)); return ;;
      -*) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[word]}
         elif [[ $command == fabric || $command == cluster || $command == target || $command == nfs || $command == disk || $command == nic || $command == ipoib || $command == lnet || $command == rds ]]; then command="$command ${COMP_WORDS[word]}"; fi ;;
    esac
  done
  case $previous in
    --node) _verbatim_reply "$(_verbatim_nodes)" "$current"; return ;;
    --address) _verbatim_reply "127.0.0.2 127.0.0.3 127.0.0.4" "$current"; return ;;
    --protocol) _verbatim_reply "roce iwarp" "$current"; return ;;
    --device) _verbatim_reply "verbatim0 mlx5_0 NAME_GUID NAME_NODE" "$current"; return ;;
    --profile) _verbatim_reply "verbatim connectx-7 rxe tiny" "$current"; return ;;
    --fault) _verbatim_reply "loss=1% delay=1ms duplicate=1% reorder=1% corrupt=0.1%" "$current"; return ;;
    --path) _verbatim_reply "auto wire direct" "$current"; return ;;
    --for) _verbatim_reply "10s 1min" "$current"; return ;;
    -w | --write | --check | --svg | --socket | --vhost-user | --auth) mapfile -t COMPREPLY < <(compgen -f -- "$current"); return ;;
    --fabric | --name) _verbatim_reply "$(_verbatim_fabrics)" "$current"; return ;;
    --host) _verbatim_reply "H1 H2 H3 H4" "$current"; return ;;
    --manager) _verbatim_reply "none opensm" "$current"; return ;;
    --rate) if [[ $command == "fabric up" ]]; then _verbatim_reply "link unlimited" "$current"
            else _verbatim_reply "4xEDR 4xHDR 4xNDR 4xXDR" "$current"; fi; return ;;
    --format) _verbatim_reply "ibnetdiscover ibsim" "$current"; return ;;
    --hosts | --nodes | --slots | --on | --ports | --switch-ports | --oversubscription | --length | --guid-base | --name-prefix | --listen | --nvme | --allow-srp-initiator | --srp-listen | --srp | --iscsi | --iscsi-listen | --allow-initiator | --ram | --null | --spin | --kernel | --sessions | --block | --allow-host | --to | --link | --service-level | --ends-with | --pkey | --netns | --net | --route | --port | --bytes | --requests | --concurrency | --vfs | --prefix | --rules | --count | --interval | --from | --initiator | --host-id | --patience) return ;;
    --roce) _verbatim_reply "v2 v1 v1,v2 v2,v1" "$current"; return ;;
  esac
  case $command in
    "") _verbatim_reply "run env config devices status fabric cluster ipoib lnet rds target nfs disk nic capture fault doctor $common" "$current" ;;
    run) _verbatim_reply "-- $node_options --fault --rsockets --sdp --rds --fabric --host $common" "$current" ;;
    env) _verbatim_reply "$node_options --rsockets --sdp --rds --fabric --host $common" "$current" ;;
    config) _verbatim_reply "$(_verbatim_nodes) --check $common" "$current" ;;
    devices) _verbatim_reply "$common" "$current" ;;
    status) _verbatim_reply "--json --names $common" "$current" ;;
    fabric) _verbatim_reply "up down show link trunk capture check generate $common" "$current" ;;
    "fabric up")
      if [[ $current == -* ]]; then _verbatim_reply "--name --manager --rate --ends-with $common" "$current"
      else mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi ;;
    "fabric down") _verbatim_reply "--name $common" "$current" ;;
    "fabric show") _verbatim_reply "--name --json --names --svg $common" "$current" ;;
    "fabric check") _verbatim_reply "--name --service-level $common" "$current" ;;
    "fabric link") _verbatim_reply "down up degrade errors 1x SDR 1e-9 --name $common" "$current" ;;
    "fabric trunk") _verbatim_reply "--listen --to --rate --name $common" "$current" ;;
    "fabric capture")
      if [[ $current == -* ]]; then _verbatim_reply "--name --link --for $common" "$current"
      else mapfile -t COMPREPLY < <(compgen -f -- "$current"); fi ;;
    "fabric generate")
      _verbatim_reply "fat-tree dragonfly+ torus-2d torus-3d hypercube full-mesh two-subnets --hosts --ports --switch-ports
        --oversubscription --rate --length --guid-base --name-prefix --format $common" "$current" ;;
    cluster) _verbatim_reply "up run show down agent $common" "$current" ;;
    "cluster up") _verbatim_reply "--nodes --slots --protocol --hosts --fabric --name $common" "$current" ;;
    "cluster run") _verbatim_reply "-- --on --name $common" "$current" ;;
    "cluster show") _verbatim_reply "--json --hostfile --name $common" "$current" ;;
    "cluster agent") _verbatim_reply "$common" "$current" ;;
    "cluster down") _verbatim_reply "--name $common" "$current" ;;
    ipoib) _verbatim_reply "up down show neigh $common" "$current" ;;
    "ipoib up") _verbatim_reply "--name --names --port --mode --pkey --netns --fabric --host $node_options $common" "$current" ;;
    "ipoib down" | "ipoib neigh") _verbatim_reply "--name --names --port --fabric --host $node_options $common" "$current" ;;
    "ipoib show") _verbatim_reply "--name --names --port --json --fabric --host $node_options $common" "$current" ;;
    rds) _verbatim_reply "up down show ping $common" "$current" ;;
    "rds up") _verbatim_reply "--until-idle --fabric --host $node_options $common" "$current" ;;
    "rds down") _verbatim_reply "--fabric --host $node_options $common" "$current" ;;
    "rds show") _verbatim_reply "--json --fabric --host $node_options $common" "$current" ;;
    "rds ping") _verbatim_reply "--count --interval --from --fabric --host $node_options $common" "$current" ;;
    lnet) _verbatim_reply "up down show ping test $common" "$current" ;;
    "lnet up") _verbatim_reply "--net --route --port --fabric --host $node_options $common" "$current" ;;
    "lnet down" | "lnet ping") _verbatim_reply "--fabric --host $node_options $common" "$current" ;;
    "lnet show") _verbatim_reply "--json --fabric --host $node_options $common" "$current" ;;
    "lnet test") _verbatim_reply "--read --write --bytes --requests --concurrency --check --fabric --host $node_options $common" "$current" ;;
    target) _verbatim_reply "up down show $common" "$current" ;;
    "target up") _verbatim_reply "--nvme --iscsi --ram --file --direct --null --spin --kernel --block --listen --allow-host --allow-any-host --iscsi-listen --iscsi-auth --allow-initiator --allow-any-initiator --srp --srp-listen --allow-srp-initiator --allow-any-srp-initiator --fabric --host $node_options $common" "$current" ;;
    "target down") _verbatim_reply "--fabric --host $node_options $common" "$current" ;;
    "target show") _verbatim_reply "--json --fabric --host $node_options $common" "$current" ;;
    nfs) _verbatim_reply "serve client show down $common" "$current" ;;
    "nfs serve") _verbatim_reply "--to --listen --fabric --host $node_options $common" "$current" ;;
    "nfs client") _verbatim_reply "--listen --fabric --host $node_options $common" "$current" ;;
    "nfs show") _verbatim_reply "--json --fabric --host $node_options $common" "$current" ;;
    "nfs down") _verbatim_reply "--fabric --host $node_options $common" "$current" ;;
    "disk show") _verbatim_reply "--json $common" "$current" ;;
    "disk down") _verbatim_reply "--name --fabric --host $node_options $common" "$current" ;;
    "disk up") _verbatim_reply "--fabric --host $node_options $common" "$current" ;;
    disk | "disk "*) _verbatim_reply "show up down --name --socket --initiator --host-id --auth --sessions --patience --vhost-user --read-only --fabric --host $node_options $common" "$current" ;;
    nic) _verbatim_reply "up show flows stats down ovs $common" "$current" ;;
    "nic up") _verbatim_reply "--vfs --rings --mode --prefix --rules --socket --device --name $common" "$current" ;;
    "nic show" | "nic flows") _verbatim_reply "--json --name $common" "$current" ;;
    "nic stats") _verbatim_reply "--json --watch --name $common" "$current" ;;
    "nic down") _verbatim_reply "--name $common" "$current" ;;
    "nic ovs") _verbatim_reply "up show down shell host -- --vfs --rings --mode $common" "$current" ;;
    capture) _verbatim_reply "-- -w --write --for --fabric --host $node_options $common" "$current" ;;
    fault) _verbatim_reply "$(_verbatim_nodes) off show loss=1% delay=1ms $common" "$current" ;;
    doctor) _verbatim_reply "-- --json --fabric --host $node_options $common" "$current" ;;
  esac
}

complete -F _verbatim verbatim
