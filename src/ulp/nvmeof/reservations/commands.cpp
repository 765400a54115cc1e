#include <algorithm>
#include <vector>

#include "ulp/nvmeof/io_queue.h"

/// Commands of reservations on an I/O queue.
namespace verbatim::ulp::nvmeof {

using storage::Output;
using Kind = DataDescriptor::Kind;

namespace {

constexpr std::uint64_t kReportBytesMax = 64 * 1024;

/// Whatever the pages have, zeros follow the bytes.
void fill(std::span<const Slice> pages, std::span<const std::byte> bytes) {
  for (const Slice& page : pages) {
    const auto part = bytes.first(std::min<std::size_t>(bytes.size(), page.bytes));
    std::ranges::copy(part, page.data);
    std::fill(page.data + part.size(), page.data + page.bytes, std::byte{});
    bytes = bytes.subspan(part.size());
  }
}

}  // namespace

Status IoQueue::refusal_of_reservation(const Command& command, const Namespace&) const {
  if (command.opcode != Opcode::reservation_report) {
    const bool fits = command.data.bytes >= key_bytes(command.opcode) &&
                      command.data.bytes <= ReservationChange::kBytesMax;
    return fits ? Status::success : Status::data_length_invalid;
  }
  const ReportRequest wanted = report_request_of(command);
  if (!wanted.is_extended) return Status::host_id_inconsistent;  // Our hosts' ids have 16 bytes.
  if (wanted.bytes < ReservationReport::kHeadBytes || wanted.bytes > kReportBytesMax)
    return Status::invalid_field;
  if (command.data.kind != Kind::keyed) return Status::descriptor_type_invalid;
  return command.data.bytes == wanted.bytes ? Status::success : Status::data_length_invalid;
}

/// The namespace may have gone while the keys came.
void IoQueue::change_reservation(Request& request, const ReservationKeys& keys, Output& out) {
  const std::uint32_t id = request.command.namespace_id;
  const auto space = namespaces_.find(id);
  if (!space || space->reservations == nullptr)
    return answer(request, Status::invalid_namespace, out);
  const auto change = reservation_change_of(request.command, keys);
  std::vector<ReservationNotice> notices;  // Such commands are rare: it allocates.
  const Status status = space->reservations->change(namespaces_.host(), change, notices);
  if (!notices.empty()) namespaces_.tell(id, notices);
  const bool aborts = change.opcode == Opcode::reservation_acquire &&
                      static_cast<AcquireAction>(change.action) == AcquireAction::preempt_and_abort;
  if (status != Status::success || !aborts) return answer(request, status, out);
  // Nothing of those that are kept out now may reach the disk after the answer.
  request.reservations = space->reservations;
  request.epoch = space->reservations->barrier();
  if (space->reservations->is_past(request.epoch)) return answer(request, status, out);
  request.step = Step::waiting;
  waiting_.push_back(&request);
}

void IoQueue::report_reservation(Request& request, Output& out) {
  const auto space = namespaces_.find(request.command.namespace_id);
  if (!space || space->reservations == nullptr)
    return answer(request, Status::invalid_namespace, out);
  fill(request.pages, encode(space->reservations->report()));
  const DataDescriptor& data = request.command.data;
  out.work.push(Write{request.pages, {data.address, data.bytes, data.key}});
  answer(request, Status::success, out);
}

}  // namespace verbatim::ulp::nvmeof
