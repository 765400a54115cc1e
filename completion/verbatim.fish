# Completion of verbatim(1) in fish: in a folder of $fish_complete_path.

function __verbatim_is_before_command
    set -l words (commandline -opc)
    test (count $words) -eq 1
end

# True if the command is one of these, and the other command line (after --) has not begun.
function __verbatim_is_in
    set -l words (commandline -opc)
    test (count $words) -ge 2; and contains -- $words[2] $argv; and not contains -- -- $words
end

function __verbatim_is_after_dashes
    contains -- -- (commandline -opc)
end

# The words after -- are another command line.
function __verbatim_other_command
    set -l words (commandline -opc)
    set -l dashes (contains -i -- -- $words)
    set -l own $words[(math $dashes + 1)..-1] (commandline -ct)
    complete -C (string join ' ' -- $own)
end

# Running nodes: a new program can join them.
function __verbatim_nodes
    verbatim status --names 2>/dev/null
end

# The fabrics that run.
function __verbatim_fabrics
    verbatim fabric show --names 2>/dev/null
end

# Whether a command of this group (fabric, target, ...) is asked for.
function __verbatim_is_before_command_of
    set -l words (commandline -opc)
    test (count $words) -eq 2; and test $words[2] = $argv[1]
end

# Whether the command of the group in the first argument is one of the others, and no other command line has begun.
function __verbatim_is_in_group
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test $words[2] = $argv[1]; and contains -- $words[3] $argv[2..]; and not contains -- -- $words
end

# Whether a disk's URL is asked for, or one of its options.
function __verbatim_is_in_disk
    set -l words (commandline -opc)
    test (count $words) -ge 2; and test $words[2] = disk; and not contains -- "$words[3]" show up down
end

function __verbatim_is_in_disk_show
    set -l words (commandline -opc)
    test (count $words) -ge 3; and test $words[2] = disk; and test $words[3] = show
end

complete -c verbatim -f
complete -c verbatim -n __verbatim_is_after_dashes -a '(__verbatim_other_command)'

complete -c verbatim -n 'not __verbatim_is_after_dashes' -s h -l help -d 'Print what it does, its options and examples'
complete -c verbatim -n 'not __verbatim_is_after_dashes' -l version -d 'Print the version'

complete -c verbatim -n __verbatim_is_before_command -a run -d 'Run a program on an emulated host'
complete -c verbatim -n __verbatim_is_before_command -a env -d 'Print shell commands that put a shell on a host'
complete -c verbatim -n __verbatim_is_before_command -a config -d 'Show a configuration, or check a file'
complete -c verbatim -n __verbatim_is_before_command -a devices -d 'List the RDMA devices of the emulated hosts'
complete -c verbatim -n __verbatim_is_before_command -a status -d 'Show nodes, programs, services and their counters'
complete -c verbatim -n __verbatim_is_before_command -a fabric -d 'Start, show and end InfiniBand fabrics'
complete -c verbatim -n __verbatim_is_before_command -a cluster -d 'Run programs on many nodes, as mpirun does'
complete -c verbatim -n __verbatim_is_before_command -a ipoib -d 'Interfaces of IP over InfiniBand'
complete -c verbatim -n __verbatim_is_before_command -a lnet -d "Lustre's network"
complete -c verbatim -n __verbatim_is_before_command -a rds -d 'Reliable Datagram Sockets'
complete -c verbatim -n __verbatim_is_before_command -a target -d 'Serve a disk by NVMe over Fabrics and iSCSI'
complete -c verbatim -n __verbatim_is_before_command -a nfs -d 'Serve and reach files by NFS over RDMA'
complete -c verbatim -n __verbatim_is_before_command -a disk -d 'Have a target\'s disk, by NBD'
complete -c verbatim -n __verbatim_is_before_command -a nic -d 'A SmartNIC that Open vSwitch offloads into'
complete -c verbatim -n __verbatim_is_before_command -a capture -d 'Write a node\'s packets into a file for Wireshark'
complete -c verbatim -n __verbatim_is_before_command -a fault -d 'Inject faults into packets of programs that run'
complete -c verbatim -n __verbatim_is_before_command -a doctor -d 'Tell what is wrong with this machine or a program'

