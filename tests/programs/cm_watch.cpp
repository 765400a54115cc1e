#include <cstdio>

#include <arpa/inet.h>
#include <rdma/rdma_cma.h>

// Prints the events of an rdma_cm_id that is bound to an address, until its device is removed.
int main(int count, char** arguments) {
  if (count != 2) return 2;
  setvbuf(stdout, nullptr, _IOLBF, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  if (inet_pton(AF_INET, arguments[1], &address.sin_addr) != 1) return 2;

  rdma_event_channel* const channel = rdma_create_event_channel();
  rdma_cm_id* id = nullptr;
  if (channel == nullptr || rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0 ||
      rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&address)) != 0) {
    std::perror("no bound id");
    return 1;
  }
  char gid[INET6_ADDRSTRLEN];
  inet_ntop(AF_INET6, &id->route.addr.addr.ibaddr.sgid, gid, sizeof gid);
  std::printf("bound, GID %s\n", gid);
  for (bool removed = false; !removed;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel, &event) != 0) return 1;
    std::puts(rdma_event_str(event->event));
    removed = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL;
    if (rdma_ack_cm_event(event) != 0) return 1;
  }
  if (rdma_destroy_id(id) != 0) return 1;
  rdma_destroy_event_channel(channel);
  return 0;
}
