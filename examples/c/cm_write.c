/* cm_write: a client writes a text into the server's memory, over a connection that rdma_cm makes
 * by IP address. On RoCE, InfiniBand and iWARP alike. The seven steps are those of verbs_write.
 *
 *   cc cm_write.c -o cm_write -libverbs -lrdmacm
 *   verbatim run --node a --address 127.0.0.2 -- ./cm_write &
 *   verbatim run --node b --address 127.0.0.3 -- ./cm_write 127.0.0.2
 */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the server tells the client as it accepts, big-endian. */
struct target {
  uint64_t address;
  uint32_t remote_key;
  uint32_t unused; /* 0. Without it the compiler adds four bytes, of any value. */
};

/* Ends the program where `error` is not 0: an errno value. */
static void check(int error, const char* what) {
  if (error == 0) return;
  fprintf(stderr, "cm_write: %s: %s\n", what, strerror(error));
  exit(1);
}

/* The next completion. Until it is there, an event of rdma_cm means that the peer has gone. */
static struct ibv_wc poll_completion(struct rdma_cm_id* id, struct ibv_cq* cq) {
  struct ibv_wc end = {.status = IBV_WC_GENERAL_ERR};
  struct pollfd events = {.fd = id->channel->fd, .events = POLLIN};
  for (;;) {
    const int gone = poll(&events, 1, 0);
    if (ibv_poll_cq(cq, 1, &end) != 0) break;
    check(gone ? ECONNRESET : 0, "the peer has gone");
  }
  check(end.status ? EIO : 0, ibv_wc_status_str(end.status));
  return end;
}

/* 5. Write with immediate: these 32 bits complete a receive, and so tell the server. iWARP has no
 * such operation: there a SEND of no bytes follows the write, and tells it, too. */
static void write_with_immediate(struct rdma_cm_id* id, char* memory, struct ibv_mr* region,
                                 struct target target) {
  const int is_iwarp = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
  snprintf(memory, region->length, "process %d was here", getpid());
  struct ibv_sge bytes = {(uintptr_t)memory, (uint32_t)region->length, region->lkey};
  struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad;
  struct ibv_send_wr write = {.sg_list = &bytes, .num_sge = 1, .imm_data = htonl(42)};
  write.opcode = is_iwarp ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_WRITE_WITH_IMM;
  write.next = is_iwarp ? &send : NULL;
  write.wr.rdma.remote_addr = be64toh(target.address);
  write.wr.rdma.rkey = ntohl(target.remote_key);
  check(ibv_post_send(id->qp, &write, &bad), "cannot post the write");
  if (is_iwarp) poll_completion(id, id->send_cq);
}

int main(int argc, char** argv) {
  char* port = "7471";
  int option;
  while ((option = getopt(argc, argv, ":p:")) == 'p') port = optarg;
  char* const server = argv[optind];
  if (option != -1 || argc > optind + 1) {
    fputs("usage: cm_write [-p PORT] [SERVER_ADDRESS]\nWithout an address: the server\n", stderr);
    return 2;
  }

  /* 1. The device is the one that the address belongs to, or that the route to it leads through.
   * 2. Its domain is rdma_cm's own. 4. The queue pair is made as these attributes say, with a
   * completion queue for sends and one for receives; rdma_cm takes it through its states. */
  struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found;
  if (!server) hints.ai_flags = RAI_PASSIVE;
  check(rdma_getaddrinfo(server, port, &hints, &found) ? ENODEV : 0,
        "no such address, or not started by `verbatim run`");
  struct ibv_qp_init_attr wanted = {.cap = {2, 1, 1, 1, 0}, .sq_sig_all = 1};
  struct rdma_cm_id *id, *listener = NULL;
  check(rdma_create_ep(server ? &id : &listener, found, NULL, &wanted) ? errno : 0,
        "no RDMA device has this address or a route to it");
  rdma_freeaddrinfo(found);
  if (!server) {
    check(rdma_listen(listener, 1) ? errno : 0, "cannot listen");
    check(rdma_get_request(listener, &id) ? errno : 0, "no connection came");
  }

  /* 3. Register memory: the adapter, and a peer that knows the remote key, may write to it. */
  static char memory[256];
  struct ibv_mr* region = rdma_reg_write(id, memory, sizeof memory);
  check(region ? 0 : errno, "cannot register memory");

  /* 4. Connect. What the server receives it must be ready for before it accepts. */
  struct target target = {htobe64((uintptr_t)memory), htonl(region->rkey), 0};
  struct rdma_conn_param terms = {.retry_count = 7, .rnr_retry_count = 7};
  if (!server) {
    terms.private_data = &target;
    terms.private_data_len = sizeof target;
    check(rdma_post_recv(id, NULL, memory, 0, region) ? errno : 0, "cannot post a receive");
    check(rdma_accept(id, &terms) ? errno : 0, "cannot accept");
  } else {
    check(rdma_connect(id, &terms) ? errno : 0, "cannot connect: does the server run?");
    memcpy(&target, id->event->param.conn.private_data, sizeof target);
  }

  if (server) write_with_immediate(id, memory, region, target);

  /* 6. Poll until it has completed. */
  const struct ibv_wc end = poll_completion(id, server ? id->send_cq : id->recv_cq);
  const int has_immediate = !server && end.wc_flags & IBV_WC_WITH_IMM;
  printf(server ? "wrote: " : "was written: ");
  printf("%s", memory);
  if (has_immediate) printf(" (immediate %u)", ntohl(end.imm_data));
  puts("");

  /* 7. Clean up, the last first. */
  rdma_disconnect(id);
  rdma_dereg_mr(region);
  rdma_destroy_ep(id);
  if (listener) rdma_destroy_ep(listener);
  return 0;
}
