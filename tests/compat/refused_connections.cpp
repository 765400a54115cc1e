// librdmacm: ids and addresses, and rsockets.
#include <cstdlib>
#include <cstring>

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "refused.h"

namespace refused {
namespace {

// From newer headers.
constexpr int kFromSubnetAdministrator = 0x10;
constexpr int kFromNames = 0x20;

/// Returns the result of `use` with an id without an address.
int with_id(rdma_port_space space, const std::function<int(rdma_cm_id*)>& use) {
  rdma_cm_id* id = nullptr;
  endpoint::check(rdma_create_id(nullptr, &id, nullptr, space) == 0, "rdma_create_id");
  errno = 0;
  const int answer = use(id);
  rdma_destroy_id(id);
  return answer;
}

int set_ece(const Bench&) {
  return with_id(RDMA_PS_TCP, [](rdma_cm_id* id) {
    ibv_ece options{.vendor_id = 1, .options = 1, .comp_mask = 0};
    return errno_of(rdma_set_local_ece(id, &options));
  });
}

int ask_subnet_administrator(const Bench&) {
  rdma_addrinfo hints{};
  hints.ai_flags = kFromSubnetAdministrator;
  rdma_addrinfo* found = nullptr;
  return errno_of(rdma_getaddrinfo("127.0.0.1", "7471", &hints, &found));
}

int ask_both(const Bench&) {
  using Call = int (*)(rdma_cm_id*, const char*, const char*, const rdma_addrinfo*);
  const auto resolve = reinterpret_cast<Call>(dlsym(RTLD_DEFAULT, "rdma_resolve_addrinfo"));
  if (resolve == nullptr) return kNoBench;
  return with_id(RDMA_PS_TCP, [resolve](rdma_cm_id* id) {
    rdma_addrinfo hints{};
    hints.ai_flags = kFromSubnetAdministrator | kFromNames;
    return errno_of(resolve(id, "127.0.0.1", "7471", &hints));
  });
}

int set_unknown_option(const Bench&) {
  return with_id(RDMA_PS_TCP, [](rdma_cm_id* id) {
    int value = 1;
    return errno_of(rdma_set_option(id, RDMA_OPTION_ID, 99, &value, sizeof value));
  });
}

int join_with_unknown_attribute(const Bench&) {
  return with_id(RDMA_PS_UDP, [](rdma_cm_id* id) {
    rdma_cm_join_mc_attr_ex wanted{};
    wanted.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
    return errno_of(rdma_join_multicast_ex(id, &wanted, nullptr));
  });
}

/// Returns the result of `use` with a datagram rsocket.
int with_datagrams(const std::function<int(int)>& use) {
  const int number = rsocket(AF_INET, SOCK_DGRAM, 0);
  endpoint::check(number >= 0, "rsocket");
  errno = 0;
  const int answer = use(number);
  rclose(number);
  return answer;
}

int send_with_control_data(int number) {
  char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  return errno_of(static_cast<int>(rsendmsg(number, &message, 0)));
}

void add_datagrams(Rows& rows) {
  const auto add = [&rows](const char* call, const char* option, const char* why, int (*use)(int)) {
    rows.push_back(
        {call, option, EOPNOTSUPP, why, [use](const Bench&) { return with_datagrams(use); }});
  };
  const char* const no_connection = "datagrams have no connection, as with any socket";
  const char* const no_mapping = "remote memory needs a connection";
  add("rlisten", "a datagram rsocket", no_connection,
      [](int number) { return errno_of(rlisten(number, 1)); });
  add("raccept", "a datagram rsocket", no_connection,
      [](int number) { return errno_of(raccept(number, nullptr, nullptr)); });
  add("riomap", "a datagram rsocket", no_mapping, [](int number) {
    static char memory[64];
    return riomap(number, memory, sizeof memory, PROT_WRITE, 0, 0) == -1 ? errno : 0;
  });
  add("riounmap", "a datagram rsocket", no_mapping, [](int number) {
    static char memory[64];
    return errno_of(riounmap(number, memory, sizeof memory));
  });
  add("riowrite", "a datagram rsocket", no_mapping, [](int number) {
    return riowrite(number, "", 1, 0, 0) == static_cast<std::size_t>(-1) ? errno : 0;
  });
  const char* const as_rdma_core = "rdma-core's rsockets answer so";
  add("rsendmsg", "control data", as_rdma_core, send_with_control_data);
  add("rsend", "`MSG_OOB` on datagrams", "only streams have urgent data",
      [](int number) { return errno_of(static_cast<int>(rsend(number, "", 1, MSG_OOB))); });
  add("rfcntl", "but flags (`F_GETFL`, `F_GETFD`) and the owner (`F_GETOWN`)", as_rdma_core,
      [](int number) { return errno_of(rfcntl(number, F_DUPFD, 0)); });
  add("rsetsockopt", "`SOL_RDMA` options that no header has", as_rdma_core, [](int number) {
    int value = 1;
    return errno_of(rsetsockopt(number, SOL_RDMA, 99, &value, sizeof value));
  });
  add("rgetsockopt", "`SOL_RDMA` options that no header has", as_rdma_core, [](int number) {
    int value = 1;
    socklen_t length = sizeof value;
    return errno_of(rgetsockopt(number, SOL_RDMA, 99, &value, &length));
  });
}

}  // namespace

void add_connections(Rows& rows) {
  rows.push_back({"rdma_set_local_ece", "", EOPNOTSUPP,
                  "the vendors' own options of a connection (ECE), and the adapter has none",
                  set_ece});
  rows.push_back({"rdma_getaddrinfo", "`RAI_SA`", EOPNOTSUPP,
                  "RoCE has no subnet administrator to ask", ask_subnet_administrator});
  rows.push_back({"rdma_resolve_addrinfo", "`RAI_SA` with `RAI_DNS`", EOPNOTSUPP,
                  "they exclude each other", ask_both});
  rows.push_back({"rdma_set_option", "that no header has", ENOSYS, "as the kernel answers",
                  set_unknown_option});
  rows.push_back({"rdma_join_multicast_ex", "`comp_mask` bits that no header has", ENOTSUP,
                  "unknown, as rdma-core answers", join_with_unknown_attribute});
  rows.push_back({"rdma_notify", "but `IBV_EVENT_COMM_EST`", EINVAL,
                  "the other event that it takes is a migrated path, and RoCE has none",
                  [](const Bench&) {
                    return with_id(RDMA_PS_TCP, [](rdma_cm_id* id) {
                      return errno_of(rdma_notify(id, IBV_EVENT_PATH_MIG));
                    });
                  }});
}

void add_sockets(Rows& rows) {
  rows.push_back({"rsocket", "but streams and datagrams over IP, and streams over `AF_IB`", ENOTSUP,
                  "rdma-core's rsockets answer so",
                  [](const Bench&) { return errno_of(rsocket(AF_INET, SOCK_RAW, 0)); }});
  add_datagrams(rows);
}

}  // namespace refused
