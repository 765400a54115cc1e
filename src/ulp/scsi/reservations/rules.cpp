#include <array>

#include "base/types.h"
#include "ulp/scsi/reservations/reservations.h"

namespace verbatim::ulp::scsi {
namespace {

struct Row {
  Operation operation;
  WhileReserved allowed;
};

using enum Operation;

/// SPC-4, tables 63 and 64, SBC-3, table 13; SPC-2, table 9: for those that are not registered, or
/// do not hold the reservation. RESERVE, RELEASE and PERSISTENT RESERVE OUT have rules of their
/// own.
constexpr Row kRows[] = {
    {inquiry, {true, true, true}},
    {report_luns, {true, true, true}},
    {request_sense, {true, true, true}},
    {release, {true, true, true}},
    {reserve, {true, true, false}},
    {persistent_reserve_in, {true, true, false}},
    {persistent_reserve_out, {true, true, false}},
    {test_unit_ready, {true, true, false}},
    {report_port_groups, {true, true, false}},
    {read_capacity_10, {true, true, false}},
    {read_capacity_16, {true, true, false}},
    {report_operation_codes, {true, false, false}},
    {mode_sense, {true, false, false}},
    {read, {true, false, false}},
    {verify, {true, false, false}},
    {receive_copy_results, {true, false, false}},
    {set_port_groups, {}},
    {mode_select, {}},
    {start_stop, {}},
    {write, {}},
    {write_and_verify, {}},
    {synchronize_cache, {}},
    {unmap, {}},
    {write_same, {}},
    {compare_and_write, {}},
    {extended_copy, {}},
};

constexpr auto kByOperation = [] {
  std::array<WhileReserved, kOperations> rules{};
  for (const Row& row : kRows) rules[static_cast<std::size_t>(row.operation)] = row.allowed;
  return rules;
}();
static_assert(std::size(kRows) == kOperations);

}  // namespace

WhileReserved allowed_while_reserved(Operation operation) { return kByOperation[raw(operation)]; }

}  // namespace verbatim::ulp::scsi
