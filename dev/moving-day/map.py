"""Old folder -> {new folder: stems}. A stem takes its header, sources and tests; `old=new` renames."""
MAP = {
 "base": {
  "base/net": "address",
  "base/os": "timer_fd liveness mutex name_locks process_token known_end sparse_file spin_lock thread unique_fd page fence",
 },
 "wire": {
  "wire/ib": "bth aeth deth reth atomic_eth feth xrc_eth tag_header opcode packet extended_headers",
  "wire/net": "ip grh icrc frame frame_checksum",
  "wire/mad": "mad management_packet rdma_ip_header cm_alternate_path cm_common cm_disconnect cm_message cm_reject cm_reply cm_request cm_test_util cm_sidr",
  "wire/iwarp": "ddp rdmap mpa mpa_markers iwarp",
 },
 "region": {
  "region/adoption": "memory_file mappings pinned_pages write_freeze",
 },
 "transport/ib": {
  "transport/ib/requester": "requester requester_local requester_read requester_response requester_test_util requester_transmit retransmit request_ring outstanding_reads round_trip send_window",
  "transport/ib/responder": "responder responder_accept responder_checks responder_memory responder_nak responder_random responder_read responder_responses responder_test_util responder_transmit responder_uc responder_xrc",
 },
 "cm": {
  "cm/ib": "accept bounds cm_simulation cm_test_util compose connect connection connection_manager disconnect end listeners reject resolve routing",
  "cm/ib/guard": "fair_queue source stranger strangers unmatched",
  "cm/iwarp": "mpa_setup stream_manager",
 },
 "link": {
  "link/udp": "udp udp_mtu udp_receiver udp_sender udp_socket",
  "link/ethernet": "ethernet ethernet_segment packet_interface frame_batch received_frame neighbour",
  "link/tcp": "tcp_stream tcp_test_util",
 },
 "adapter": {
  "link/ethernet": "frame_socket=roce_v1_socket",
  "arena": "arena direct_target=target xrc_queue",
  "port": "port burst packet_route=route datagram_header=receive_header",
  "adapter/progress": "progress progress_receive progress_streams timer_queue",
  "adapter/queue_pair": "queue_pair queue_pair_modify queue_pair_post queue_pair_transmit queue_pair_receive queue_pair_state queue_pair_attributes send_queue send_work pacer queue_pair_direct carried",
  "adapter/services": "queue_pair_datagram queue_pair_frames queue_pair_xrc queue_pair_tagged queue_pair_stream queue_pair_stream_start queue_pair_path datagram_path stream stream_test_util stream_path",
  "adapter/queues": "completion_queue completion_queue_test_util completion_ring event_queue async_event receive_queue shared_receive_queue tag_matching xrc_domain",
  "adapter/memory": "device_memory scatter adapter_memory held_memory memory",
  "adapter/direct": "direct_link mapped_target direct_peer direct_atomic direct_wait xrc_queue_owners execute imported_memory adapter_import adapter_direct",
  "adapter/ethernet": "steering flow_table frame_delivery receive_hash work_queue multicast",
 },
 "agent": {
  "agent/client": "client port_bindings commands agent_request options start_agent locks",
  "agent/protocol": "protocol descriptors roce_versions wire_protocol runtime_folder claims device_files node",
  "agent/identity": "identity interfaces view interface_watch",
  "agent/sockets": "receive_sockets descriptor_store slots spare_descriptors",
  "agent/management": "management_port early_requests pending_disconnects port_table=rdma_cm_ports request_rates",
  "agent/server": "server server_answers server_bindings server_counters server_datagrams server_limits server_port server_recovery status port_totals shortage",
 },
 "dropin/ibverbs": {
  "dropin/ibverbs/data": "post extended_post send_batch completion extended_poll event",
  "dropin/ibverbs/control": "address create_completion_queue create_queue_pair counters device_memory flow gid import memory memory_window protection_domain query queue_pair shared_receive_queue tag_matching work_queue rates",
 },
 "dropin/rdmacm": {
  "ulp/rsocket": "rsocket rsocket_bytes rsocket_calls rsocket_connect rsocket_datagram rsocket_datagram_port rsocket_endpoint rsocket_iomap rsocket_memory rsocket_fd_table rsocket_options rsocket_poll rsocket_private rsocket_protocol rsocket_socket rsocket_stream rsocket_transfer",
 },
}
