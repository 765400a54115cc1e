#include "ulp/rdma/service_place.h"

#include <charconv>
#include <cstring>

#include <endian.h>
#include <fmt/format.h>
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

Result<SocketAddress> parse_place(const std::string& text, std::uint16_t port) {
  if (auto bare = SocketAddress::parse(text, port)) return bare;
  const std::size_t colon = text.rfind(':');
  std::uint16_t own = 0;
  if (colon != std::string::npos) {
    const char* const end = text.data() + text.size();
    const auto [at, error] = std::from_chars(text.data() + colon + 1, end, own);
    std::string_view address = std::string_view(text).substr(0, colon);
    if (address.starts_with('[') && address.ends_with(']'))
      address = address.substr(1, address.size() - 2);
    if (error == std::errc{} && at == end && own != 0) return SocketAddress::parse(address, own);
  }
  return refuse(EINVAL, fmt::format("'{}' is no address: write 10.0.0.1 or 10.0.0.1:4420", text));
}

}  // namespace verbatim::ulp::rdma
