#pragma once

#include <cstdint>
#include <string>

#include "ulp/rds/local/client.h"

/// Which descriptors are RDS sockets, and what is known of them. Any thread.
namespace verbatim::rdspreload {

inline constexpr int kNumbers = 65'536;

/// Bits. What is known stays true: a socket is bound once. Hidden: this library's, of the program's
/// numbers.
enum Known : std::uint8_t { kIsRds = 1, kIsBound = 2, kIsConnected = 4, kIsHidden = 8 };

std::uint8_t known_of(int fd);
inline bool is_rds(int fd) { return (known_of(fd) & kIsRds) != 0; }
/// One of the process's descriptors is an RDS socket.
bool has_any();
/// False from `kNumbers` on.
bool set_known(int fd, std::uint8_t known);
void add_known(int fd, Known known);

/// The broker's socket; empty: none.
const std::string& broker_path();

/// A port of some peer is congested, or it is not known whether one is.
bool may_be_congested(int fd);
/// Messages may go past the broker.
bool may_go_straight(int fd);

}  // namespace verbatim::rdspreload
