#pragma once

#include <cstdint>

/// What the numbers of descriptors stand for. Any thread may ask and tell at any time.
namespace verbatim::rspreload {

inline constexpr int kNumbers = 65'536;

enum class Kind : std::uint8_t {
  other,  // libc's business.
  rsocket,
  // TCP sockets of programs that fork (pending.h).
  fresh,
  listening,
  connecting,  // Not known to be connected.
  active,      // Connected, and not used yet.
  passive,     // Accepted, and not used yet.
  converting,  // Into an rsocket, by a thread.
};

/// Whether this thread is inside an rsocket call: what it calls then is meant for libc.
bool inside();

/// Marks the thread while it is inside.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
};

template <typename Call>
auto within(Call&& call) {
  const Inside mark;
  return call();
}

/// `other` for all calls that are not the program's. After fork, the child's numbers of its
/// parent's rsockets are `other`, too: a child can but close them. So are those of sockets that
/// were on their way to be rsockets.
Kind kind_of(int fd);
inline bool is_ours(int fd) { return kind_of(fd) == Kind::rsocket; }

/// EMFILE from `kNumbers` on, where nothing but `other` can be noted.
bool set_kind(int fd, Kind kind);
/// False where it was not `from`. Only one thread succeeds.
bool replace_kind(int fd, Kind from, Kind to);

/// Where the peer of a passive socket will connect.
struct PendingListener {
  int listener = -1;  // An rsocket. -1 where there is none yet.
  int lock = -1;
};
PendingListener pending_listener_of(int fd);
void set_pending_listener(int fd, PendingListener pending_listener);

/// A child of vfork(2) has descriptors of its own, but shares this table with its parent.
bool is_child_of_vfork();

}  // namespace verbatim::rspreload
