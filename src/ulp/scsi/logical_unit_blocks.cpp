#include <algorithm>

#include "ulp/scsi/data/mode_pages.h"
#include "ulp/scsi/logical_unit.h"

/// The commands that name blocks (SBC-3), and those whose parameters the initiator sends.
namespace verbatim::ulp::scsi {

namespace {

constexpr std::uint8_t kProtect = 0xe0, kDpo = 0x10, kFua = 0x08;  // Byte 1.
constexpr std::uint8_t kByteCheck = 0x06;                          // VERIFY, WRITE AND VERIFY.
// WRITE SAME. PBDATA and LBDATA are obsolete.
constexpr std::uint8_t kAnchor = 0x10, kUnmap = 0x08, kObsolete = 0x06, kNoData = 0x01;
constexpr std::uint8_t kWriteSame16 = 0x93;

bool writes(Operation operation) {
  return operation == Operation::write || operation == Operation::write_and_verify;
}

}  // namespace

ByteRange LogicalUnit::range_of(const Cdb& cdb) const {
  return {cdb.address * settings_.block_bytes, std::uint64_t{cdb.length} * settings_.block_bytes};
}

std::optional<Sense> LogicalUnit::refused_range(const Cdb& cdb, std::uint32_t blocks_max) const {
  if (cdb.address > settings_.blocks || cdb.length > settings_.blocks - cdb.address)
    return illegal_request(SenseCode::block_address_out_of_range);
  if (cdb.length > blocks_max) return invalid_field(cdb.format->length_at, 7);
  return {};
}

/// Protection is not offered; DPO and FUA only with a write cache, as the mode header's DPOFUA
/// says.
std::optional<Sense> LogicalUnit::refused_flags(const Cdb& cdb) const {
  if (cdb.format->bytes == 6 || cdb.operation() == Operation::synchronize_cache) return {};
  if (cdb.has(1, kProtect)) return invalid_field(1, 7);
  const bool checks =
      cdb.operation() == Operation::verify || cdb.operation() == Operation::write_and_verify;
  if (!settings_.has_write_cache && cdb.has(1, kDpo)) return invalid_field(1, 4);
  if (!checks && !settings_.has_write_cache && cdb.has(1, kFua)) return invalid_field(1, 3);
  // A comparison with one block for all (3) is not offered; 2 is reserved.
  if (checks && (cdb.bytes[1] & kByteCheck) > 2) return invalid_field(1, 2);
  return {};
}

Plan LogicalUnit::plan_blocks(const Cdb& cdb, const Command& command) {
  if (const auto sense = refused_flags(cdb)) return refused(*sense);
  const bool syncs = cdb.operation() == Operation::synchronize_cache;
  if (const auto sense = refused_range(cdb, syncs ? ~0u : settings_.transfer_blocks_max))
    return refused(*sense);
  const Residual nothing{-std::int64_t{command.data_out_bytes},
                         -std::int64_t{command.data_in_bytes}};
  if (syncs) return {SyncBlocks{}, nothing};

  const ByteRange range = range_of(cdb);
  const auto all = static_cast<std::uint32_t>(range.bytes);
  const auto whole = static_cast<std::int64_t>(all);
  if (cdb.operation() == Operation::read) {
    const Residual residual{nothing.out, whole + nothing.in};
    const std::uint32_t bytes = std::min(all, command.data_in_bytes);
    if (bytes == 0) return {Answer{}, residual};
    return {ReadBlocks{range.offset, bytes}, residual};
  }
  const bool compares = cdb.has(1, kByteCheck) && !writes(cdb.operation());
  if (cdb.operation() == Operation::verify && !compares) {
    if (all == 0) return {Answer{}, nothing};
    return {VerifyBlocks{range.offset, all, false}, nothing};
  }
  if (writes(cdb.operation()) && settings_.is_read_only) return refused(write_protected());
  const Residual residual{whole + nothing.out, nothing.in};
  const std::uint32_t bytes = std::min(all, command.data_out_bytes);
  // Not even whole blocks: nothing is written.
  if (bytes % settings_.block_bytes != 0)
    return {refusal(illegal_request(SenseCode::invalid_field_in_information_unit)), residual};
  if (bytes == 0) return {Answer{}, residual};
  if (compares) return {VerifyBlocks{range.offset, bytes, true}, residual};
  if (is_locked({range.offset, bytes})) return {Answer{Status::busy, {}, {}}, {}};
  const bool verifies = cdb.operation() == Operation::write_and_verify;
  return {WriteBlocks{range.offset, bytes, verifies || (cdb.format->bytes > 6 && cdb.has(1, kFua)),
                      verifies},
          residual};
}

Plan LogicalUnit::plan_write_same(const Cdb& cdb, const Command& command) {
  if (cdb.has(1, kProtect)) return refused(invalid_field(1, 7));
  if (cdb.has(1, kAnchor)) return refused(invalid_field(1, 4));
  if (cdb.has(1, kObsolete)) return refused(invalid_field(1, 2));
  if (cdb.has(1, kUnmap) && !settings_.can_unmap_by_write_same) return refused(invalid_field(1, 3));
  const bool no_data = cdb.bytes[0] == kWriteSame16 && cdb.has(1, kNoData);
  // WSNZ: to the end of the unit is not offered.
  if (cdb.length == 0) return refused(invalid_field(cdb.format->length_at, 7));
  if (const auto sense = refused_range(cdb, settings_.write_same_blocks_max))
    return refused(*sense);
  if (settings_.is_read_only) return refused(write_protected());
  const ByteRange range = range_of(cdb);
  if (is_locked(range)) return {Answer{Status::busy, {}, {}}, {}};
  const std::int64_t wanted = no_data ? 0 : settings_.block_bytes;
  const Residual residual{wanted - command.data_out_bytes, -std::int64_t{command.data_in_bytes}};
  if (residual.out != 0)
    return {refusal(illegal_request(SenseCode::invalid_field_in_information_unit)), residual};
  if (no_data) return {ClearBlocks{Ranges(range), cdb.has(1, kUnmap)}, residual};
  return {RepeatBlock{range, settings_.block_bytes, cdb.has(1, kUnmap)}, residual};
}

/// One block at most, as LIO and the block limits page say.
Plan LogicalUnit::plan_compare_and_write(const Cdb& cdb, const Command& command) {
  if (const auto sense = refused_flags(cdb)) return refused(*sense);
  if (const auto sense = refused_range(cdb, 1)) return refused(*sense);
  if (settings_.is_read_only) return refused(write_protected());
  const ByteRange range = range_of(cdb);
  const auto half = static_cast<std::uint32_t>(range.bytes);
  const Residual residual{std::int64_t{2} * half - command.data_out_bytes,
                          -std::int64_t{command.data_in_bytes}};
  // As iscsi-test-cu wants it: 256 blocks, of which the CDB's byte has 0.
  if (residual.out != 0) return {refusal(invalid_field(cdb.format->length_at, 7)), residual};
  if (half == 0) return {Answer{}, residual};
  return {CompareAndWrite{range.offset, half, cdb.has(1, kFua)}, residual};
}

Plan LogicalUnit::plan_parameters(const Cdb& cdb, const Command& command) {
  if (cdb.operation() == Operation::unmap) {
    if (cdb.has(1, 0x01)) return refused(invalid_field(1, 0));  // Anchor.
    if (settings_.is_read_only) return refused(write_protected());
  } else if (cdb.operation() == Operation::mode_select) {
    if (!cdb.has(1, 0x10) && cdb.length > 0) return refused(invalid_field(1, 4));  // PF.
    if (cdb.has(1, 0x01)) return refused(invalid_field(1, 0));  // Nothing can be saved.
  }
  if (cdb.length > command.data_out_bytes)
    return {refusal(invalid_field(cdb.format->length_at, 7)), {}};
  const Residual residual{std::int64_t{cdb.length} - command.data_out_bytes,
                          -std::int64_t{command.data_in_bytes}};
  const bool reserves = cdb.operation() == Operation::persistent_reserve_out;
  if (cdb.length == 0 && !reserves) return {Answer{}, residual};
  if (cdb.length == 0 || cdb.length > kMemoryBytes)
    return refused(illegal_request(SenseCode::parameter_list_length_error));
  return {NeedsParameters{cdb.length}, residual};
}

Plan LogicalUnit::with_parameters(const Command& command, ByteSpan parameters) {
  const auto cdb = decode_cdb(command.cdb);
  if (!cdb) return refused(cdb.error());
  const Residual residual{std::int64_t{cdb->length} - command.data_out_bytes,
                          -std::int64_t{command.data_in_bytes}};
  if (cdb->operation() == Operation::unmap) return {unmap(*cdb, parameters), residual};
  if (cdb->operation() == Operation::extended_copy)
    return {plan_copy(command, parameters), residual};
  if (cdb->operation() == Operation::persistent_reserve_out)
    return {reservations_->change({this, command.nexus}, *cdb, parameters), residual};
  if (cdb->operation() == Operation::set_port_groups)
    return {groups_->change({this, command.nexus, command.port->id}, parameters), residual};
  if (const auto sense = refused_mode_parameters(*cdb, settings_, sense_format(), parameters))
    return refused(*sense);
  return {Answer{}, residual};
}

/// SBC-3, 5.28: length 2, length of the descriptors 2, reserved 4, descriptors.
Step LogicalUnit::unmap(const Cdb&, ByteSpan parameters) const {
  constexpr std::size_t kHeader = 8;
  if (parameters.size() < kHeader)
    return refusal(illegal_request(SenseCode::parameter_list_length_error));
  const std::size_t described = load_be<std::uint16_t>(&parameters[2]);
  const std::size_t count = std::min(described, parameters.size() - kHeader) / 16;
  if (count > settings_.unmap_ranges_max) return refusal(invalid_parameter(2));
  const Ranges ranges(parameters.subspan(kHeader, 16 * count), settings_.block_bytes);
  std::uint64_t all = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const at = &parameters[kHeader + 16 * i];
    const auto address = load_be<std::uint64_t>(at);
    const auto blocks = load_be<std::uint32_t>(at + 8);
    if (address > settings_.blocks || blocks > settings_.blocks - address)
      return refusal(illegal_request(SenseCode::block_address_out_of_range));
    all += blocks;
    if (all > settings_.unmap_blocks_max)
      return refusal(invalid_parameter(static_cast<std::uint16_t>(kHeader + 16 * i + 8)));
    if (is_locked(ranges[i])) return Answer{Status::busy, {}, {}};
  }
  if (count == 0) return Answer{};
  return ClearBlocks{ranges, true};
}

}  // namespace verbatim::ulp::scsi
