#!/usr/bin/env python3
"""readmes.py ROOT: a README for each room that has none."""
import pathlib, re, sys
root = pathlib.Path(sys.argv[1]); src = root / "src"
ROOMS = {
"base/net": """# base/net: addresses
`address.h`: IP addresses with a port, and the GIDs and GUIDs that follow from them. May include `base/`.
""",
"base/os": """# base/os: what the operating system gives
| file | what |
|---|---|
| `unique_fd.h`, `sparse_file.h` | a file descriptor with one owner; a sealed memfd that others may map |
| `timer_fd.h` | a descriptor that becomes readable at a time |
| `thread.h` | where each thread of ours begins, or an errno says why not |
| `mutex.h`, `spin_lock.h`, `fence.h` | locks that each request takes: `std::mutex` in line; four bytes, fit for shared memory, taken over from an owner that is proved dead; memory fences |
| `process_token.h`, `known_end.h`, `liveness.h` | names of processes; one that has ended; a word in which the kernel notes a thread's end |
| `name_locks.h` | locks with names, between processes, in a file |
| `page.h` | the kernel's page size |

May include `base/`.
""",
"wire/ib": """# wire/ib: transport headers and packets
A file for each header: a drawing, a structure, `decode_*`, `encode`. `opcode.h` is the table of opcodes: service, verb, position, headers; RC, UC,
UD and XRC share it. `packet.h` decodes a whole packet between the UDP header and the ICRC, or says why not. `Syndrome` (`aeth.h`) is an
acknowledgement, an RNR NAK or a NAK. `tag_header.h` begins the payload of a SEND to a tag matching queue.
""",
"wire/net": """# wire/net: what stands around a packet
| file | what |
|---|---|
| `ip.h` | IP and UDP headers, from an `IpFlow` (addresses as GIDs) and lengths |
| `grh.h` | the GRH, and the 40 bytes before the payload in a UD receive buffer |
| `icrc.h` | `IcrcSeed` (template of a flow), `Icrc` (piece by piece), `verify_icrc` |
| `frame.h`, `frame_checksum.h` | an Ethernet frame as flow steering sees it; its Internet checksums |
""",
"wire/mad": """# wire/mad: management datagrams
`mad.h` is the common header. `cm_message.h` is any message of the communication manager (`cm_*.h`), in the order of their attribute ids.
`rdma_ip_header.h`: service ids and private data of the RDMA IP CM (annex A11). `management_packet.h`: a MAD in its UD packet.
""",
"wire/iwarp": """# wire/iwarp: MPA, DDP and RDMAP
`mpa.h` and `mpa_markers.h` (RFC 5044, RFC 6581), `ddp.h` (RFC 5041), `rdmap.h` (RFC 5040).
""",
"region/adoption": """# region/adoption: a program's pages move into a file that peers map
| file | what |
|---|---|
| `memory_file.h` | pages of the program move, in place, into a file, and back |
| `write_freeze.h` | memory takes the place of other memory while threads write to it (userfaultfd) |
| `pinned_pages.h` | pages that a driver or the kernel may have pinned: these never move |
| `mappings.h` | /proc/self/maps |

Includes `base`, `region`. Adoption loses no byte: see the invariants in `../README.md`.
""",
"transport/ib/requester": """# transport/ib/requester: RC and UC, the sending side
| file | what |
|---|---|
| `requester.h`, `requester.cpp` | interface, effects and state; set-up, posting, completion in order, failure, flushing |
| `requester_transmit.cpp` | which packet goes next: segmentation, fences, window, AckReq, probes |
| `requester_response.cpp` | ACK, NAK, READ and atomic responses, and the rules that they may break |
| `retransmit.cpp` | going back: losses, time-outs, RNR waits, deadlines |
| `send_window.h`, `round_trip.h` | how much may be in flight; how long silence may last |
| `outstanding_reads.h`, `request_ring.h` | READs and atomics at the peer; the send queue |

Invariants: `../README.md`.
""",
"transport/ib/responder": """# transport/ib/responder: RC, UC and XRC, the receiving side
`responder.h` has interface, effects and state. `responder_accept.cpp` takes packets in order, `responder_checks.*` are the rules of IBA volume 1,
9.7.4, `responder_responses.*` what a repeated READ or atomic is answered with, `responder_transmit.cpp` which response goes next.
Invariants: `../README.md`.
""",
"cm/ib": """# cm/ib: InfiniBand's communication manager
| file | what it holds |
|---|---|
| `connection_manager.h` | the engine: calls, time, MADs; its tables and what all parts do |
| `connect.cpp`, `accept.cpp` | the active side: REQ, REP, RTU; the passive side: which REQ is new, repeated or stale; REP; RTU or data |
| `reject.cpp`, `disconnect.cpp` | REJ and MRA, LAP refused by APR; DREQ, DREP, TimeWait, and `release` in every state |
| `resolve.cpp` | SIDR: queue pair and Q_Key of a datagram service |
| `bounds.cpp`, `guard/` | what peers can make the engine keep |
| `compose.h` | messages from values, and back: offers, paths, the RDMA IP header |
| `connection.h`, `listeners.h` | the state of a connection; who listens |
| `routing.h` | for the agent: whose MAD is this, and what a node answers that has nobody for it |

Invariants and bounds: `../README.md`.
""",
"cm/ib/guard": """# cm/ib/guard: room for those who behave
`source.h`: which requests count as one source. `fair_queue.h`: half-open connections by source. `strangers.h`: who goes for want of room among
connections that are nobody's yet. `unmatched.h`: messages for connections that are not there.
""",
"cm/iwarp": """# cm/iwarp: connections by MPA
`mpa_setup.h`: the Request and the Reply of MPA (RFC 5044, RFC 6581). `stream_manager.h`: TCP connections until a queue pair has them, and their end.
""",
"arena": """# arena: the memory that programs of a node share with their agent and their peers
| file | what |
|---|---|
| `arena.h` | the layout: header, region table, queue pair records, rings; offsets instead of pointers |
| `target.h` | what a peer needs of a queue pair (`DirectTarget`) |
| `xrc_queue.h` | what a peer needs of an XRC receive queue |

Includes `base`, `observe`, `region`. The order of stores is the proof that a killed program leaves a whole arena: see `adapter/README.md`.
""",
"link/udp": """# link/udp: RoCE v2 over UDP
`udp.h` has all of it: `UdpSocket` (receives), `UdpReceiver` (buffers), `UdpSender` (the send sockets of one address), `SendSocket` (what a queue
pair keeps). The rules are in `../README.md`. Tests: `udp_mtu_test.cpp` in a network namespace of its own, `udp_test.cpp` on loopback.
""",
"link/ethernet": """# link/ethernet: frames
| file | what |
|---|---|
| `ethernet.h` | `EthernetPort`: where frames leave and come |
| `ethernet_segment.h` | an emulated segment between nodes of the loopback interface (VXLAN datagrams to one multicast group) |
| `packet_interface.h` | the packet sockets of a real interface |
| `frame_batch.h`, `received_frame.h` | frames that leave together; one that came |
| `neighbour.h` | where an IP address's frames go, as the kernel would send them |
| `roce_v1_socket.h` | where RoCE v1 packets come from |
""",
"link/tcp": """# link/tcp: streams for iWARP
`TcpStream` (`tcp_stream.h`): a connected TCP socket and the bytes that wait on its two sides; some of them borrowed until one call has sent them.
""",
"port": """# port: one port of the adapter
| file | what |
|---|---|
| `port.h` | the port's state and valid GIDs, as the agent tells them, and who hears of changes |
| `route.h` | what a packet to one destination begins with |
| `burst.h` | packets that are being made for one destination, and leave together |
| `receive_header.h` | what stands before a datagram's payload in the receive buffer |
""",
"adapter/progress": """# adapter/progress: turns of work
`progress.h`: turns by whichever thread polls, the background thread, sending. `timer_queue.h`: deadlines. `progress_receive.cpp`: packets to queue
pairs. `progress_streams.cpp`: TCP streams of iWARP.
While the program polls, or posts within 20 ms of a poll, the background thread rests: no packet or timer wakes it.
""",
"adapter/queue_pair": """# adapter/queue_pair: what all services of a queue pair share
| file | what |
|---|---|
| `queue_pair.h` | the queue pair; its methods lie in `queue_pair_*.cpp` here and in `../services/` |
| `queue_pair_state.h`, `queue_pair_attributes.h`, `carried.h` | the state machine as a table of attributes; what iWARP carries |
| `send_work.h`, `queue_pair_post.cpp`, `send_queue.h` | what a program posts, to its end at once or into the queue |
| `queue_pair_transmit.cpp`, `queue_pair_receive.cpp`, `queue_pair_direct.cpp` | packets out, packets in, the direct path |
| `pacer.h` | the rate limit |
""",
"adapter/queues": """# adapter/queues: completions, receives, events
| file | what |
|---|---|
| `completion_queue.h` | the ring of completions |
| `event_queue.h`, `async_event.h` | the pollable descriptor behind channels; asynchronous events |
| `receive_queue.h`, `shared_receive_queue.h` | receives of one queue pair, and those that several take from |
| `xrc_domain.cpp` | XRC domains and who opens their queue pairs |
| `tag_matching.h` | receives that only messages with their tag take |

A ring's lock is held for tens of nanoseconds (a poll's until it has converted all), never across a system call. Arming takes the ring's lock: an
entry is seen by the poll that follows, or it tells the channel. Every event of a queue has one unit of its descriptor's semaphore, from the moment the
push returns.
""",
"adapter/memory": """# adapter/memory: regions of the program
| file | what |
|---|---|
| `memory.h` | checks memory that is to be registered, and makes it resident |
| `adapter_memory.cpp` | registering and deregistering |
| `device_memory.h` | buffers of the adapter's own (`ibv_alloc_dm`) |
| `held_memory.h`, `scatter.h` | touching the bytes of a held region, whatever lies behind it; walking scatter/gather lists |

Memory that is registered is only ever touched by the kernel until it is known to be there: no check can fault.
""",
"adapter/direct": """# adapter/direct: requests that are executed in a peer's memory
| file | what |
|---|---|
| `direct_link.h`, `mapped_target.h`, `direct_wait.cpp`, `direct_atomic.cpp` | the requester: the peer's queue pair and memory, waiting for a receive, atomic operations |
| `execute.h` | atomic operations, also for those who ask |
| `direct_peer.h`, `adapter_direct.cpp` | another program, mapped; what its owner does for peers |
| `xrc_queue_owners.h` | owners of XRC queues in other programs, reached by proxy targets in their arenas |
| `imported_memory.h`, `adapter_import.cpp` | objects of other programs, imported |

Peers may be killed at any instruction: a ring's counter makes a step done, the next with its lock finishes the rest (`finish_last`).
""",
"adapter/ethernet": """# adapter/ethernet: raw packets and groups
`flow_table.h`, `steering.h`, `frame_delivery.h`: which queue pairs get an Ethernet frame, and how it comes there. `work_queue.h`, `receive_hash.h`:
receive-side scaling. `multicast.cpp`: groups that a queue pair joins.
""",
"adapter/services": """# adapter/services: what a queue pair does by its service
| file | what |
|---|---|
| `queue_pair_datagram.cpp`, `datagram_path.h` | UD: the path to each destination |
| `queue_pair_frames.cpp` | raw packets |
| `queue_pair_xrc.cpp` | XRC: the owner of a receive queue acts for targets in other programs |
| `queue_pair_tagged.cpp` | tag matching: finishing rendezvous |
| `stream.h`, `queue_pair_stream*.cpp`, `queue_pair_path.cpp` | iWARP: a queue pair and its TCP connection, and which path the two ends choose |
""",
"agent/client": """# agent/client: what programs and commands link
No JSON, no server. `client.h` is a program's membership, `commands.cpp` the commands' requests, `port_bindings.h` a program's rdma_cm ports,
`options.cpp` the environment, `start_agent.h` starts verbatimd, `agent_request.h` asks it, or the next. `locks.h`: locks with names.
""",
"agent/protocol": """# agent/protocol: what agent and clients agree on
| file | what |
|---|---|
| `protocol.h`, `descriptors.h` | the messages: SOCK_SEQPACKET, fixed structures, descriptors beside them |
| `node.h`, `wire_protocol.h`, `roce_versions.h` | a node, its protocol, the RoCE versions of its addresses |
| `runtime_folder.h`, `claims.h` | where a node's files lie (`../README.md`); one node an address |
| `device_files.h` | what a kernel driver would show in /sys |
""",
"agent/identity": """# agent/identity: who a node is
`identity.h`: addresses, GIDs, GUID and port of a node. `interfaces.h`: the machine's interfaces; `interface_watch.h` says when to look anew.
`view.h`: the folder that src/dropin/view leads programs into.
""",
"agent/sockets": """# agent/sockets: the sockets that programs share
`receive_sockets.h`: sockets on port 4791, one a slot, and the BPF program that steers by queue pair number. `slots.h`: who has which slot.
`descriptor_store.h`: what survives the agent. `spare_descriptors.h`: members before newcomers where descriptors are few. Invariants: `../README.md`.
""",
"agent/management": """# agent/management: queue pair 1 and rdma_cm
`management_port.h`: datagrams to and from QP1. `rdma_cm_ports.h`: ports of rdma_cm. `early_requests.h`: requests before their listener.
`request_rates.h`: who floods. `pending_disconnects.h`: what is said for killed programs.
""",
"agent/server": """# agent/server: the event loop
`server.h` and `server_*.cpp`: the event loop and the answers; `server_limits.cpp`: members before newcomers. `status.h`: the JSON (`../README.md`).
`port_totals.h`: the port's counters, of ended programs, too.
""",
"ulp/rsocket": """# ulp/rsocket: sockets over RDMA
On the C interfaces of librdmacm and libibverbs alone, as a program would. It is built into librdmacm.so.1.

| file | what |
|---|---|
| `protocol.h`, `endpoint.*`, `transfer.cpp`, `iomap.cpp` | streams: messages, buffers, credits, mapped buffers |
| `stream.*`, `connect.cpp`, `options.cpp` | the stream socket: connections, waiting, readiness, options |
| `datagram*` | datagram sockets: a UDP socket finds the peer's queue pair |
| `socket.*`, `fd_table.cpp` | what both are, and how calls wait; rsockets by number, duplicates |
| `poll.cpp`, `calls.cpp`, `private.h` | rpoll and rselect; entry points; librspreload's |
""",
"dropin/ibverbs/control": """# dropin/ibverbs/control: objects
A file for each kind of object that programs create, modify, query and destroy. Rules: `../README.md`.
""",
"dropin/ibverbs/data": """# dropin/ibverbs/data: the hot path
| file | what |
|---|---|
| `post.cpp`, `completion.cpp` | posting and polling: no allocation, no log but for a refusal |
| `send_batch.h`, `extended_post.cpp` | the `ibv_wr_*` calls: a batch is posted as a whole or not at all |
| `extended_poll.cpp` | extended completion queues: an entry at a time, from the same ring |
| `event.cpp` | events of completion channels |
""",
}
for room, text in ROOMS.items():
    path = src / room / "README.md"
    if (src / room).is_dir() and not path.exists(): path.write_text(text)
    elif not (src / room).is_dir(): print("no folder", room)
