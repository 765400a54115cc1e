#include <cstdio>

#include "dropin/ibumad/umad.h"

/// What a person who debugs a program asks for, on standard error.
namespace {

int debug_level = 0;

}  // namespace

extern "C" {

/// A negative level only reads it.
int umad_debug(int level) {
  if (level >= 0) debug_level = level;
  return debug_level;
}

void umad_addr_dump(ib_mad_addr_t* addr) {
  std::fprintf(stderr, "umad address: qpn 0x%x qkey 0x%x lid %u sl %u path bits %u pkey index %u",
               be32toh(addr->qpn), be32toh(addr->qkey), be16toh(addr->lid), addr->sl,
               addr->path_bits, addr->pkey_index);
  if (addr->grh_present != 0) {
    std::fprintf(stderr, " gid ");
    for (const uint8_t byte : addr->gid) std::fprintf(stderr, "%02x", byte);
    std::fprintf(stderr, " gid index %u hop limit %u traffic class %u flow label 0x%x",
                 addr->gid_index, addr->hop_limit, addr->traffic_class, be32toh(addr->flow_label));
  }
  std::fprintf(stderr, "\n");
}

void umad_dump(void* umad) {
  auto& mad = *static_cast<ib_user_mad*>(umad);
  std::fprintf(stderr, "umad: agent %u status %u timeout %u ms retries %u length %u\n",
               mad.agent_id, mad.status, mad.timeout_ms, mad.retries, mad.length);
  umad_addr_dump(&mad.addr);
}

}  // extern "C"
