#pragma once

#include <mutex>

/// The process that has the queue pairs of established streams, which its children have inherited.
namespace verbatim::rspreload {

/// While it exists, no number becomes a shadow's.
class NumbersStay {
 public:
  NumbersStay();

 private:
  std::unique_lock<std::mutex> lock_;
};

/// Before the program closes `fd`, an rsocket, or makes it another file: the number is none from
/// now on, and a child that may still have the stream keeps it open. Returns false if the number is
/// not an rsocket's any more: heirs use the stream.
bool leave_to_heirs(int fd);

/// The stream of this rsocket becomes one that all processes may use, in its shadow: so it can be
/// passed on. Returns false with errno.
bool share(int fd);

/// Before the process exits by itself: serves the heirs until they have closed what they use.
void serve_to_the_end();

}  // namespace verbatim::rspreload