set -l has_node_options '__verbatim_is_in run env capture doctor; or __verbatim_is_in_disk; or __verbatim_is_in_group disk up down; or __verbatim_is_in_group target up down show; or __verbatim_is_in_group nfs serve client show down; or __verbatim_is_in_group ipoib up down show neigh; or __verbatim_is_in_group lnet up down show ping test; or __verbatim_is_in_group rds up down show ping'
complete -c verbatim -n $has_node_options -x -l node -a '(__verbatim_nodes)' -d 'Name of the node'
complete -c verbatim -n $has_node_options -x -l address -a '127.0.0.2 127.0.0.3 127.0.0.4' -d 'IP address of the node'
complete -c verbatim -n $has_node_options -x -l protocol -a 'roce iwarp' -d 'What its adapter speaks'
complete -c verbatim -n $has_node_options -x -l roce -a 'v2 v1 v1,v2 v2,v1' -d 'RoCE versions of its GIDs'
complete -c verbatim -n $has_node_options -x -l device -a 'verbatim0 mlx5_0 NAME_GUID NAME_NODE' -d 'Name of its device'
complete -c verbatim -n $has_node_options -x -l profile -a 'verbatim connectx-7 rxe tiny' -d 'The device whose limits it has'
complete -c verbatim -n $has_node_options -x -l function -a 'vf0 vf1 ovs/vf2' -d 'A function of a card as its interface'
complete -c verbatim -n $has_node_options -x -l path -a 'auto wire direct' -d 'To programs of this machine'
complete -c verbatim -n '__verbatim_is_in capture' -r -F -s w -l write -d 'The pcapng file, or -'
complete -c verbatim -n '__verbatim_is_in capture' -x -l for -a '10s 1min' -d 'End it after this time'
complete -c verbatim -n '__verbatim_is_in run env' -l sdp -d 'TCP sockets use SDP'
complete -c verbatim -n '__verbatim_is_in run' -x -l fault -a 'loss=1% delay=1ms duplicate=1% reorder=1% corrupt=0.1%' -d 'Faults of the packets it sends'
complete -c verbatim -n '__verbatim_is_in run env' -l rsockets -d 'Its sockets become rsockets'
complete -c verbatim -n '__verbatim_is_in fault' -a '(__verbatim_nodes) off show loss=1% delay=1ms'
complete -c verbatim -n '__verbatim_is_in config' -a '(__verbatim_nodes)'
complete -c verbatim -n '__verbatim_is_in config' -r -F -l check -d 'Check this file'
complete -c verbatim -n '__verbatim_is_in status doctor' -l json -d 'Print everything as JSON'
complete -c verbatim -n '__verbatim_is_in status' -l names -d 'Print the names of the nodes alone'

