/* UCX with connections set up by address, as its rdmacm component does over rdma_cm: a server, and
 * a client that sends messages of several sizes; the server sends each back, the client compares.
 * ucx_perftest 1.13 has no option for this.
 *
 * Usage: ucp_sockaddr PORT [SERVER-ADDRESS]. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

static const size_t sizes[] = {0, 1, 100, 8192, 100000, 3000000};
enum { SIZES = sizeof sizes / sizeof *sizes, LARGEST = 3000000, ROUNDS = 5 };
static ucp_worker_h worker;

static void check(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  fprintf(stderr, "%s: %s\n", what, ucs_status_string(status));
  exit(1);
}

/* Ends with the request, of which UCX gives no handle where it is done at once. */
static void finish(ucs_status_ptr_t request, const char* what) {
  if (request == NULL) return;
  if (UCS_PTR_IS_ERR(request)) check(UCS_PTR_STATUS(request), what);
  ucs_status_t status;
  while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
    ucp_worker_progress(worker);
  ucp_request_free(request);
  check(status, what);
}

static void start_worker(void) {
  ucp_config_t* config;
  check(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
  ucp_context_h context;
  check(ucp_init(&params, config, &context), "ucp_init");
  ucp_config_release(config);
  const ucp_worker_params_t options = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                       .thread_mode = UCS_THREAD_MODE_SINGLE};
  check(ucp_worker_create(context, &options, &worker), "ucp_worker_create");
}

static void on_request(ucp_conn_request_h request, void* argument) {
  *(ucp_conn_request_h*)argument = request;
}

static int peer_has_left;

static void on_error(void* argument, ucp_ep_h endpoint, ucs_status_t status) {
  (void)argument, (void)endpoint;
  if (status != UCS_ERR_CONNECTION_RESET) check(status, "the connection");
  peer_has_left = 1;
}

static ucp_ep_h accept_one(struct sockaddr_in address) {
  ucp_conn_request_h request = NULL;
  const ucp_listener_params_t params = {
      .field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
      .sockaddr = {(struct sockaddr*)&address, sizeof address},
      .conn_handler = {on_request, &request}};
  ucp_listener_h listener;
  check(ucp_listener_create(worker, &params, &listener), "ucp_listener_create");
  while (request == NULL) {
    ucp_worker_progress(worker);
    poll(NULL, 0, 1);
  }
  const ucp_ep_params_t options = {.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLER |
                                                 UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
                                   .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                                   .err_handler = {on_error, NULL},
                                   .conn_request = request};
  ucp_ep_h endpoint;
  check(ucp_ep_create(worker, &options, &endpoint), "ucp_ep_create of a request");
  return endpoint;
}

static ucp_ep_h connect_to(struct sockaddr_in address) {
  const ucp_ep_params_t options = {
      .field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR |
                    UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE,
      .flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER,
      .err_mode = UCP_ERR_HANDLING_MODE_PEER,
      .err_handler = {on_error, NULL},
      .sockaddr = {(struct sockaddr*)&address, sizeof address}};
  ucp_ep_h endpoint;
  check(ucp_ep_create(worker, &options, &endpoint), "ucp_ep_create");
  return endpoint;
}

static void send_bytes(ucp_ep_h endpoint, const char* bytes, size_t size, ucp_tag_t tag) {
  const ucp_request_param_t plain = {0};
  finish(ucp_tag_send_nbx(endpoint, bytes, size, tag, &plain), "send");
}

static void receive_bytes(char* bytes, size_t size, ucp_tag_t tag) {
  const ucp_request_param_t plain = {0};
  finish(ucp_tag_recv_nbx(worker, bytes, size, tag, ~(ucp_tag_t)0, &plain), "receive");
}

int main(int count, char** arguments) {
  if (count != 2 && count != 3) return 2;
  const int is_client = count == 3;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[1]))};
  if (is_client && inet_pton(AF_INET, arguments[2], &address.sin_addr) != 1) return 2;
  char* sent = malloc(LARGEST);
  char* received = malloc(LARGEST);
  if (sent == NULL || received == NULL) return 1;
  start_worker();
  ucp_ep_h endpoint = is_client ? connect_to(address) : accept_one(address);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < SIZES; ++i) {
      const ucp_tag_t tag = (ucp_tag_t)(round * SIZES + i);
      if (is_client) {
        for (size_t at = 0; at < sizes[i]; ++at) sent[at] = (char)(at * 31 + tag);
        memset(received, 0, sizes[i]);
        send_bytes(endpoint, sent, sizes[i], tag);
        receive_bytes(received, sizes[i], tag);
        if (memcmp(sent, received, sizes[i]) != 0) {
          fprintf(stderr, "%zu bytes came back as others\n", sizes[i]);
          return 1;
        }
      } else {
        receive_bytes(received, sizes[i], tag);
        send_bytes(endpoint, received, sizes[i], tag);
      }
    }
  }
  /* The client closes, which waits for what it has sent; so the server is there until it has. */
  while (!is_client && !peer_has_left) {
    ucp_worker_progress(worker);
    poll(NULL, 0, 1);
  }
  const ucp_request_param_t at_once = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
  const ucp_request_param_t plain = {0};
  finish(ucp_ep_close_nbx(endpoint, is_client ? &plain : &at_once), "close");
  ucp_worker_destroy(worker);
  printf("ucp_sockaddr: %d messages came back as they were sent\n", ROUNDS * SIZES);
  return 0;
}
