#pragma once

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/programs/endpoint.h"

/// The table of refused calls, from which docs/compatibility.md's section is written: each row is
/// made on the device, and its answer compared.
namespace refused {

/// What another process of the node has made, and keeps while this one runs.
struct OtherObjects {
  int cmd_fd = -1;  // Of its context: a descriptor of this process here, of its own there.
  std::uint32_t pd = 0;
  std::uint32_t mr = 0;
  std::uint32_t dm = 0;
  std::uint32_t target = 0;  // Number of an XRC target, of the shared domain.
};

/// What the attempts are made with.
struct Bench : endpoint::Device {
  explicit Bench(const OtherObjects& others) : Device(16), other(others) {}
  OtherObjects other;
};

struct Row {
  std::string call;    // As the document has it, between backquotes.
  std::string option;  // Of the call; empty where it is refused whatever is asked.
  int answer = 0;      // An errno value.
  std::string why;
  /// Makes the call: an errno value, returned or set; 0 where the call succeeds.
  std::function<int(const Bench&)> attempt;
  std::size_t log_lines = 1;  // That the attempt writes at least.
};
using Rows = std::vector<Row>;

void add_objects(Rows& rows);         // Devices, completion queues, memory, addresses.
void add_queue_pairs(Rows& rows);     // And posting.
void add_receive_queues(Rows& rows);  // Shared receive queues, work queues.
void add_flow_rules(Rows& rows);
void add_connections(Rows& rows);       // librdmacm.
void add_sockets(Rows& rows);           // rsockets.
void add_iwarp(Rows& rows);             // Of a node that speaks it: these alone.
void add_unserved_exports(Rows& rows);  // What exports.txt says that nobody answers.

/// The file that XRC domains of both processes belong to.
inline constexpr const char* kSharedFile = "/proc/self/exe";
ibv_xrcd* open_shared_domain(const endpoint::Device& device);

/// Of calls that return a pointer, and of those that return -1.
inline int errno_of(const void* made) { return made == nullptr ? errno : 0; }
inline int errno_of(int result) { return result == -1 ? errno : 0; }

/// A value that the header's enumeration lacks: C lets it hold any number.
template <typename Enumeration>
Enumeration beyond_the_header(unsigned value) {
  Enumeration result;
  static_assert(sizeof result == sizeof value);
  std::memcpy(&result, &value, sizeof result);
  return result;
}

/// Where the objects that an attempt needs cannot be made: no call answers so.
inline constexpr int kNoBench = -1;

}  // namespace refused
