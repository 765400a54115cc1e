// Any bytes as a SCSI command, its data's lengths and its parameters: a plan names blocks of the
// unit alone, and an answer is no longer than the room that the initiator and the CDB give it.
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/overloaded.h"
#include "input.h"
#include "ulp/scsi/alua/port_groups.h"
#include "ulp/scsi/logical_unit.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp::scsi;

constexpr std::uint64_t kBlocks = 1000;
constexpr std::uint32_t kBlock = 512;

UnitSettings settings(unsigned bits) {
  UnitSettings settings;
  settings.blocks = kBlocks;
  settings.block_bytes = kBlock;
  settings.ports = {1, 2};
  settings.unmap_ranges_max = 8;
  settings.has_write_cache = (bits & 1) != 0;
  settings.can_unmap = (bits & 2) != 0;
  settings.can_unmap_by_write_same = (bits & 4) != 0;
  settings.is_read_only = (bits & 8) != 0;
  settings.can_set_port_groups = (bits & 16) != 0;
  return settings;
}

/// Port 1 in a state of the input's, port 2 in a group that initiators may change.
std::shared_ptr<PortGroups> port_groups(unsigned state) {
  constexpr AccessState kStates[] = {AccessState::optimized, AccessState::standby,
                                     AccessState::unavailable, AccessState::offline};
  PortGroup one{.state = kStates[state % std::size(kStates)],
                .supported = 0xcf,
                .is_explicit = true,
                .ports = {{.port = 1}}};
  PortGroup two{.id = 5, .supported = 0xcf, .is_explicit = true, .ports = {{.port = 2}}};
  auto groups = std::make_shared<PortGroups>(std::span<const std::uint16_t>{});
  groups->set({std::move(one), std::move(two)});
  return groups;
}

void check_range(const ByteRange& range) {
  VERBATIM_ASSERT(range.bytes <= kBlocks * kBlock);
  VERBATIM_ASSERT(range.offset <= kBlocks * kBlock - range.bytes);
}

void check(const Plan& plan, const Command& command) {
  std::visit(Overloaded{
                 [&](const Answer& s) {
                   VERBATIM_ASSERT(s.data.size() <= command.data_in_bytes);
                   VERBATIM_ASSERT(s.sense.has_value() == (s.status == Status::check_condition));
                 },
                 [&](const ReadBlocks& s) {
                   VERBATIM_ASSERT(s.bytes <= command.data_in_bytes);
                   check_range({s.offset, s.bytes});
                 },
                 [&](const WriteBlocks& s) {
                   VERBATIM_ASSERT(s.bytes % kBlock == 0 && s.bytes <= command.data_out_bytes);
                   check_range({s.offset, s.bytes});
                 },
                 [&](const VerifyBlocks& s) { check_range({s.offset, s.bytes}); },
                 [](const SyncBlocks&) {},
                 [&](const ClearBlocks& s) {
                   for (std::size_t i = 0; i < s.ranges.size(); ++i) check_range(s.ranges[i]);
                 },
                 [&](const RepeatBlock& s) { check_range(s.range); },
                 [&](const CompareAndWrite& s) {
                   VERBATIM_ASSERT(2 * s.bytes <= command.data_out_bytes);
                   check_range({s.offset, s.bytes});
                 },
                 [&](const CopyBlocks& s) {
                   check_range({s.from_offset, s.bytes});
                   check_range({s.to_offset, s.bytes});
                 },
                 [&](const NeedsParameters& s) {
                   VERBATIM_ASSERT(s.bytes <= LogicalUnit::kMemoryBytes);
                   VERBATIM_ASSERT(s.bytes <= command.data_out_bytes);
                 },
             },
             plan.step);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  const unsigned bits = input.byte();
  LogicalUnit unit(ulp::storage::UnitId{1}, {.serial = "0123456789"}, settings(bits),
                   std::make_shared<Reservations>(), port_groups(bits >> 5));
  unit.on_login(NexusId{0}, {.name = "iqn.2026-01.test:0"});
  if ((input.byte() & 1) != 0) unit.set_blocks(kBlocks);
  const Port port{.device_name = "iqn.2026-01.test:t"};
  const Lun luns[] = {0, 1};
  std::array<std::byte, 20> cdb{};
  const std::size_t cdb_bytes = input.byte() % (cdb.size() + 1);
  Command command{.port = &port, .luns = luns};
  command.data_out_bytes = input.two();
  command.data_in_bytes = input.two();
  for (std::byte& byte : std::span(cdb).first(cdb_bytes))
    byte = static_cast<std::byte>(input.byte());
  command.cdb = std::span(cdb).first(cdb_bytes);

  std::array<std::byte, LogicalUnit::kMemoryBytes> memory{};
  const bool has_memory = LogicalUnit::needs_memory(command.cdb);
  const Plan plan = unit.plan(command, std::span(memory).first(has_memory ? memory.size() : 0));
  check(plan, command);
  check(plan_without_unit(command, memory), command);
  const auto* const needed = std::get_if<NeedsParameters>(&plan.step);
  if (needed == nullptr) return 0;
  for (std::byte& byte : std::span(memory).first(needed->bytes))
    byte = static_cast<std::byte>(input.byte());
  check(unit.with_parameters(command, std::span(memory).first(needed->bytes)), command);
  return 0;
}
