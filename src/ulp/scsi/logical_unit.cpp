#include "ulp/scsi/logical_unit.h"

#include <algorithm>
#include <limits>

#include "base/assert.h"
#include "ulp/scsi/data/inquiry.h"
#include "ulp/scsi/data/mode_pages.h"
#include "ulp/scsi/data/reports.h"

namespace verbatim::ulp::scsi {

using storage::StoreStatus;

namespace {

/// The unit's bytes beside those that the initiator has described.
Residual residual_of(std::int64_t out, std::int64_t in, const Command& command) {
  return {out - command.data_out_bytes, in - command.data_in_bytes};
}

/// `written` cut to what the CDB allows and the initiator has room for.
Plan answer_with(const DataWriter& written, std::size_t allowed, const Command& command) {
  const std::size_t bytes = std::min(written.size(), allowed);
  const ByteSpan data = written.bytes();
  Answer answer{Status::good, {}, {}};
  answer.data = data.first(std::min({bytes, data.size(), std::size_t{command.data_in_bytes}}));
  return {answer, residual_of(0, static_cast<std::int64_t>(bytes), command)};
}

bool has_allocation_length(const Cdb& cdb) {
  return cdb.operation() != Operation::read_capacity_10;
}

std::optional<Sense> error_of(const std::expected<void, Sense>& written) {
  return written ? std::nullopt : std::optional(written.error());
}

void write_sense(const Cdb& cdb, const Sense& sense, DataWriter& out) {
  const auto format = cdb.has(1, 1) ? SenseFormat::descriptor : SenseFormat::fixed;
  for (const std::byte byte : encode(sense, format)) out.byte(std::to_integer<unsigned>(byte));
}

std::optional<Sense> refused_start_stop(const Cdb& cdb) {
  if (cdb.has(4, 0xf0)) return invalid_field(4, 7);   // A power condition.
  if (cdb.has(4, 0x02)) return invalid_field(4, 1);   // Load or eject.
  if (!cdb.has(4, 0x01)) return invalid_field(4, 0);  // Stop.
  return {};
}

/// As much as LIO's files take, so that sizes fit into 32 bits and a loan is bounded.
constexpr std::uint32_t kTransferBytesMax = 8u << 20;

}  // namespace

LogicalUnit::LogicalUnit(storage::UnitId unit, Identity identity, UnitSettings settings,
                         std::shared_ptr<Reservations> reservations,
                         std::shared_ptr<PortGroups> groups)
    : unit_(unit),
      identity_(std::move(identity)),
      settings_(std::move(settings)),
      reservations_(std::move(reservations)),
      groups_(groups != nullptr ? std::move(groups)
                                : std::make_shared<PortGroups>(settings_.ports)) {
  VERBATIM_ASSERT(settings_.blocks > 0 && settings_.block_bytes >= 512 &&
                  settings_.block_bytes <= kMemoryBytes / 2 && settings_.unmap_ranges_max <= 255);
  std::uint32_t& blocks_max = settings_.transfer_blocks_max;
  blocks_max = std::min(blocks_max, kTransferBytesMax / settings_.block_bytes);
  settings_.transfer_blocks_best = std::min(settings_.transfer_blocks_best, blocks_max);
  groups_->add(*this);
}

LogicalUnit::~LogicalUnit() {
  groups_->remove(*this);
  reservations_->on_gone(*this);
}

void LogicalUnit::on_access_changed(std::optional<NexusId> but) {
  if (but) return attentions_.tell_others(*but, Attention::access_state_changed);
  attentions_.tell_all(Attention::access_state_changed);
}

/// As LIO: descriptors if a block's number does not fit into fixed sense data.
SenseFormat LogicalUnit::sense_format() const {
  return settings_.blocks > std::numeric_limits<std::uint32_t>::max() ? SenseFormat::descriptor
                                                                      : SenseFormat::fixed;
}

void LogicalUnit::on_login(NexusId nexus, const InitiatorPort& port) {
  attentions_.on_login(nexus);
  reservations_->on_login({this, nexus}, port);
}

void LogicalUnit::on_gone(NexusId nexus) {
  attentions_.on_gone(nexus);
  reservations_->on_gone({this, nexus});
}

bool LogicalUnit::needs_memory(ByteSpan cdb) {
  if (cdb.size() < 2) return false;
  const auto* const format = find_format(std::to_integer<std::uint8_t>(cdb[0]),
                                         std::to_integer<std::uint8_t>(cdb[1] & std::byte{0x1f}));
  if (format == nullptr) return false;
  switch (format->operation) {
    case Operation::test_unit_ready:
    case Operation::start_stop:
    case Operation::read:
    case Operation::write:
    case Operation::write_and_verify:
    case Operation::synchronize_cache:
    case Operation::reserve:
    case Operation::release:
      return false;
    default:
      return true;
  }
}

Plan LogicalUnit::plan(const Command& command, MutableByteSpan reply) {
  const auto cdb = decode_cdb(command.cdb);
  const bool passes = cdb && (cdb->operation() == Operation::inquiry ||
                              cdb->operation() == Operation::report_luns ||
                              cdb->operation() == Operation::request_sense);
  if (!passes && attentions_.any(command.nexus)) return refused(attentions_.take(command.nexus));
  if (!cdb) return refused(cdb.error());
  if (!is_enabled(cdb->operation(), settings_))
    return refused(illegal_request(SenseCode::invalid_operation_code));
  if (groups_->restricts()) {
    if (const auto sense = groups_->refusal(command.port->id, cdb->operation()))
      return refused(*sense);
  }
  if (is_reserved(command.nexus, cdb->operation()))
    return {Answer{Status::reservation_conflict, {}, {}}, {}};
  return plan_of(*cdb, command, reply);
}

Plan LogicalUnit::plan_of(const Cdb& cdb, const Command& command, MutableByteSpan reply) {
  switch (cdb.operation()) {
    case Operation::test_unit_ready:
      return {Answer{}, residual_of(0, 0, command)};
    case Operation::start_stop:
      if (const auto sense = refused_start_stop(cdb)) return refused(*sense);
      return {Answer{}, residual_of(0, 0, command)};
    case Operation::reserve:
      return {reservations_->reserve({this, command.nexus}), residual_of(0, 0, command)};
    case Operation::release:
      return {reservations_->release({this, command.nexus}), residual_of(0, 0, command)};
    case Operation::read:
    case Operation::write:
    case Operation::write_and_verify:
    case Operation::verify:
    case Operation::synchronize_cache:
      return plan_blocks(cdb, command);
    case Operation::write_same:
      return plan_write_same(cdb, command);
    case Operation::compare_and_write:
      return plan_compare_and_write(cdb, command);
    case Operation::unmap:
    case Operation::mode_select:
    case Operation::persistent_reserve_out:
    case Operation::extended_copy:
    case Operation::set_port_groups:
      return plan_parameters(cdb, command);
    default:
      return plan_data(cdb, command, reply);
  }
}

Plan LogicalUnit::plan_data(const Cdb& cdb, const Command& command, MutableByteSpan reply) {
  DataWriter out(reply);
  if (const auto sense = write_data(cdb, command, out)) return refused(*sense);
  return answer_with(out, has_allocation_length(cdb) ? cdb.length : out.size(), command);
}

std::optional<Sense> LogicalUnit::write_data(const Cdb& cdb, const Command& command,
                                             DataWriter& out) {
  switch (cdb.operation()) {
    case Operation::inquiry: {
      const Inquired unit{identity_, settings_, *groups_, *command.port};
      if (cdb.has(1, 1))
        return write_vital_page(unit, cdb.bytes[2], out) ? std::nullopt
                                                         : std::optional(invalid_field(2, 7));
      if (cdb.bytes[2] != 0) return invalid_field(2, 7);
      return write_inquiry(unit, out), std::nullopt;
    }
    case Operation::request_sense:
      write_sense(cdb, attentions_.any(command.nexus) ? attentions_.take(command.nexus) : Sense{},
                  out);
      return {};
    case Operation::mode_sense:
      return error_of(write_mode_data(cdb, settings_, sense_format(), out));
    case Operation::read_capacity_10:
      return error_of(write_capacity_10(cdb, settings_, out));
    case Operation::read_capacity_16:
      return error_of(write_capacity_16(cdb, settings_, out));
    case Operation::report_luns:
      attentions_.forget(command.nexus, Attention::luns_changed);
      return error_of(write_luns(cdb, command.luns, out));
    case Operation::report_operation_codes:
      return error_of(write_operation_codes(cdb, settings_, out));
    case Operation::persistent_reserve_in:
      return reservations_->report(cdb, out), std::nullopt;
    case Operation::receive_copy_results:
      return write_copy_limits(out), std::nullopt;
    case Operation::report_port_groups:
      return groups_->report(cdb, command.port->id, out);
    default:
      return illegal_request(SenseCode::invalid_operation_code);
  }
}

Answer LogicalUnit::outcome(const Step& step, StoreStatus status) {
  const bool reads =
      std::holds_alternative<ReadBlocks>(step) || std::holds_alternative<VerifyBlocks>(step);
  switch (status) {
    case StoreStatus::done:
      return {};
    case StoreStatus::out_of_range:
      return refusal(illegal_request(SenseCode::block_address_out_of_range));
    case StoreStatus::no_space:
      return refusal({SenseKey::data_protect, SenseCode::space_allocation_failed, {}, {}});
    case StoreStatus::read_only:
      return refusal(write_protected());
    case StoreStatus::miscompare:
      return refusal({SenseKey::miscompare, SenseCode::miscompare_during_verify, {}, {}});
    case StoreStatus::not_supported:
      return refusal(illegal_request(SenseCode::invalid_operation_code));
    case StoreStatus::gone:
      return refusal(illegal_request(SenseCode::unit_not_supported));
    case StoreStatus::medium_error:
      break;
  }
  if (std::holds_alternative<CopyBlocks>(step))
    return refusal({SenseKey::copy_aborted, SenseCode::third_party_device_failure, {}, {}});
  return refusal({SenseKey::medium_error,
                  reads ? SenseCode::unrecovered_read_error : SenseCode::write_error,
                  {},
                  {}});
}

void LogicalUnit::set_blocks(std::uint64_t blocks) {
  VERBATIM_ASSERT(blocks > 0);
  settings_.blocks = blocks;
  attentions_.tell_all(Attention::capacity_changed);
}

bool LogicalUnit::is_locked(const ByteRange& range) const {
  return std::ranges::any_of(locked_, [&](const ByteRange& r) { return r.overlaps(range); });
}

bool LogicalUnit::lock(const ByteRange& range) {
  if (locked_.full() || is_locked(range)) return false;
  locked_.push(range);
  return true;
}

void LogicalUnit::unlock(const ByteRange& range) {
  ByteRange* const found = std::ranges::find(locked_, range);
  VERBATIM_ASSERT(found != locked_.end());
  *found = locked_.back();
  locked_.pop();
}

void LogicalUnit::condemn_all() {
  condemned_ += running_;
  running_ = 0;
  ++resets_;
}

void LogicalUnit::abort_tasks(NexusId of) {
  const auto index = static_cast<std::size_t>(of);
  if (index >= aborts_.size()) aborts_.resize(index + 1);
  ++aborts_[index];
}

/// Each initiator is told, also the one that asked (SAM-5, 6.3.3).
void LogicalUnit::reset(NexusId) {
  condemn_all();
  reservations_->on_reset();
  attentions_.tell_all(Attention::device_reset);
}

void LogicalUnit::clear_tasks(NexusId by) {
  condemn_all();
  attentions_.tell_others(by, Attention::commands_cleared);
}

Plan plan_without_unit(const Command& command, MutableByteSpan reply) {
  const Sense no_unit = illegal_request(SenseCode::unit_not_supported);
  const auto cdb = decode_cdb(command.cdb);
  if (!cdb) return refused(no_unit);
  DataWriter out(reply);
  switch (cdb->operation()) {
    case Operation::inquiry:
      if (cdb->has(1, 1) || cdb->bytes[2] != 0) return refused(invalid_field(1, 0));
      write_inquiry_of_no_unit(out);
      break;
    case Operation::report_luns:
      if (const auto written = write_luns(*cdb, command.luns, out); !written)
        return refused(written.error());
      break;
    case Operation::request_sense:
      write_sense(*cdb, no_unit, out);
      break;
    default:
      return refused(no_unit);
  }
  return answer_with(out, cdb->length, command);
}

}  // namespace verbatim::ulp::scsi
