#pragma once

namespace verbatim::rspreload {

/// Programs expect low numbers for their descriptors (wrk refuses others, select takes none from
/// 1024 on). So the descriptors behind a socket, which only our libraries use, get high ones.
/// Returns the descriptor under its new number, or under the old one if none is free.
int with_high_number(int fd);
/// The same for an rsocket that the program gets: the lowest free number. Keeps the old one if none
/// is.
/// `flags`: SOCK_CLOEXEC.
int with_low_number(int rsocket, int flags);

}  // namespace verbatim::rspreload
