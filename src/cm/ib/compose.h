#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "base/error.h"
#include "cm/ib/connection_manager.h"
#include "cm/messages.h"

/// Conversion between the user's values and the fields of messages.
namespace verbatim::cm {

template <std::size_t N>
PrivateData private_data_of(const wire::CmPrivateData<N>& field, std::size_t skip = 0) {
  PrivateData data;
  for (std::size_t i = skip; i < N; ++i) data.push(field[i]);
  return data;
}

/// Requires that the bytes fit.
template <std::size_t N>
void put(wire::CmPrivateData<N>& field, ByteSpan data, std::size_t at = 0) {
  std::ranges::copy(data, field.begin() + static_cast<std::ptrdiff_t>(at));
}

/// EINVAL if there are more bytes than the message has room for.
Result<void> check_private_data(ByteSpan data, std::size_t most, const char* call);

/// EINVAL if only one end is given, or the ends are of two families.
Result<void> check_endpoints(const IpEndpoints& ends, const char* call);
/// Returns the RDMA IP header and the user's bytes after it; only these if `ends` is empty.
template <std::size_t N>
void put_request(wire::CmPrivateData<N>& field, const IpEndpoints& ends, ByteSpan data);
/// Returns the ends that a request names; empty if it has no valid header. Link-local addresses get
/// the scope of the interface on which the MAD arrived.
IpEndpoints endpoints_of(ServiceId service, ByteSpan private_data, const SocketAddress& arrived_at);

/// Bytes of the private data before the user's. SDP's users have the Hello themselves.
std::size_t header_bytes(ServiceId service, const IpEndpoints& ends);

wire::CmReq request_of(const ConnectParameters& parameters);
wire::CmRep reply_of(const AcceptParameters& parameters, CmTransport transport);
/// Returns the path as the side that received the REQ sees it. The path's MTU is checked already.
Path path_of(const wire::CmReq& req, const verbatim::Path& from, const SocketAddress& to);
/// Returns the peer's offer from this side's point of view: initiator and responder are exchanged.
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
