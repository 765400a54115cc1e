#include "ulp/rdma/infiniband/fake_umad_for_test.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <endian.h>
#include <infiniband/umad.h>

using verbatim::ulp::rdma::FakeUmad;

namespace {

constexpr int kPort = 7;

ib_user_mad& header_of(void* umad) { return *static_cast<ib_user_mad*>(umad); }

}  // namespace

extern "C" {

int umad_open_port(const char*, int) {
  FakeUmad::get().is_open = true;
  return kPort;
}
int umad_close_port(int) {
  FakeUmad::get().is_open = false;
  return 0;
}
int umad_get_fd(int port) { return port; }
size_t umad_size() { return sizeof(ib_user_mad); }
void* umad_get_mad(void* umad) { return header_of(umad).data; }
ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &header_of(umad).addr; }
int umad_status(void* umad) { return static_cast<int>(header_of(umad).status); }

int umad_get_port(const char*, int, umad_port_t* port) {
  FakeUmad& fake = FakeUmad::get();
  *port = {};
  fake.link_layer.copy(port->link_layer, sizeof port->link_layer - 1);
  port->base_lid = fake.lid;
  port->sm_lid = fake.manager;
  port->port_guid = htobe64(0x1234);
  port->gid_prefix = htobe64(0xfe80ull << 48);
  port->pkeys = fake.pkeys.data();
  port->pkeys_size = static_cast<unsigned>(fake.pkeys.size());
  return 0;
}
int umad_release_port(umad_port_t*) { return 0; }

int umad_register(int, int management_class, int, uint8_t, long*) {
  FakeUmad& fake = FakeUmad::get();
  if (management_class == fake.refuses_class) return -EINVAL;
  fake.classes.push_back(management_class);
  return static_cast<int>(fake.classes.size()) - 1;
}

int umad_set_addr(void* umad, int lid, int qpn, int sl, int qkey) {
  ib_mad_addr_t& to = header_of(umad).addr;
  to.lid = htobe16(static_cast<uint16_t>(lid));
  to.qpn = htobe32(static_cast<uint32_t>(qpn));
  to.sl = static_cast<uint8_t>(sl);
  to.qkey = htobe32(static_cast<uint32_t>(qkey));
  return 0;
}
int umad_set_grh(void*, void*) { return 0; }
int umad_set_pkey(void* umad, int index) {
  header_of(umad).addr.pkey_index = static_cast<uint16_t>(index);
  return 0;
}

int umad_send(int, int agent, void* umad, int length, int timeout_ms, int) {
  FakeUmad::Sent sent{.agent = agent,
                      .timeout_ms = timeout_ms,
                      .lid = be16toh(header_of(umad).addr.lid),
                      .qkey = be32toh(header_of(umad).addr.qkey)};
  std::memcpy(sent.mad.data(), umad_get_mad(umad), static_cast<size_t>(length));
  FakeUmad::get().sent.push_back(sent);
  return 0;
}

int umad_recv(int, void* umad, int* length, int) {
  FakeUmad& fake = FakeUmad::get();
  if (fake.coming.empty()) return -EAGAIN;
  const FakeUmad::Coming first = fake.coming.front();
  fake.coming.pop_front();
  header_of(umad).status = static_cast<uint32_t>(first.status);
  umad_set_addr(umad, 9, 1, 0, 0);
  *length = static_cast<int>(first.length);
  std::memcpy(umad_get_mad(umad), first.mad.data(), first.length);
  return first.agent;
}

}  // extern "C"
