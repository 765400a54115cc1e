#include <algorithm>
#include <map>
#include <vector>

#include "ulp/nvmeof/admin_queue.h"

/// What the admin queue writes to its host.
namespace verbatim::ulp::nvmeof {
namespace {

constexpr const char* kModel = "Verbatim";
constexpr std::uint32_t kAllSpaces = 0xffffffff;

/// Eight characters of the release.
std::string_view firmware() { return std::string_view(VERBATIM_VERSION).substr(0, 8); }

/// Copies `from`, which stands at `at` of the whole, to where it lies in the pages, which begin at
/// `first` of the whole.
void copy_part(ByteSpan from, std::uint64_t at, std::uint64_t first, std::span<const Slice> pages) {
  std::uint64_t page_at = first;
  for (const Slice& page : pages) {
    const std::uint64_t begin = std::max(at, page_at);
    const std::uint64_t end = std::min(at + from.size(), page_at + page.bytes);
    if (begin < end)
      std::ranges::copy(from.subspan(begin - at, end - begin), page.data + (begin - page_at));
    page_at += page.bytes;
  }
}

}  // namespace

void AdminQueue::fill(const AdminCommand& command, std::span<const Slice> pages) const {
  if (command.opcode == AdminOpcode::identify) {
    std::array<std::byte, kIdentifyBytes> page{};
    fill_identify(command, page);
    return copy_part(page, 0, 0, pages);
  }
  if (command.opcode == AdminOpcode::get_features)
    return copy_part(controller_->host().host_id, 0, 0, pages);
  const LogRequest request = log_request_of(command);
  // An offset near 2^64 finds nothing but zeros.
  const std::uint64_t offset = std::min<std::uint64_t>(request.offset, std::uint64_t{1} << 62);
  std::array<std::byte, kLogBlockBytes> block{};
  for (std::uint64_t i = offset / kLogBlockBytes; i * kLogBlockBytes < offset + request.bytes;
       ++i) {
    fill_log_block(request, i, block);
    copy_part(block, i * kLogBlockBytes, offset, pages);
  }
}

void AdminQueue::fill_identify(const AdminCommand& command, IdentifyPage out) const {
  const Subsystem* const subsystem = controller_->subsystem();
  const std::uint32_t id = command.namespace_id;
  switch (static_cast<IdentifyKind>(command.dword(10) & 0xff)) {
    case IdentifyKind::controller:
      return fill_controller(out);
    case IdentifyKind::active_spaces:
      return fill_active_spaces(id, out);
    case IdentifyKind::space:
      if (const auto space = subsystem->find(id)) {
        const Reservations* const reservations = space->reservations;
        encode(
            SpaceData{.blocks = space->blocks,
                      .block_shift = space->block_shift,
                      .is_read_only = space->is_read_only,
                      .access_group = subsystem->tells_access() ? space->group : 0,
                      .uuid = subsystem->uuid_of(id),
                      .can_reserve = reservations != nullptr,
                      .reservations_last = reservations != nullptr && reservations->has_keeper()},
            out);
      }
      return;
    case IdentifyKind::space_descriptors:
      return encode_descriptors(subsystem->uuid_of(id), out);
    default:  // The NVM command set says nothing of its own.
      return;
  }
}

void AdminQueue::fill_controller(IdentifyPage out) const {
  const Subsystem* const subsystem = controller_->subsystem();
  const Limits& limits = controller_->limits();
  encode(
      ControllerData{
          .serial = subsystem == nullptr ? "0" : std::string_view(subsystem->serial()),
          .model = kModel,
          .firmware = firmware(),
          .subsystem = subsystem == nullptr ? kDiscoveryNqn : std::string_view(subsystem->nqn()),
          .id = controller_->id(),
          .type = subsystem == nullptr ? ControllerType::discovery : ControllerType::io,
          .async_events = kEventsMax,
          .commands = static_cast<std::uint16_t>(limits.queue_entries),
          .namespaces = subsystem == nullptr ? 0 : Subsystem::kNamespacesMax,
          .capsule_bytes = limits.capsule_bytes,
          .notices = subsystem == nullptr ? Notices::kOfDiscovery : Notices::kOfController,
          .error_entries = ErrorLog::kEntriesMax,
          .has_reservations = subsystem != nullptr && subsystem->has_reservations(),
          .access_groups =
              subsystem != nullptr && subsystem->tells_access() ? Subsystem::kAccessGroups : 0},
      out);
}

void AdminQueue::fill_active_spaces(std::uint32_t after, IdentifyPage out) const {
  std::size_t at = 0;
  for (const auto& [id, space] : controller_->subsystem()->ids_after(after)) {
    if (at == out.size()) return;
    store_le(&out[at], id);
    at += sizeof id;
  }
}

void AdminQueue::fill_log_block(const LogRequest& request, std::uint64_t block,
                                LogBlock out) const {
  const LogPage page = request.page;
  std::ranges::fill(out, std::byte{});
  if (page == LogPage::changed_spaces) return fill_changed_spaces(block, out);
  if (page == LogPage::access_states) return fill_access_states(request.only_groups, block, out);
  if (page == LogPage::discovery) return fill_discovery(block, out);
  if (page == LogPage::errors) return fill_errors(block, out);
  if (page == LogPage::effects)
    return encode_effects(block, controller_->subsystem()->has_reservations(), out);
  if (page == LogPage::reservations) {
    LogBlockWriter writer(block, out);
    return put_reservation(controller_->notices.reservation(), writer);
  }
  if (page == LogPage::health && block == 0) return encode_health(controller_->errors.count(), out);
  if (page == LogPage::firmware && block == 0) return encode_firmware(firmware(), out);
}

void AdminQueue::fill_errors(std::uint64_t block, LogBlock out) const {
  LogBlockWriter writer(block, out);
  for (const ErrorEntry& entry : controller_->errors.entries()) put_error(entry, writer);
}

/// More than fit: all of them (5.14.1.4).
void AdminQueue::fill_changed_spaces(std::uint64_t block, LogBlock out) const {
  const auto& changed = controller_->notices.changed_spaces();
  LogBlockWriter writer(block, out);
  if (changed.size() > kIdentifyBytes / 4) return writer.put(kAllSpaces);
  for (const std::uint32_t id : changed) writer.put(id);
}

/// Groups of the port, and those that only namespaces have.
void AdminQueue::fill_access_states(bool only_groups, std::uint64_t block, LogBlock out) const {
  const Subsystem& subsystem = *controller_->subsystem();
  const PortAccess* const port = subsystem.access_at(at_);
  std::map<std::uint32_t, std::vector<std::uint32_t>> groups{{1, {}}};
  if (port != nullptr)
    for (const auto& [group, state] : port->groups) groups[group];
  for (const auto& [id, space] : subsystem.ids_after(0)) groups[space.group].push_back(id);
  LogBlockWriter writer(block, out);
  const std::uint64_t changes = subsystem.access_changes();
  put_access_header(changes, static_cast<std::uint16_t>(groups.size()), writer);
  for (const auto& [group, spaces] : groups) {
    const auto count = only_groups ? 0 : static_cast<std::uint32_t>(spaces.size());
    put_access_group(group, count, changes, Subsystem::state_of(port, group), writer);
    for (const std::uint32_t id : std::span(spaces).first(count)) writer.put(id);
  }
}

void AdminQueue::fill_discovery(std::uint64_t block, LogBlock out) const {
  const auto entries = target_.admitted(controller_->host().host, at_);
  if (block == 0) return encode_discovery_header(target_.generation(), entries.size(), out);
  if (block <= entries.size())
    encode(DiscoveryEntry{.subsystem = entries[block - 1]->nqn(), .at = at_}, out);
}

}  // namespace verbatim::ulp::nvmeof
