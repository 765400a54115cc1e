#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/error.h"
#include "cm/ib/connection_manager.h"
#include "cm/messages.h"

/// Between the program's values and those of the messages.
namespace verbatim::cm {

template <std::size_t N>
PrivateData private_data_of(const wire::CmPrivateData<N>& field, std::size_t skip = 0) {
  PrivateData data;
  for (std::size_t i = skip; i < N; ++i) data.push(field[i]);
  return data;
}

/// The caller has checked that it fits.
template <std::size_t N>
void put(wire::CmPrivateData<N>& field, ByteSpan data, std::size_t at = 0) {
  std::ranges::copy(data, field.begin() + static_cast<std::ptrdiff_t>(at));
}

/// EINVAL where there is more than the message has room for.
Result<void> check_private_data(ByteSpan data, std::size_t most, const char* call);

/// EINVAL for ends of which only one is given, or of two families.
Result<void> check_endpoints(const IpEndpoints& ends, const char* call);
/// The RDMA IP header and the user's bytes behind it; only these where there are no ends.
template <std::size_t N>
void put_request(wire::CmPrivateData<N>& field, const IpEndpoints& ends, ByteSpan data);
/// The ends that a request names, empty if it has no (good) header. Link-local addresses get the
/// scope that the MAD arrived in.
IpEndpoints endpoints_of(ServiceId service, ByteSpan private_data, const SocketAddress& arrived_at);

wire::CmReq request_of(const ConnectParameters& parameters);
wire::CmRep reply_of(const AcceptParameters& parameters, CmTransport transport);
/// The path as the side sees it that the REQ arrived at. The path's MTU is checked already.
Path path_of(const wire::CmReq& req, const SocketAddress& from, const SocketAddress& to);
/// What the peer offers, turned round.
QueuePairOffer offer_of(const wire::CmReq& req);
QueuePairOffer offer_of(const wire::CmRep& rep, CmTransport transport);

constexpr bool is_mtu(std::uint8_t value) {
  return value >= raw(Mtu::k256) && value <= raw(Mtu::k4096);
}

wire::RdmaIpHeader header_of(const IpEndpoints& ends);

template <std::size_t N>
void put_request(wire::CmPrivateData<N>& field, const IpEndpoints& ends, ByteSpan data) {
  if (ends.empty()) return put(field, data);
  encode(header_of(ends), std::span(field).template first<wire::RdmaIpHeader::kSize>());
  put(field, data, wire::RdmaIpHeader::kSize);
}

}  // namespace verbatim::cm