complete -c verbatim -n '__verbatim_is_in run env capture doctor; or __verbatim_is_in_disk; or __verbatim_is_in_group disk up down; or __verbatim_is_in_group target up down show; or __verbatim_is_in_group nfs serve client show down; or __verbatim_is_in_group ipoib up down show neigh; or __verbatim_is_in_group lnet up down show ping test; or __verbatim_is_in_group rds up down show ping' -x -l fabric -a '(__verbatim_fabrics)' -d 'The fabric of the host'
complete -c verbatim -n '__verbatim_is_in run env capture doctor; or __verbatim_is_in_disk; or __verbatim_is_in_group disk up down; or __verbatim_is_in_group target up down show; or __verbatim_is_in_group nfs serve client show down; or __verbatim_is_in_group ipoib up down show neigh; or __verbatim_is_in_group lnet up down show ping test; or __verbatim_is_in_group rds up down show ping' -x -l host -a 'H1 H2 H3 H4' -d 'A host of a fabric'
complete -c verbatim -n '__verbatim_is_in run env' -l rds -d 'It has AF_RDS sockets'
complete -c verbatim -n '__verbatim_is_before_command_of rds' -a up -d 'Keep a broker'
complete -c verbatim -n '__verbatim_is_before_command_of rds' -a down -d 'End the broker'
complete -c verbatim -n '__verbatim_is_before_command_of rds' -a show -d 'Show peers, sockets and counters'
complete -c verbatim -n '__verbatim_is_before_command_of rds' -a ping -d 'Ask a peer for an answer'
complete -c verbatim -n '__verbatim_is_in_group rds show' -l json -d 'Print JSON'
complete -c verbatim -n '__verbatim_is_in_group rds up' -l until-idle -d 'It ends when nobody uses it'
complete -c verbatim -n '__verbatim_is_in_group rds ping' -x -s c -l count -d 'So many'
complete -c verbatim -n '__verbatim_is_in_group rds ping' -x -s i -l interval -d 'Seconds between two'
complete -c verbatim -n '__verbatim_is_in_group rds ping' -x -l from -d 'An address of the node'
complete -c verbatim -n '__verbatim_is_before_command_of lnet' -a up -d 'Start a node'
complete -c verbatim -n '__verbatim_is_before_command_of lnet' -a down -d 'End a node'
complete -c verbatim -n '__verbatim_is_before_command_of lnet' -a show -d 'Show peers and counters'
complete -c verbatim -n '__verbatim_is_before_command_of lnet' -a ping -d 'Ask another node who it is'
complete -c verbatim -n '__verbatim_is_before_command_of lnet' -a test -d 'Test the way to another node'
complete -c verbatim -n '__verbatim_is_in_group lnet up' -x -l net -a o2ib -d 'A network it is at'
complete -c verbatim -n '__verbatim_is_in_group lnet up' -x -l route -d 'Which node leads to a network'
complete -c verbatim -n '__verbatim_is_in_group lnet up' -x -l port -a 987 -d 'Of all nodes'
complete -c verbatim -n '__verbatim_is_in_group lnet show' -l json -d 'Print JSON'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -l read -d 'It sends bulks'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -l write -d 'It fetches bulks'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -x -l bytes -a '4096 65536 1048576' -d 'Of a bulk'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -x -l requests -d 'How many'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -x -l concurrency -d 'At once'
complete -c verbatim -n '__verbatim_is_in_group lnet test' -x -l check -a 'full simple none' -d 'Bytes that are compared'
complete -c verbatim -n '__verbatim_is_before_command_of ipoib' -a up -d 'Make an interface'
complete -c verbatim -n '__verbatim_is_before_command_of ipoib' -a down -d 'Remove an interface'
complete -c verbatim -n '__verbatim_is_before_command_of ipoib' -a show -d 'Show an interface, its groups and counters'
complete -c verbatim -n '__verbatim_is_before_command_of ipoib' -a neigh -d 'Show neighbours'
complete -c verbatim -n '__verbatim_is_in_group ipoib up down show neigh' -x -l name -a 'ib0 ib1' -d 'The interface'
complete -c verbatim -n '__verbatim_is_in_group ipoib up down show neigh' -r -l names -d 'Rules for names'
complete -c verbatim -n '__verbatim_is_in_group ipoib up down show neigh' -x -l port -a '1 2' -d 'Of the host'
complete -c verbatim -n '__verbatim_is_in_group ipoib up' -x -l mode -a 'datagram connected' -d 'How packets travel'
complete -c verbatim -n '__verbatim_is_in_group ipoib up' -x -l pkey -d 'Its partition'
complete -c verbatim -n '__verbatim_is_in_group ipoib up' -r -l netns -d 'Its network namespace: a process or a file'
complete -c verbatim -n '__verbatim_is_in_group ipoib show' -l json -d 'Print JSON'
complete -c verbatim -n '__verbatim_is_before_command_of nfs' -a serve -d 'Serve an NFS server\'s files over RDMA'
complete -c verbatim -n '__verbatim_is_before_command_of nfs' -a client -d 'Reach an RDMA server for clients that speak TCP'
complete -c verbatim -n '__verbatim_is_before_command_of nfs' -a show -d 'Show a node\'s NFS gateways and their clients'
complete -c verbatim -n '__verbatim_is_before_command_of nfs' -a down -d 'End a node\'s NFS gateways'
complete -c verbatim -n '__verbatim_is_in_group nfs serve' -x -l to -a 127.0.0.1 -d 'The NFS server, over TCP'
complete -c verbatim -n '__verbatim_is_in_group nfs serve client' -x -l listen -d 'Where clients connect'
complete -c verbatim -n '__verbatim_is_in_group nfs show' -l json -d 'Print JSON'
complete -c verbatim -n '__verbatim_is_before_command_of target' -a up -d 'Start a node\'s target'
complete -c verbatim -n '__verbatim_is_before_command_of target' -a down -d 'End a node\'s target'
complete -c verbatim -n '__verbatim_is_before_command_of target' -a show -d 'Show a target\'s disks, hosts and refusals'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l nvme -d 'Name of the subsystem'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l ram -a '64M 1G' -d 'Size of the disk'
complete -c verbatim -n '__verbatim_is_in_group target up' -r -F -l file -d 'The disk: a file or block device'
complete -c verbatim -n '__verbatim_is_in_group target up' -l direct -d 'Past the page cache'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l kernel -a '6.1 6.13' -d 'Whose tree programs see'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l spin -a 'always 0 50' -d 'How long it polls before it sleeps'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l null -a '1G' -d 'Size of a disk of nothing'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l block -a '512 4096' -d 'Bytes of a block'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l listen -d 'Where hosts connect'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l allow-host -d 'A host that may connect'
complete -c verbatim -n '__verbatim_is_in_group target up' -l allow-any-host -d 'All hosts may connect'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l iscsi -d 'Name of the iSCSI target'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l iscsi-listen -d 'Where initiators connect'
complete -c verbatim -n '__verbatim_is_in_group target up' -r -l iscsi-auth -d 'File of users and secrets of CHAP'
complete -c verbatim -n '__verbatim_is_in_group target up' -f -l srp -d 'Identifier of an SRP port'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l srp-listen -d 'Where SRP initiators connect'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l allow-srp-initiator -d 'A port that may log in'
complete -c verbatim -n '__verbatim_is_in_group target up' -f -l allow-any-srp-initiator -d 'All SRP initiators may log in'
complete -c verbatim -n '__verbatim_is_in_group target up' -x -l allow-initiator -d 'An initiator that may log in'
complete -c verbatim -n '__verbatim_is_in_group target up' -l allow-any-initiator -d 'All initiators may log in'
complete -c verbatim -n '__verbatim_is_in_group target show' -l json -d 'Print JSON'
complete -c verbatim -n __verbatim_is_in_disk -a show -d 'Show the disks that are served'
complete -c verbatim -n __verbatim_is_in_disk -a up -d 'Start what keeps programs\' logins'
complete -c verbatim -n __verbatim_is_in_disk -a down -d 'End the logins of a node\'s programs'
complete -c verbatim -n __verbatim_is_in_disk -x -l name -d 'Its name in the list'
complete -c verbatim -n __verbatim_is_in_disk -r -F -l socket -d 'Where users connect'
complete -c verbatim -n __verbatim_is_in_disk -x -l initiator -d 'Who we are: an IQN or NQN'
complete -c verbatim -n __verbatim_is_in_disk -r -F -l auth -d 'User and secret of CHAP'
complete -c verbatim -n __verbatim_is_in_disk -x -l sessions -a '1 2 4' -d 'How many, a thread each'
complete -c verbatim -n __verbatim_is_in_disk -x -l host-id -d 'Which host, to reservations'
complete -c verbatim -n __verbatim_is_in_disk -x -l patience -a 120 -d 'How long a lost target is waited for'
complete -c verbatim -n __verbatim_is_in_disk -r -F -l vhost-user -d 'A device of QEMU, at this socket'
complete -c verbatim -n __verbatim_is_in_disk -l read-only -d 'Nobody may write'
complete -c verbatim -n '__verbatim_is_in_group disk down' -x -l name -d 'One disk alone'
complete -c verbatim -n __verbatim_is_in_disk_show -l json -d 'Print JSON'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a up -d 'Start a fabric'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a down -d 'End a fabric and its subnet manager'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a show -d 'Show nodes and links, and their states'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a link -d 'Take a cable out, put it in, or make it worse'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a trunk -d 'Plug in a cable to a fabric elsewhere'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a capture -d 'Write packets on cables into a file'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a check -d 'Check what the subnet manager has programmed'
complete -c verbatim -n '__verbatim_is_before_command_of fabric' -a generate -d 'Make a topology of many hosts'
complete -c verbatim -n '__verbatim_is_in_group fabric up down show link trunk capture check' -x -l name -a '(__verbatim_fabrics)' -d 'The fabric'
complete -c verbatim -n '__verbatim_is_in_group fabric up' -F
complete -c verbatim -n '__verbatim_is_in_group fabric up' -x -l manager -a 'none opensm' -d 'Subnet manager'
complete -c verbatim -n '__verbatim_is_in_group fabric up' -x -l rate -a 'link unlimited' -d 'Rate of links'
complete -c verbatim -n '__verbatim_is_in_group fabric up' -x -l ends-with -a '(__fish_complete_pids)' -d 'End with this process'
complete -c verbatim -n '__verbatim_is_in_group fabric show' -l json -d 'Print everything as JSON'
complete -c verbatim -n '__verbatim_is_in_group fabric show' -l names -d 'Print the names of the fabrics alone'
complete -c verbatim -n '__verbatim_is_in_group fabric show' -r -F -l svg -d 'Draw it into this file'
complete -c verbatim -n '__verbatim_is_in_group fabric check' -x -l service-level -d 'Of packets'
complete -c verbatim -n '__verbatim_is_in_group fabric capture' -F
complete -c verbatim -n '__verbatim_is_in_group fabric capture' -x -l link -d 'Of this cable alone'
complete -c verbatim -n '__verbatim_is_in_group fabric capture' -x -l for -a '10s 1min' -d 'End it after this time'
complete -c verbatim -n '__verbatim_is_in_group fabric link' -a 'down up degrade errors 1x SDR 1e-9'
complete -c verbatim -n '__verbatim_is_in_group fabric trunk' -x -l listen -d 'Where the other side finds this one'
complete -c verbatim -n '__verbatim_is_in_group fabric trunk' -x -l to -d 'Where the other side is'
complete -c verbatim -n '__verbatim_is_in_group fabric trunk' -x -l rate -a '4xEDR 4xHDR 4xNDR 4xXDR' -d 'Width and speed'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -a 'fat-tree dragonfly+ torus-2d torus-3d hypercube full-mesh two-subnets'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l hosts -d 'How many hosts'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l ports -a '1 2' -d 'Of each host'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l switch-ports -d 'Of each switch'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l oversubscription -d 'Hosts of a leaf for each uplink'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l rate -a '4xEDR 4xHDR 4xNDR 4xXDR' -d 'Of each link'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l length -d 'Of each cable, in metres'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l guid-base -d 'In all GUIDs'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l name-prefix -d 'Before all names'
complete -c verbatim -n '__verbatim_is_in_group fabric generate' -x -l format -a 'ibnetdiscover ibsim' -d 'Of the output'

