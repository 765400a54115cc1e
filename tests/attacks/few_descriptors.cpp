#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/// `few_descriptors ADDRESS`: children with more and more descriptors use the device and rdma_cm.
/// Each call succeeds, or fails with errno set and a line on standard error; none crashes or hangs.
/// The last child succeeds.
namespace {

constexpr int kFirst = 5;
constexpr int kLast = 60;
constexpr unsigned kSecondsMax = 20;

/// Ends the child at a call that failed, which is allowed.
void expect(bool succeeded, const char* call) {
  if (succeeded) return;
  const int error = errno;
  std::printf("%s: %s\n", call, std::strerror(error));
  std::fflush(stdout);
  _exit(error == EMFILE || error == ENFILE ? 1 : 2);
}

void use_device() {
  errno = 0;
  ibv_device** const devices = ibv_get_device_list(nullptr);
  expect(devices != nullptr && devices[0] != nullptr, "ibv_get_device_list");
  ibv_context* const context = ibv_open_device(devices[0]);
  expect(context != nullptr, "ibv_open_device");
  ibv_pd* const pd = ibv_alloc_pd(context);
  expect(pd != nullptr, "ibv_alloc_pd");
  ibv_comp_channel* const channel = ibv_create_comp_channel(context);
  expect(channel != nullptr, "ibv_create_comp_channel");
  ibv_cq* const cq = ibv_create_cq(context, 4, nullptr, channel, 0);
  expect(cq != nullptr, "ibv_create_cq");
  ibv_qp_init_attr wanted{};
  wanted.qp_type = IBV_QPT_RC;
  wanted.send_cq = wanted.recv_cq = cq;
  wanted.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
  expect(ibv_create_qp(pd, &wanted) != nullptr, "ibv_create_qp");
}

void use_connections(sockaddr_in address) {
  rdma_event_channel* const channel = rdma_create_event_channel();
  expect(channel != nullptr, "rdma_create_event_channel");
  rdma_cm_id* id = nullptr;
  expect(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
  expect(rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) == 0, "rdma_bind_addr");
  expect(rdma_listen(id, 1) == 0, "rdma_listen");
  const int number = rsocket(AF_INET, SOCK_STREAM, 0);
  expect(number >= 0, "rsocket");
  expect(rbind(number, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "rbind");
  expect(rlisten(number, 1) == 0, "rlisten");
}

int run_child(int limit, const sockaddr_in& address) {
  int lines[2];
  if (pipe(lines) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    dup2(lines[1], STDERR_FILENO);
    close(lines[0]);
    close(lines[1]);
    const rlimit few{static_cast<rlim_t>(limit), kLast};
    setrlimit(RLIMIT_NOFILE, &few);
    alarm(kSecondsMax);
    use_device();
    use_connections(address);
    _exit(0);
  }
  close(lines[1]);
  char text[4096];
  std::size_t length = 0;
  for (ssize_t got; (got = read(lines[0], text + length, sizeof text - 1 - length)) > 0;) {
    length += static_cast<std::size_t>(got);
  }
  text[length] = 0;
  close(lines[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::printf("%d descriptors: status %#x\n%s", limit, status, text);
  std::fflush(stdout);
  if (!WIFEXITED(status) || WEXITSTATUS(status) > 1) return -1;
  if (WEXITSTATUS(status) == 1 && std::strstr(text, "verbatim: ") == nullptr) return -1;
  return WEXITSTATUS(status);
}

}  // namespace

int main(int argc, char** argv) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (argc != 2 || inet_pton(AF_INET, argv[1], &address.sin_addr) != 1) return 2;
  bool fails = false;
  int last = 1;
  for (int limit = kFirst; limit <= kLast; ++limit) {
    last = run_child(limit, address);
    fails |= last < 0;
  }
  return fails || last != 0 ? 1 : 0;
}
