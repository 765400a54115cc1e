#include <algorithm>
#include <array>

#include "base/types.h"
#include "ulp/scsi/data/inquiry.h"
#include "ulp/scsi/logical_unit.h"

/// EXTENDED COPY (LID1) with one segment, from blocks to blocks, between units that the initiator
/// sees (SPC-4, 6.4 and 6.18).
namespace verbatim::ulp::scsi {
namespace {

// As Linux's target.
constexpr std::uint16_t kTargetsMax = 2, kSegmentsMax = 1;
constexpr std::uint32_t kDescriptorBytesMax = 1024;
constexpr std::uint32_t kSegmentBytesMax = 64u << 20;

constexpr std::size_t kHeader = 16, kTargetBytes = 32, kSegmentBytes = 28;
constexpr std::byte kIdentification{0xe4}, kBlocksToBlocks{0x02};

Answer not_reachable() {
  return refusal({SenseKey::copy_aborted, SenseCode::copy_target_not_reachable, {}, {}});
}

/// The unit whose NAA name is in an identification descriptor; null: the initiator sees none.
LogicalUnit* find_unit(LogicalUnit& unit, const Command& command, ByteSpan descriptor) {
  const auto is_named = [&](const LogicalUnit& one) {
    const auto name = name_of(one.identity());
    return descriptor[7] == std::byte{name.size()} &&
           std::ranges::equal(std::as_bytes(std::span(name)), descriptor.subspan(8, name.size()));
  };
  if (is_named(unit)) return &unit;
  if (command.units == nullptr) return nullptr;
  for (const Lun lun : command.luns) {
    LogicalUnit* const one = command.units->find(lun);
    if (one != nullptr && is_named(*one)) return one;
  }
  return nullptr;
}

/// Of a segment: blocks 2 at 10, source block 8 at 12, destination block 8 at 20; DC in byte 1 says
/// whose blocks are counted.
Step plan_segment(LogicalUnit& from, LogicalUnit& to, NexusId nexus, ByteSpan segment) {
  const std::uint32_t block = from.settings().block_bytes;
  if (to.settings().block_bytes != block) return not_reachable();
  const std::uint64_t blocks = load_be<std::uint16_t>(&segment[10]);
  const auto source = load_be<std::uint64_t>(&segment[12]);
  const auto target = load_be<std::uint64_t>(&segment[20]);
  const auto has = [&](const LogicalUnit& unit, std::uint64_t first) {
    return first <= unit.settings().blocks && blocks <= unit.settings().blocks - first;
  };
  if (!has(from, source) || !has(to, target)) return not_reachable();
  if (blocks * block > kSegmentBytesMax) return refusal(invalid_parameter(kHeader));
  if (to.settings().is_read_only) return refusal(write_protected());
  if (from.is_reserved(nexus, Operation::read) || to.is_reserved(nexus, Operation::write))
    return Answer{Status::reservation_conflict, {}, {}};
  if (to.is_locked({target * block, blocks * block})) return Answer{Status::busy, {}, {}};
  if (blocks == 0) return Answer{};
  return CopyBlocks{from.id(), to.id(), source * block, target * block, blocks * block};
}

}  // namespace

/// Header: list id 1, priority 1, bytes of target descriptors 2, reserved 4, bytes of segment
/// descriptors 4, of inline data 4.
Step LogicalUnit::plan_copy(const Command& command, ByteSpan parameters) {
  const Answer bad_length = refusal(illegal_request(SenseCode::parameter_list_length_error));
  if (parameters.size() < kHeader) return bad_length;
  const std::size_t targets = load_be<std::uint16_t>(&parameters[2]);
  const std::size_t segments = load_be<std::uint32_t>(&parameters[8]);
  if (targets + segments > kDescriptorBytesMax || kHeader + targets + segments > parameters.size())
    return bad_length;
  if (targets > kTargetsMax * kTargetBytes)
    return refusal(illegal_request(SenseCode::too_many_targets));
  if (segments > 0 && parameters[kHeader + targets] != kBlocksToBlocks)
    return refusal(illegal_request(SenseCode::unsupported_segment_type));
  if (segments > kSegmentsMax * kSegmentBytes)
    return refusal(illegal_request(SenseCode::too_many_segments));
  if (targets % kTargetBytes != 0 || segments % kSegmentBytes != 0) return bad_length;
  const std::size_t count = targets / kTargetBytes;
  std::array<LogicalUnit*, kTargetsMax> units{};
  for (std::size_t i = 0; i < count; ++i) {
    const ByteSpan descriptor = parameters.subspan(kHeader + i * kTargetBytes, kTargetBytes);
    if (descriptor[0] != kIdentification)
      return refusal(illegal_request(SenseCode::unsupported_target_type));
    units[i] = find_unit(*this, command, descriptor);
    if (units[i] == nullptr) return not_reachable();
  }
  if (segments == 0) return Answer{};
  const ByteSpan segment = parameters.subspan(kHeader + targets, kSegmentBytes);
  const std::size_t from = load_be<std::uint16_t>(&segment[4]);
  const std::size_t to = load_be<std::uint16_t>(&segment[6]);
  if (from >= count || to >= count) return not_reachable();
  return plan_segment(*units[from], *units[to], command.nexus, segment);
}

void LogicalUnit::write_copy_limits(DataWriter& out) {
  out.put<std::uint32_t>(0);
  out.byte(1);  // SNLID: a list without an identifier.
  out.zeros(3);
  out.put(kTargetsMax);
  out.put(kSegmentsMax);
  out.put(kDescriptorBytesMax);
  out.put(kSegmentBytesMax);
  out.zeros(14);              // No inline data, held data, streams.
  out.put<std::uint16_t>(1);  // Copies at a time, of all initiators that are counted, and of one.
  out.byte(1);
  out.byte(9);  // Granularity of segments: 512 bytes.
  out.zeros(5);
  out.byte(2);  // Types of descriptors.
  out.byte(std::to_integer<unsigned>(kBlocksToBlocks));
  out.byte(std::to_integer<unsigned>(kIdentification));
  out.set(0, static_cast<std::uint32_t>(out.size() - 4));
}

}  // namespace verbatim::ulp::scsi
