#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "base/types.h"
#include "fabric/protocol/fabric_folder.h"

/// rdma_cm's questions to the interfaces of IP over InfiniBand of a host: where an IP address
/// leads. Each interface has a socket in the fabric's folder, and takes a question a connection.
namespace verbatim::fabric::protocol {

struct AddressQuestion {
  SocketAddress source;       // Empty: any of the interface's. EADDRNOTAVAIL: it has no such one.
  SocketAddress destination;  // Empty: only the source is asked for.
};
struct AddressAnswer {
  SocketAddress source;
  Gid own{};  // The port of the interface,
  std::uint8_t port = 1;
  PKey pkey{};  // and its partition.
  Gid peer{};   // The port that has the destination; zeros: none was asked for.
};

/// Asks all interfaces of the host, and returns the first answer; EADDRNOTAVAIL or EHOSTUNREACH in
/// words: none of them has the source, or reaches the destination. May wait for ARP, some seconds.
Result<AddressAnswer> ask_interfaces(const FabricFolder& folder, std::uint64_t host_guid,
                                     const AddressQuestion& question);

// The interface's side. None of these waits.
Result<UniqueFd> listen_for_questions(const FabricFolder& folder, std::uint64_t host_guid,
                                      const std::string& interface);
void stop_listening(const FabricFolder& folder, std::uint64_t host_guid,
                    const std::string& interface);
/// EAGAIN: it is not there yet. Else: it is none.
Result<AddressQuestion> receive_question(int connection);
void send_answer(int connection, const Result<AddressAnswer>& answer);

}  // namespace verbatim::fabric::protocol
