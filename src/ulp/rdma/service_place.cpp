#include "ulp/rdma/service_place.h"

#include <cstring>

#include <endian.h>
#include <infiniband/ib.h>
#include <rdma/rdma_cma.h>

#include "base/overloaded.h"

namespace verbatim::ulp::rdma {

sockaddr_storage to_sockaddr(const ServicePlace& place) {
  sockaddr_storage to{};
  std::visit(Overloaded{[&](const IpService& ip) {
                          std::memcpy(&to, ip.address.data(), ip.address.size());
                        },
                        [&](const InfinibandService& infiniband) {
                          sockaddr_ib address{};
                          address.sib_family = AF_IB;
                          address.sib_pkey = htobe16(raw(infiniband.pkey));
                          address.sib_sid = htobe64(infiniband.service);
                          address.sib_sid_mask = htobe64(infiniband.mask);
                          std::memcpy(address.sib_addr.sib_raw, infiniband.gid.bytes.data(),
                                      infiniband.gid.bytes.size());
                          std::memcpy(&to, &address, sizeof address);
                        }},
             place);
  return to;
}

int port_space_of(const ServicePlace& place) {
  return std::holds_alternative<IpService>(place) ? RDMA_PS_TCP : RDMA_PS_IB;
}

}  // namespace verbatim::ulp::rdma
