#include "ulp/scsi/initiator/disk.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "ulp/scsi/initiator/received_sense.h"

namespace verbatim::ulp::scsi {
namespace {

constexpr std::uint8_t kForceUnitAccess = 0x08, kUnmap = 0x08;  // Byte 1 of WRITE, of WRITE SAME.
constexpr std::uint8_t kWriteProtected = 0x80, kHasFua = 0x10;  // MODE SENSE's byte 2.
constexpr std::uint8_t kUnmapsByWriteSame = 0x40;               // Byte 5 of page B2.
constexpr std::uint32_t kBlockBytesMax = 4096;

struct ErrorRow {
  SenseKey key{};
  int error = 0;
};
constexpr ErrorRow kErrors[] = {
    {SenseKey::no_sense, 0},
    {SenseKey{0x1}, 0},  // Recovered.
    {SenseKey::not_ready, EIO},
    {SenseKey::medium_error, EIO},
    {SenseKey::illegal_request, EINVAL},
    {SenseKey::unit_attention, EAGAIN},
    {SenseKey::data_protect, EROFS},
    {SenseKey::aborted_command, EAGAIN},
};

constexpr std::uint16_t kBecomesReady = 0x0401;

int error_of(const ReceivedSense& key) {
  if (key.code == raw(SenseCode::space_allocation_failed)) return ENOSPC;
  if (key.code == raw(SenseCode::invalid_operation_code)) return EOPNOTSUPP;
  if (key.code == kBecomesReady || PortAccess::is_refusal(key.code)) return EAGAIN;
  const auto row = std::ranges::find(kErrors, key.key, &ErrorRow::key);
  return row == std::end(kErrors) ? EIO : row->error;
}

DiskCommand inquiry(std::uint8_t page, std::uint8_t bytes) {
  DiskCommand command{.direction = DataDirection::from_target, .data_bytes = bytes};
  command.cdb[0] = std::byte{0x12};
  command.cdb[1] = std::byte{page == 0 ? std::uint8_t{0} : std::uint8_t{1}};
  command.cdb[2] = std::byte{page};
  command.cdb[4] = std::byte{bytes};
  return command;
}

std::string_view trimmed(ByteSpan bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (text.ends_with(' ') || text.ends_with('\0')) text.remove_suffix(1);
  return text;
}

}  // namespace

DiskCommand command_of(const storage::DiskRequest& request, const storage::DiskFacts& facts) {
  using Kind = storage::DiskRequest::Kind;
  DiskCommand command;
  const auto begin = [&](std::uint8_t opcode, std::uint8_t bits) {
    command.cdb[0] = std::byte{opcode};
    command.cdb[1] = std::byte{bits};
  };
  store_be(&command.cdb[2], request.offset / facts.block_bytes);
  store_be(&command.cdb[10], static_cast<std::uint32_t>(request.bytes / facts.block_bytes));
  switch (request.kind) {
    case Kind::read:
      begin(0x88, 0);
      command.direction = DataDirection::from_target;
      command.data_bytes = static_cast<std::uint32_t>(request.bytes);
      break;
    case Kind::write:
      begin(0x8a, request.is_stable && facts.can_write_stable ? kForceUnitAccess : std::uint8_t{0});
      command.direction = DataDirection::to_target;
      command.data_bytes = static_cast<std::uint32_t>(request.bytes);
      break;
    case Kind::flush:
      command.cdb = {};
      begin(0x91, 0);
      break;
    case Kind::discard:
    case Kind::write_zeroes:
      begin(0x93, request.kind == Kind::discard || (request.may_discard && facts.can_discard)
                      ? kUnmap
                      : std::uint8_t{0});
      command.direction = DataDirection::to_target;
      command.data_bytes = facts.block_bytes;
      command.is_zero_block = true;
      break;
  }
  return command;
}

int error_of(Status status, ByteSpan sense) {
  switch (status) {
    case Status::good:
      return 0;
    case Status::busy:
    case Status::task_set_full:
    case Status::task_aborted:
      return EAGAIN;
    case Status::reservation_conflict:
      return EPERM;
    case Status::check_condition:
      break;
  }
  const auto key = read_sense(sense);
  return status == Status::check_condition && key ? error_of(*key) : EIO;
}

std::string words_of(Status status, ByteSpan sense) {
  std::string text = fmt::format("status {:#04x}", raw(status));
  if (const auto key = read_sense(sense))
    text += fmt::format(", sense {:x}/{:04x}", raw(key->key), key->code);
  return text;
}

std::optional<DiskCommand> DiskProbe::command() const {
  DiskCommand command;
  switch (step_) {
    case Step::ready:
      break;  // TEST UNIT READY is all zeroes.
    case Step::identity:
      command = inquiry(0, 36);
      break;
    case Step::capacity:
      command = {.direction = DataDirection::from_target, .data_bytes = 32};
      command.cdb[0] = std::byte{0x9e};
      command.cdb[1] = std::byte{0x10};
      command.cdb[13] = std::byte{32};
      break;
    case Step::limits:
      command = inquiry(0xb0, 64);
      break;
    case Step::provisioning:
      command = inquiry(0xb2, 8);
      break;
    case Step::mode:
      command = {.direction = DataDirection::from_target, .data_bytes = 192};
      command.cdb[0] = std::byte{0x1a};
      command.cdb[2] = std::byte{0x3f};  // All pages: some units know no other.
      command.cdb[4] = std::byte{192};
      break;
    case Step::designators:
      command = inquiry(0x83, 255);
      break;
    case Step::access:
      command = PortAccess::command();
      break;
    case Step::units:
      command = {.direction = DataDirection::from_target, .data_bytes = kDataBytesMax};
      command.cdb[0] = std::byte{0xa0};
      store_be(&command.cdb[6], std::uint32_t{kDataBytesMax});
      break;
    case Step::done:
      return {};
  }
  if (failure_) return {};
  return command;
}

void DiskProbe::on_answer(Status status, ByteSpan sense, ByteSpan data) {
  const int error = error_of(status, sense);
  const auto key = read_sense(sense);
  const bool is_refused_here = key && PortAccess::is_refusal(key->code);
  if (error == EAGAIN && !is_refused_here && ++tries_ < kTries) return;  // The same again.
  if (key && key->code == raw(SenseCode::unit_not_supported))
    return fail("the target has no unit of this number", true);
  // A port in standby is ready for nothing, and tells all that is asked.
  const bool is_optional =
      (step_ >= Step::limits && step_ != Step::units) || (step_ == Step::ready && is_refused_here);
  if (error != 0 && !is_optional) {
    const bool is_wrong = error == EINVAL || error == EOPNOTSUPP;
    return fail("the unit refuses a first command: " + words_of(status, sense), is_wrong);
  }
  if (step_ == Step::access) access_.on_report(status, sense, data, 0);
  if (error == 0) take(data);
  const bool is_last = step_ == Step::units || (step_ == Step::designators && !access_.is_told());
  step_ = is_last ? Step::done : static_cast<Step>(static_cast<std::uint8_t>(step_) + 1);
}

void DiskProbe::take(ByteSpan data) {
  const auto byte = [&](std::size_t i) {
    return i < data.size() ? std::to_integer<std::uint8_t>(data[i]) : std::uint8_t{0};
  };
  switch (step_) {
    case Step::identity:
      return take_identity(data);
    case Step::capacity:
      return take_capacity(data);
    case Step::limits:
      return take_limits(data);
    case Step::units:
      return take_units(data);
    case Step::provisioning:
      facts_.can_discard = (byte(5) & kUnmapsByWriteSame) != 0 && facts_.can_write_zeroes;
      return;
    case Step::mode:
      facts_.is_read_only = (byte(2) & kWriteProtected) != 0;
      facts_.can_write_stable = (byte(2) & kHasFua) != 0;
      return;
    case Step::designators:
      return take_designators(data);
    case Step::ready:
    case Step::access:
    case Step::done:
      return;
  }
}

void DiskProbe::take_identity(ByteSpan data) {
  if (data.size() < 36) return fail("INQUIRY's answer is shorter than 36 bytes", true);
  const auto type = std::to_integer<unsigned>(data[0]);
  if (type >> 5 != 0) return fail("the target has no unit of this number", true);
  if (type != 0) return fail(fmt::format("the unit is of type {:#x}: a disk is 0", type), true);
  access_.take_identity(data);
  facts_.name = fmt::format("{} {} {}", trimmed(data.subspan(8, 8)), trimmed(data.subspan(16, 16)),
                            trimmed(data.subspan(32, 4)));
}

void DiskProbe::take_capacity(ByteSpan data) {
  if (data.size() < 12) return fail("READ CAPACITY's answer is shorter than 12 bytes", true);
  const auto last = load_be<std::uint64_t>(data.data());
  const auto block = load_be<std::uint32_t>(&data[8]);
  if (!std::has_single_bit(block) || block < 512 || block > kBlockBytesMax)
    return fail(fmt::format("blocks of {} bytes: we have 512 to {}", block, kBlockBytesMax), true);
  if (last >= (std::uint64_t{1} << 63) / block - 1)
    return fail(fmt::format("{} blocks are too many", last), true);
  facts_.block_bytes = block;
  facts_.bytes = (last + 1) * block;
  facts_.transfer_bytes_max = 1u << 30;
}

/// A list's length, 4 bytes, and units of 8 bytes each, whose numbers are in the first two (SAM-5,
/// 4.7.7: of peripheral devices, and flat).
void DiskProbe::take_units(ByteSpan data) {
  constexpr std::size_t kHead = 8, kUnit = 8;
  if (data.size() < kHead) return fail("REPORT LUNS' answer is shorter than 8 bytes", true);
  const std::size_t end =
      std::min<std::size_t>(data.size(), kHead + load_be<std::uint32_t>(data.data()));
  for (std::size_t at = kHead; at + kUnit <= end; at += kUnit)
    facts_.units.push_back(load_be<std::uint16_t>(&data[at]) & 0x3fff);
}

/// Page 83h: designators, of which one names the unit for all the world (SPC-4, 7.8.6). The first
/// of the best kind: NAA, EUI-64, a name, a vendor's. Another one names the port's group.
void DiskProbe::take_designators(ByteSpan data) {
  constexpr std::uint8_t kKinds[] = {0x3, 0x2, 0x8, 0x1}, kPortGroup = 0x15;
  const auto byte = [&](std::size_t i) { return std::to_integer<std::uint8_t>(data[i]); };
  std::ptrdiff_t best = std::ssize(kKinds);
  for (std::size_t at = 4; at + 4 <= data.size() && at + 4 + byte(at + 3) <= data.size();
       at += 4 + byte(at + 3)) {
    const bool is_of_unit = (byte(at + 1) >> 4 & 0x3) == 0;
    if ((byte(at + 1) & 0x3f) == kPortGroup && byte(at + 3) >= 4)
      access_.take_group(load_be<std::uint16_t>(&data[at + 6]));
    const auto kind = std::ranges::find(kKinds, byte(at + 1) & 0xf) - std::begin(kKinds);
    if (!is_of_unit || kind >= best) continue;
    best = kind;
    facts_.identity.clear();
    for (const std::byte one : data.subspan(at + 4, byte(at + 3)))
      facts_.identity += fmt::format("{:02x}", std::to_integer<unsigned>(one));
  }
}

/// Without the page: as much as one likes, and no zeroes by WRITE SAME.
void DiskProbe::take_limits(ByteSpan data) {
  const auto word = [&](std::size_t at) {
    return at + 4 <= data.size() ? load_be<std::uint32_t>(&data[at]) : 0;
  };
  constexpr std::uint64_t kBytesMax = 1 << 30;
  if (const std::uint64_t blocks = word(8); blocks != 0)
    facts_.transfer_bytes_max =
        static_cast<std::uint32_t>(std::min(blocks * facts_.block_bytes, kBytesMax));
  const std::uint64_t same = data.size() >= 44 ? load_be<std::uint64_t>(&data[36]) : 0;
  facts_.can_write_zeroes = same != 0;
  facts_.clear_bytes_max = std::min(same, kBytesMax / facts_.block_bytes) * facts_.block_bytes;
}

}  // namespace verbatim::ulp::scsi
