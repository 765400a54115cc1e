#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include <netdb.h>
#include <rdma/rdma_cma.h>

#include "tests/programs/endpoint.h"

/// Helpers of programs that connect through rdma_cm.
namespace peers {

using endpoint::check;

/// Content of an event, after it was acknowledged.
struct Event {
  rdma_cm_id* id;
  int status;
  std::string private_data;
};

inline sockaddr_storage address_of(const char* host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  check(error == 0, std::string(host) + ": " + gai_strerror(error));
  sockaddr_storage address{};
  std::memcpy(&address, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return address;
}

/// An event channel and its ids.
struct Manager {
  static constexpr int kTimeoutMs = 10'000;

  rdma_event_channel* channel = rdma_create_event_channel();

  Manager() { check(channel != nullptr, "rdma_create_event_channel"); }
  rdma_cm_id* create_id() const {
    rdma_cm_id* id = nullptr;
    check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0, "rdma_create_id");
    return id;
  }
  /// Listens at any address of each family, because Linux's siw rejects IPv4 requests at an IPv6
  /// listener.
  std::array<rdma_cm_id*, 2> listen(int port) const {
    return {listen(AF_INET, port), listen(AF_INET6, port)};
  }
  rdma_cm_id* listen(int family, int port) const {
    rdma_cm_id* const listener = create_id();
    int yes = 1;
    check(rdma_set_option(listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes, sizeof yes) == 0,
          "RDMA_OPTION_ID_AFONLY");
    sockaddr_in6 any{};  // The port is at the same offset in both families.
    any.sin6_family = static_cast<sa_family_t>(family);
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    check(rdma_bind_addr(listener, reinterpret_cast<sockaddr*>(&any)) == 0, "rdma_bind_addr");
    check(rdma_listen(listener, 4) == 0, "rdma_listen");
    return listener;
  }
  /// Returns an id whose address and route are resolved.
  rdma_cm_id* resolve(const char* host, int port) const {
    rdma_cm_id* const id = create_id();
    sockaddr_storage address = address_of(host, port);
    check(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&address), kTimeoutMs) == 0,
          "rdma_resolve_addr");
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    check(rdma_resolve_route(id, kTimeoutMs) == 0, "rdma_resolve_route");
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }
  Event expect(rdma_cm_event_type type) const {
    rdma_cm_event* event = nullptr;
    check(rdma_get_cm_event(channel, &event) == 0, "rdma_get_cm_event");
    if (event->event != type) {
      std::fprintf(stderr, "%s (status %d), expected %s\n", rdma_event_str(event->event),
                   event->status, rdma_event_str(type));
      std::exit(1);
    }
    Event told{event->id, event->status, {}};
    const rdma_conn_param& with = event->param.conn;
    if (with.private_data != nullptr) {
      told.private_data.assign(static_cast<const char*>(with.private_data), with.private_data_len);
    }
    rdma_ack_cm_event(event);
    return told;
  }
  static void destroy(rdma_cm_id* id) {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    check(rdma_destroy_id(id) == 0, "rdma_destroy_id");
  }
};

/// The RDMA stack of a side: Linux's differ from the specifications in some points.
enum class Stack : std::uint8_t { verbatim, rxe, siw };

inline Stack stack_of(const ibv_context* context) {
  const std::string_view name = ibv_get_device_name(context->device);
  if (name.starts_with("rxe")) return Stack::rxe;
  return name.starts_with("siw") ? Stack::siw : Stack::verbatim;
}

inline bool is_iwarp(const ibv_context* context) {
  return context->device->transport_type == IBV_TRANSPORT_IWARP;
}

}  // namespace peers