def cut(name, first, last, new):
    """Replaces the lines from the one that begins with `first` to the one before `last`."""
    path = src / name; text = path.read_text(); a = text.find(first); b = text.find(last, a) if last else len(text)
    if a < 0 or b < 0: print("NOT FOUND", name, first[:30], last[:30]); return
    path.write_text(text[:a] + new + text[b:])
cut("adapter/README.md", "| file |", "\nInvariants", """| room | what |
|---|---|
| `adapter.h`, `limits.h`, `management.cpp` | the adapter: who makes everything else; its limits; sending for QP1 |
| `queue_pair/`, `services/` | a queue pair: what all services share, and what each does |
| `queues/`, `memory/` | completions, receives, events; regions, device memory |
| `direct/` | requests that are executed in a peer's memory |
| `progress/` | turns of work, the background thread, timers |
| `ethernet/` | raw packets, receive-side scaling, multicast |
| `../arena/`, `../port/` | built with it: the shared memory; GIDs, and packets being made |
""")
cut("agent/README.md", "| file |", "\n## Invariants", """| room | what |
|---|---|
| `client/` | what programs and commands link |
| `protocol/` | the messages, a node's description, and where its files lie |
| `identity/` | addresses, GIDs, the view of /sys and /dev |
| `sockets/` | the sockets of port 4791, who has which slot, what survives the agent |
| `management/` | queue pair 1 and rdma_cm's ports |
| `server/`, `verbatimd.cpp` | the event loop, the answers, the JSON; `main` |
""")
cut("cm/README.md", "| file |", "\nInvariants", """| room | what it holds |
|---|---|
| `messages.h`, `identifiers.h`, `timers.h` | what engine and program say to each other: paths, offers, effects; ids; deadlines |
| `ib/` | InfiniBand's communication manager; `ib/guard/`: what peers can make it keep |
| `iwarp/` | connections by MPA over TCP |
""")
cut("wire/README.md", "**Main types**", "\n**Invariants**", """| room | what |
|---|---|
| `ib/` | transport headers, opcodes, whole packets |
| `net/` | IP, UDP and GRH around a packet, its ICRC; Ethernet frames |
| `mad/` | management datagrams, the messages of the communication manager |
| `iwarp/` | MPA, DDP, RDMAP |
| `error.h`, `printer.h` | `WireError`, what a peer did wrong; packets as lines of text, not on the packet path |
""")