complete -c verbatim -n '__verbatim_is_before_command_of cluster' -a up -d 'Make nodes'
complete -c verbatim -n '__verbatim_is_before_command_of cluster' -a run -d 'Run a program on a node'
complete -c verbatim -n '__verbatim_is_before_command_of cluster' -a show -d 'Show nodes, programs and packets between them'
complete -c verbatim -n '__verbatim_is_before_command_of cluster' -a down -d 'End programs on the nodes, and the nodes'
complete -c verbatim -n '__verbatim_is_before_command_of cluster' -a agent -d 'Takes the place of ssh'
complete -c verbatim -n '__verbatim_is_in_group cluster up run show down' -x -l name -d 'The cluster'
complete -c verbatim -n '__verbatim_is_in_group cluster up' -x -l nodes -d 'How many'
complete -c verbatim -n '__verbatim_is_in_group cluster up' -x -l slots -d 'Of a node, in a hostfile'
complete -c verbatim -n '__verbatim_is_in_group cluster up' -x -l protocol -a 'roce iwarp' -d 'What their adapters speak'
complete -c verbatim -n '__verbatim_is_in_group cluster up' -x -l hosts -d 'Of a fabric: each is a node'
complete -c verbatim -n '__verbatim_is_in_group cluster up' -x -l fabric -a '(__verbatim_fabrics)' -d 'Of the hosts'
complete -c verbatim -n '__verbatim_is_in_group cluster run' -x -l on -a 'n1 n2 n3 n4' -d 'The node'
complete -c verbatim -n '__verbatim_is_in_group cluster show' -l json -d 'Print the status of each node as JSON'
complete -c verbatim -n '__verbatim_is_in_group cluster show' -l hostfile -d 'Print a hostfile for mpirun'

