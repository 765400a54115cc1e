#pragma once

/// The process that has the queue pairs of established streams, which its children have inherited.
namespace verbatim::rspreload {

/// Before the program closes `fd`, an rsocket: a child that may still have it keeps it open.
void keep_for_heirs(int fd);

/// The stream of this rsocket becomes one that all processes may use, in its shadow: so it can be
/// passed on. Returns false with errno.
bool share(int fd);

/// Before the process exits by itself: serves the heirs until they have closed what they use.
void serve_to_the_end();

}  // namespace verbatim::rspreload
