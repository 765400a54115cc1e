/* verbs_write: a client writes a text into the server's memory, by verbs alone, in the classic
 * seven steps. The server's processor moves no byte. What each must know goes over TCP.
 *
 *   cc verbs_write.c -o verbs_write -libverbs
 *   verbatim run --node a --address 127.0.0.2 -- ./verbs_write &
 *   verbatim run --node b --address 127.0.0.3 -- ./verbs_write 127.0.0.2
 */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program where `error` is not 0: an errno value. */
static void check(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "verbs_write: %s: %s\n", what, strerror(error));
  exit(1);
}

/* A TCP connection: to the server, or, without an address of one, from the first client. */
static int connect_tcp(const char* server, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  struct sockaddr* const at = (struct sockaddr*)&address;
  const int one = 1, tcp = socket(AF_INET, SOCK_STREAM, 0);
  if (server) {
    check(inet_pton(AF_INET, server, &address.sin_addr) == 1 ? 0 : EINVAL, "not an IPv4 address");
    check(connect(tcp, at, sizeof address) ? errno : 0, "no server there");
    return tcp;
  }
  setsockopt(tcp, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  check(bind(tcp, at, sizeof address) || listen(tcp, 1) ? errno : 0, "cannot listen");
  const int client = accept(tcp, NULL, NULL);
  check(client < 0 ? errno : 0, "accept");
  close(tcp);
  return client;
}

/* Each side sends `size` bytes, and gets as many. */
static void exchange(int tcp, const void* mine, void* theirs, size_t size) {
  send(tcp, mine, size, MSG_NOSIGNAL);
  check(recv(tcp, theirs, size, MSG_WAITALL) == (ssize_t)size ? 0 : ECONNRESET, "no peer");
}

/* What one side tells the other, big-endian. Over RoCE the LID is 0. */
struct endpoint {
  union ibv_gid gid;
  uint32_t queue_pair, remote_key, lid;
  uint64_t address;
};

/* Takes the queue pair through its states. Each call uses the fields that its mask names. */
static void connect_queue_pair(struct ibv_qp* qp, int gid_index, const struct endpoint* peer) {
  struct ibv_qp_attr to = {.port_num = 1, .path_mtu = IBV_MTU_1024, .min_rnr_timer = 12};
  to.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
  to.dest_qp_num = ntohl(peer->queue_pair);
  to.ah_attr =
      (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .dlid = (uint16_t)ntohl(peer->lid)};
  to.ah_attr.grh = (struct ibv_global_route){
      .dgid = peer->gid, .sgid_index = (uint8_t)gid_index, .hop_limit = 64};
  to.timeout = 14; /* 4.096 us * 2^14: silence after which it sends again, `retry_cnt` times. */
  to.retry_cnt = to.rnr_retry = 7;
  int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
  to.qp_state = IBV_QPS_INIT;
  check(ibv_modify_qp(qp, &to, mask), "queue pair to INIT");
  mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
         IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
  to.qp_state = IBV_QPS_RTR; /* Ready to receive. */
  check(ibv_modify_qp(qp, &to, mask), "queue pair to RTR");
  mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
         IBV_QP_MAX_QP_RD_ATOMIC;
  to.qp_state = IBV_QPS_RTS; /* Ready to send. */
  check(ibv_modify_qp(qp, &to, mask), "queue pair to RTS");
}

int main(int argc, char** argv) {
  int option, port = 18515, gid_index = -1;
  while ((option = getopt(argc, argv, ":p:g:")) == 'p' || option == 'g')
    *(option == 'p' ? &port : &gid_index) = atoi(optarg);
  const char* const server = argv[optind];
  if (option != -1 || argc > optind + 1)
    return fputs("usage: verbs_write [-p TCP_PORT] [-g GID_INDEX] [SERVER_ADDRESS]\n", stderr), 2;

  /* 1. Open a device. */
  struct ibv_device** devices = ibv_get_device_list(NULL);
  check(devices && *devices ? 0 : ENODEV, "no RDMA device; start it by `verbatim run`");
  struct ibv_context* device = ibv_open_device(*devices);
  check(device ? 0 : errno, "ibv_open_device");
  /* 2. Allocate a protection domain: what is made of one can be used together. */
  struct ibv_pd* domain = ibv_alloc_pd(device);
  check(domain ? 0 : errno, "ibv_alloc_pd");
  /* 3. Register memory: the adapter, and a peer that knows the remote key, may write to it. */
  static char memory[256];
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  struct ibv_mr* region = ibv_reg_mr(domain, memory, sizeof memory, access);
  check(region ? 0 : errno, "ibv_reg_mr");
  /* 4. Create a queue pair, and connect it to the peer's. */
  struct ibv_cq* cq = ibv_create_cq(device, 2, NULL, NULL, 0);
  check(cq ? 0 : errno, "ibv_create_cq");
  struct ibv_qp_init_attr wanted = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq};
  wanted.cap = (struct ibv_qp_cap){1, 1, 1, 1, 0}; /* Sends, receives, segments of each, inline. */
  struct ibv_qp* qp = ibv_create_qp(domain, &wanted);
  check(qp ? 0 : errno, "ibv_create_qp");
  struct ibv_port_attr attributes;
  check(ibv_query_port(device, 1, &attributes), "ibv_query_port");
  if (gid_index < 0) gid_index = attributes.link_layer == IBV_LINK_LAYER_ETHERNET; /* RoCE: 1. */
  struct endpoint theirs, mine = {.queue_pair = htonl(qp->qp_num), .lid = htonl(attributes.lid)};
  mine.remote_key = htonl(region->rkey);
  mine.address = htobe64((uintptr_t)memory);
  check(ibv_query_gid(device, 1, gid_index, &mine.gid) ? ENODEV : 0, "no GID (iWARP: cm_write)");
  const int tcp = connect_tcp(server, port);
  exchange(tcp, &mine, &theirs, sizeof mine);
  connect_queue_pair(qp, gid_index, &theirs);
  /* 5. Write with immediate: these 32 bits complete a receive, and so tell the server. */
  char ready = 1;
  struct ibv_recv_wr receive = {.num_sge = 0}, *bad_receive;
  if (!server) check(ibv_post_recv(qp, &receive, &bad_receive), "ibv_post_recv");
  exchange(tcp, &ready, &ready, 1); /* Both can receive. */
  if (server) {
    snprintf(memory, sizeof memory, "process %d was here", getpid());
    struct ibv_sge bytes = {(uintptr_t)memory, sizeof memory, region->lkey};
    struct ibv_send_wr write = {.sg_list = &bytes, .num_sge = 1}, *bad_write;
    write.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    write.send_flags = IBV_SEND_SIGNALED;
    write.imm_data = htonl(42);
    write.wr.rdma.remote_addr = be64toh(theirs.address);
    write.wr.rdma.rkey = ntohl(theirs.remote_key);
    check(ibv_post_send(qp, &write, &bad_write), "ibv_post_send");
  }
  /* 6. Poll until it has completed. */
  struct ibv_wc end = {.status = IBV_WC_GENERAL_ERR};
  while (ibv_poll_cq(cq, 1, &end) == 0)
    check(recv(tcp, &ready, 1, MSG_PEEK | MSG_DONTWAIT) ? 0 : ECONNRESET, "the peer has gone");
  check(end.status ? EIO : 0, ibv_wc_status_str(end.status));
  if (server) printf("wrote: %s\n", memory);
  if (!server) printf("was written: %s (immediate %u)\n", memory, ntohl(end.imm_data));
  exchange(tcp, &ready, &ready, 1); /* Both have seen it. */
  /* 7. Clean up, the last first. */
  ibv_destroy_qp(qp);
  ibv_destroy_cq(cq);
  ibv_dereg_mr(region);
  ibv_dealloc_pd(domain);
  ibv_close_device(device);
  ibv_free_device_list(devices);
  return 0;
}