complete -c verbatim -n '__verbatim_is_before_command_of nic' -a up -d 'Start a card'
complete -c verbatim -n '__verbatim_is_before_command_of nic' -a show -d 'Show a card, its ports and its driver'
complete -c verbatim -n '__verbatim_is_before_command_of nic' -a flows -d 'Show the rules and what they counted'
complete -c verbatim -n '__verbatim_is_before_command_of nic' -a stats -d 'Show what the ports have counted'
complete -c verbatim -n '__verbatim_is_before_command_of nic' -a down -d 'End a card'
complete -c verbatim -n '__verbatim_is_before_command_of nic' -a ovs -d 'Open vSwitch of Debian with a card'
complete -c verbatim -n '__verbatim_is_in_group nic up show flows stats down' -x -l name -d 'The card'
complete -c verbatim -n '__verbatim_is_in_group nic up ovs' -x -l vfs -d 'How many functions'
complete -c verbatim -n '__verbatim_is_in_group nic up ovs' -x -l mode -a 'host dpu' -d 'Where Open vSwitch is'
complete -c verbatim -n '__verbatim_is_in_group nic up ovs' -x -l rings -a 'vf2,vf3' -d 'Functions of memory'
complete -c verbatim -n '__verbatim_is_in_group nic up' -x -l prefix -d 'Of the interfaces'
complete -c verbatim -n '__verbatim_is_in_group nic up' -x -l rules -d 'Room for rules'
complete -c verbatim -n '__verbatim_is_in_group nic up' -r -l socket -d 'Where a driver connects'
complete -c verbatim -n '__verbatim_is_in_group nic up' -r -l device -d 'Of the kernel\'s driver'
complete -c verbatim -n '__verbatim_is_in_group nic show flows stats' -l json -d 'Print everything as JSON'
complete -c verbatim -n '__verbatim_is_in_group nic stats' -l watch -d 'Once a second'
complete -c verbatim -n '__verbatim_is_in_group nic ovs' -a 'up show down shell host' -d 'What to do'
