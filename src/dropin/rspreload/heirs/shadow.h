#pragma once

#include <optional>

#include "base/os/unique_fd.h"
#include "dropin/rspreload/pending/gate.h"

/// A stream that several processes have, as they see it: one end of a pair of UNIX sockets, which
/// fork, exec, dup and messages carry, and which read, write and poll serve without this library.
///
/// The owner always leaves a byte unread in its end, the guard: if the owner is killed, the kernel
/// tells the others a reset, not an end. The pair knows the names of the connection, by the address
/// to which the owner's end is bound.
namespace verbatim::rspreload {

struct Shadow {
  UniqueFd programs;  // Shared by all processes.
  UniqueFd owners;
};

inline constexpr int kGuardBytes = 1;

std::optional<Shadow> make_shadow(const Names& names);
/// What is left of a stream whose owner has gone: a reset, then nothing.
UniqueFd make_lost();

/// Without value if the descriptor is no program's end of a shadow.
std::optional<Names> names_of_shadow(int fd);
/// Closes every program's end that this process has.
void close_shadows();

/// Answers getsockopt and setsockopt for options that a UNIX socket does not have. Returns false if
/// the descriptor is none of a shadow, or `option` is none of these.
bool shadow_option(int fd, int level, int option, void* value, socklen_t* length);

}  // namespace verbatim::rspreload
