#pragma once

#include <cstdint>
#include <vector>

/// What each file descriptor is: an rsocket, a socket that may become one, or neither. Any thread.
namespace verbatim::rspreload {

inline constexpr int kNumbers = 65'536;

enum class Kind : std::uint8_t {
  other,  // Handled by libc.
  rsocket,
  undecided,  // A TCP socket: rules decide when it listens or connects (carriers.h).
  // TCP sockets of programs that fork (pending.h).
  fresh,
  listening,
  connecting,  // Not known to be connected.
  active,      // Connected, and not used yet.
  passive,     // Accepted, and not used yet.
  converting,  // Becoming an rsocket, in some thread.
  inherited,   // A parent's rsocket, not used yet (heirs/heir.h).
};

inline bool is_pending(Kind kind) { return kind >= Kind::connecting; }

/// Returns true if this thread is inside an rsocket call: calls that it makes then go to libc.
bool inside();

/// Scope object: the thread is inside an rsocket call.
class Inside {
 public:
  Inside();
  ~Inside();
  Inside(const Inside&) = delete;
};

/// Scope object: the thread is outside again, while it sleeps and signals call the program.
class Outside {
 public:
  Outside();
  ~Outside();
  Outside(const Outside&) = delete;

 private:
  int depth_;
};

template <typename Call>
auto within(Call&& call) {
  const Inside mark;
  return call();
}

/// Returns `other` for calls that the program did not make itself. In a forked child sockets that
/// were becoming rsockets are `other`, too: the child can only close them.
Kind kind_of(int fd);
inline bool is_ours(int fd) { return kind_of(fd) == Kind::rsocket; }

/// A call on an rsocket has failed, by errno, because other processes began to use its stream
/// (heirs/): the number is a shadow's when this returns true.
bool has_become_shadow(int fd);
/// `ours` on an rsocket, else `plain`.
template <typename Ours, typename Plain>
auto in_stream(int fd, Ours&& ours, Plain&& plain) {
  if (!is_ours(fd)) return plain();
  const auto result = ours();
  return result < 0 && has_become_shadow(fd) ? plain() : result;
}

/// Returns false with EMFILE from `kNumbers` on, where all fds are `other`.
bool set_kind(int fd, Kind kind);
/// Returns false if it was not `from`. Only one of several threads succeeds.
bool replace_kind(int fd, Kind from, Kind to);

/// What a pending socket waits for.
struct Awaited {
  int arrival =
      -1;  // Passive: as `Expected`. Active: the rsocket that is connecting. -1: none yet.
  int beside =
      -1;  // Passive: a listener at the TCP socket's port, where rdma-core's library connects.
  int lock = -1;  // For that.
};
Awaited awaited_of(int fd);
void set_awaited(int fd, Awaited awaited);

// A connected pending socket may have several numbers: one of them, the first, becomes an rsocket,
// and the others with it.
/// The number itself if it has no others.
int first_of(int fd);
/// `number` is another number of this pending socket, of the same kind.
bool add_twin(int fd, int number);
/// The other numbers.
std::vector<int> twins_of(int fd);
/// Before the number is closed, or becomes another file. Returns true if the socket has others: one
/// of them is the first now, and awaits what this one did.
bool leave_twins(int fd);

/// All numbers of this kind.
std::vector<int> numbers_of(Kind kind);

// Rsockets' numbers in their process and its children (heirs/). Each time that a number becomes an
// rsocket it has a new serial number, greater than those before; 0: it never was.
std::uint32_t next_serial();
std::uint32_t serial_of(int fd);
/// The rsocket's number, or -1.
int number_with_serial(std::uint32_t serial);
/// The line that a child which is being made will have to this process; -1: none.
void set_line_of_child(int line);
/// The line to the owner of an inherited number; -1: none.
int line_of(int fd);
/// No other child, nor a child of this one, may have what this process has inherited.
bool is_sole_heir();

/// Calls it once, with the first rsocket: after the libraries have registered what they do around
/// fork, whose locks an rsocket's calls take.
void at_first_rsocket(void (*call)());

/// Returns true if this process has had an rsocket. A forked child begins anew.
bool has_rsockets();

/// Returns true in a child of vfork(2), which has its own descriptors, but shares this table with
/// its parent.
bool is_child_of_vfork();

}  // namespace verbatim::rspreload
