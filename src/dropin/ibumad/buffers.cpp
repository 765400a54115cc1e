#include <cerrno>

#include "dropin/ibumad/umad.h"

/// The program's buffer: a header, then the datagram.
namespace {

ib_user_mad& header_of(void* umad) { return *static_cast<ib_user_mad*>(umad); }

}  // namespace

extern "C" {

size_t umad_size() { return sizeof(ib_user_mad); }
void* umad_get_mad(void* umad) { return header_of(umad).data; }
int umad_status(void* umad) { return static_cast<int>(header_of(umad).status); }
ib_mad_addr_t* umad_get_mad_addr(void* umad) { return &header_of(umad).addr; }

int umad_set_addr_net(void* umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey) {
  ib_mad_addr_t& address = header_of(umad).addr;
  address.qpn = dqp;
  address.lid = dlid;
  address.qkey = qkey;
  address.sl = static_cast<uint8_t>(sl);
  return 0;
}

int umad_set_addr(void* umad, int dlid, int dqp, int sl, int qkey) {
  return umad_set_addr_net(umad, htobe16(static_cast<uint16_t>(dlid)),
                           htobe32(static_cast<uint32_t>(dqp)), sl,
                           htobe32(static_cast<uint32_t>(qkey)));
}

/// `mad_addr`: as ib_mad_addr_t, the flow label in the machine's order. gid_index stays.
int umad_set_grh(void* umad, void* mad_addr) {
  ib_mad_addr_t& address = header_of(umad).addr;
  address.grh_present = mad_addr != nullptr ? 1 : 0;
  if (mad_addr == nullptr) return 0;
  const auto& from = *static_cast<const ib_mad_addr_t*>(mad_addr);
  address.ib_gid = from.ib_gid;
  address.flow_label = htobe32(from.flow_label);
  address.hop_limit = from.hop_limit;
  address.traffic_class = from.traffic_class;
  return 0;
}

int umad_set_pkey(void* umad, int pkey_index) {
  header_of(umad).addr.pkey_index = static_cast<uint16_t>(pkey_index);
  return 0;
}
int umad_get_pkey(void* umad) { return header_of(umad).addr.pkey_index; }

}  // extern "C"
