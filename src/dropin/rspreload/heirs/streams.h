#pragma once

#include <memory>

#include "dropin/rspreload/pending/gate.h"
#include "ulp/sockets/source.h"

namespace verbatim::rspreload {

/// Null if the number is no rsocket's.
std::shared_ptr<ulp::sockets::Source> source_of(int number);
/// Another number of the rsocket, which only this library knows; -1.
int own_number_of(int fd);
Names names_of(int number);
/// An established stream, no listener and no datagram socket.
bool is_stream(int number);
/// The rsocket's time limits (SO_RCVTIMEO, SO_SNDTIMEO) become the plain socket's.
void copy_limits(int rsocket, int plain);

}  // namespace verbatim::rspreload
