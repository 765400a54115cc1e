#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "wire/ib/opcode.h"

/// The operations of send requests, as one table that the engines and the adapter share.
namespace verbatim::transport {

/// Values as in `enum ibv_wr_opcode`, with those of newer rdma-core versions.
enum class Operation : std::uint8_t {
  write = 0,
  write_with_immediate = 1,
  send = 2,
  send_with_immediate = 3,
  read = 4,
  compare_and_swap = 5,
  fetch_and_add = 6,
  local_invalidate = 7,
  bind_window = 8,
  send_with_invalidate = 9,
  flush = 14,
  atomic_write = 15,
};

/// Direction of the bytes in a request's scatter/gather list.
enum class DataFlow : std::uint8_t { none, out, in };

struct OperationInfo {
  bool known = false;
  wire::Verb verb{};
  DataFlow data = DataFlow::none;
  bool immediate = false;
  bool invalidate = false;
  /// Completed by a response, not by an acknowledgement; max_rd_atomic bounds these.
  bool awaits_response = false;
  /// Executed by the requester's own adapter, in order between the packets: nothing is sent.
  bool is_local = false;
  /// Has 8 bytes, whatever the segments say.
  bool is_eight_bytes = false;
};
static_assert(sizeof(OperationInfo) == 8, "found by a shift");

namespace detail {

struct OperationRow {
  Operation operation;
  OperationInfo info;
};

inline constexpr OperationRow kOperationRows[] = {
    {Operation::write, {.verb = wire::Verb::write, .data = DataFlow::out}},
    {Operation::write_with_immediate,
     {.verb = wire::Verb::write, .data = DataFlow::out, .immediate = true}},
    {Operation::send, {.verb = wire::Verb::send, .data = DataFlow::out}},
    {Operation::send_with_immediate,
     {.verb = wire::Verb::send, .data = DataFlow::out, .immediate = true}},
    {Operation::send_with_invalidate,
     {.verb = wire::Verb::send, .data = DataFlow::out, .invalidate = true}},
    {Operation::read,
     {.verb = wire::Verb::read_request, .data = DataFlow::in, .awaits_response = true}},
    {Operation::compare_and_swap,
     {.verb = wire::Verb::compare_swap,
      .data = DataFlow::in,
      .awaits_response = true,
      .is_eight_bytes = true}},
    {Operation::fetch_and_add,
     {.verb = wire::Verb::fetch_add,
      .data = DataFlow::in,
      .awaits_response = true,
      .is_eight_bytes = true}},
    {Operation::flush, {.verb = wire::Verb::flush, .awaits_response = true}},
    {Operation::atomic_write,
     {.verb = wire::Verb::atomic_write,
      .data = DataFlow::out,
      .awaits_response = true,
      .is_eight_bytes = true}},
    {Operation::local_invalidate, {.is_local = true}},
    {Operation::bind_window, {.is_local = true}},
};

}  // namespace detail

inline constexpr std::size_t kOperations = 16;

inline constexpr std::array<OperationInfo, kOperations> kOperationTable = [] {
  std::array<OperationInfo, kOperations> table{};
  for (const detail::OperationRow& row : detail::kOperationRows) {
    OperationInfo& info = table[static_cast<std::size_t>(row.operation)];
    info = row.info;
    info.known = true;
  }
  return table;
}();

inline constexpr OperationInfo kUnknownOperation;

/// For any number; `known` is false if there is no such operation.
constexpr const OperationInfo& info(Operation operation) {
  const auto index = static_cast<std::size_t>(operation);
  return index < kOperations ? kOperationTable[index] : kUnknownOperation;
}

constexpr bool is_atomic(Operation operation) {
  return operation == Operation::compare_and_swap || operation == Operation::fetch_and_add;
}
constexpr bool is_send(Operation operation) {
  const OperationInfo& found = info(operation);
  return found.known && !found.is_local && found.verb == wire::Verb::send;
}
constexpr bool is_write(Operation operation) {
  const OperationInfo& found = info(operation);
  return found.known && !found.is_local && found.verb == wire::Verb::write;
}

}  // namespace verbatim::transport
