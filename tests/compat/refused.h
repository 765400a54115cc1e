#pragma once

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "tests/programs/endpoint.h"

/// The table of refused calls, from which a section of docs/compatibility.md is written: each row
/// is called on the device, and its result compared.
namespace refused {

/// Objects of another process of the node, which exist while this one runs.
struct OtherObjects {
  int cmd_fd = -1;  // The descriptor of its context, in this process.
  std::uint32_t pd = 0;
  std::uint32_t mr = 0;
  std::uint32_t dm = 0;
  std::uint32_t target = 0;  // Number of an XRC target in the shared domain.
};

/// The objects that the attempts use.
struct Bench : endpoint::Device {
  explicit Bench(const OtherObjects& others) : Device(16), other(others) {}
  OtherObjects other;
};

struct Row {
  std::string call;    // As in the document, between backquotes.
  std::string option;  // Option of the call; empty if all options are refused.
  int answer = 0;      // An errno value.
  std::string why;
  /// Makes the call; returns the errno value that it returned or set, or 0 if it succeeded.
  std::function<int(const Bench&)> attempt;
  std::size_t log_lines = 1;  // The least number of lines that the attempt logs.
};
using Rows = std::vector<Row>;

void add_objects(Rows& rows);         // Devices, completion queues, memory, addresses.
void add_queue_pairs(Rows& rows);     // And posting.
void add_receive_queues(Rows& rows);  // Shared receive queues, work queues.
void add_flow_rules(Rows& rows);
void add_connections(Rows& rows);       // librdmacm.
void add_sockets(Rows& rows);           // rsockets.
void add_iwarp(Rows& rows);             // On an iWARP node: only these.
void add_unserved_exports(Rows& rows);  // Functions that exports.txt lists as not implemented.

/// The file of the XRC domains of both processes.
inline constexpr const char* kSharedFile = "/proc/self/exe";
ibv_xrcd* open_shared_domain(const endpoint::Device& device);

/// For calls that return a pointer, and for those that return -1.
inline int errno_of(const void* made) { return made == nullptr ? errno : 0; }
inline int errno_of(int result) { return result == -1 ? errno : 0; }

/// A value that the header's enumeration lacks, which C allows.
template <typename Enumeration>
Enumeration beyond_the_header(unsigned value) {
  Enumeration result;
  static_assert(sizeof result == sizeof value);
  std::memcpy(&result, &value, sizeof result);
  return result;
}

/// The objects that an attempt needs cannot be made; no call returns this value.
inline constexpr int kNoBench = -1;

}  // namespace refused
