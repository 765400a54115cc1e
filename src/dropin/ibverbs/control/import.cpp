#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "adapter/direct/imported_memory.h"
#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Imports contexts, protection domains, regions and device memory by descriptor and handle. Within
/// a process objects are shared: one adapter serves all contexts, and an import is the object
/// itself. If another process imports the descriptor, it gets a new context, whose imported objects
/// access the exporter's memory (adapter/direct/imported_memory.h).
namespace verbatim::dropin {
namespace {

/// Content of the file behind `ibv_context::cmd_fd`.
struct CommandFile {
  static constexpr std::uint64_t kMagic = 0x76657262'61636d64;  // "verbacmd"
  std::uint64_t magic = kMagic;
  std::uint64_t node_guid = 0;
  std::int32_t process_id = 0;
  std::uint32_t first_qpn = 0;
};

Result<CommandFile> read_command_file(int fd) {
  CommandFile file{};
  if (pread(fd, &file, sizeof file, 0) != sizeof file || file.magic != CommandFile::kMagic) {
    return refuse(EINVAL,
                  fmt::format("descriptor {} is no cmd_fd of a context of this adapter", fd));
  }
  return file;
}

bool is_ours(const Context& context) { return context.exporter.process_id == getpid(); }

Result<Context*> import_context(int fd) {
  const auto file = read_command_file(fd);
  if (!file) return std::unexpected(file.error());
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Device* const device = count > 0 ? &from(list[0]) : nullptr;
  ibv_free_device_list(list);  // Devices outlive the list.
  if (device == nullptr || device->node.guid != file->node_guid) {
    return refuse(EINVAL, "the context is of another node than this process");
  }
  return open_context(*device, UniqueFd(fd), {file->process_id, Qpn(file->first_qpn)});
}

/// Imports domain `there` and returns its number in this adapter.
Result<PdNumber> import_domain(const Context& context, PdNumber there) {
  adapter::Adapter& adapter = context.adapter();
  if (!is_ours(context)) return adapter.imports().import_pd(context.exporter.first_qpn, there);
  if (adapter.memory().has_pd(there)) return there;
  return refuse(ENOENT, fmt::format("there is no protection domain {}", raw(there)));
}

Result<region::Region> import_memory(const ProtectionDomain& pd, MemoryKey key, bool is_imported) {
  adapter::Adapter& adapter = from(pd.verbs.context).adapter();
  if (is_imported) return adapter.imports().import_memory(pd.number(), key);
  const auto region = adapter.regions().find_region(key);
  if (region && region->pd == pd.number()) return *region;
  return refuse(ENOENT, fmt::format("the protection domain has no region {:#010x}", raw(key)));
}

}  // namespace

Result<UniqueFd> make_command_file(const adapter::Adapter& adapter) {
  UniqueFd fd(memfd_create("verbatim-context", MFD_CLOEXEC));
  const CommandFile file{.node_guid = adapter.node().guid,
                         .process_id = getpid(),
                         .first_qpn = adapter.membership().first_qpn.value()};
  if (!fd || pwrite(fd.get(), &file, sizeof file, 0) != sizeof file) {
    return refuse(errno, fmt::format("no descriptor for the context: {}", std::strerror(errno)));
  }
  return fd;
}

}  // namespace verbatim::dropin

using namespace verbatim;
using namespace verbatim::dropin;

ibv_context* ibv_import_device(int cmd_fd) {
  const auto context = import_context(cmd_fd);
  if (!context) return refused_null("import_device", context.error());
  return &(*context)->verbs.context;
}

ibv_pd* ibv_import_pd(ibv_context* context, std::uint32_t pd_handle) {
  const auto number = import_domain(from(context), PdNumber{pd_handle});
  if (!number) return refused_null("import_pd", number.error());
  auto* pd = new ProtectionDomain;
  pd->verbs = {.context = context, .handle = raw(*number)};
  return &pd->verbs;
}

void ibv_unimport_pd(ibv_pd* pd) {
  if (adapter::Adapter& adapter = from(pd->context).adapter();
      adapter.memory().is_imported(from(pd).number())) {
    adapter.memory().unimport_pd(from(pd).number());
  }
  delete &from(pd);
}

ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t mr_handle) {
  const bool is_imported = from(pd->context).adapter().memory().is_imported(from(pd).number());
  const auto region = import_memory(from(pd), MemoryKey{mr_handle}, is_imported);
  if (!region) return refused_null("import_mr", region.error());
  auto* mr = new MemoryRegion{.verbs = {.context = pd->context,
                                        .pd = pd,
                                        .length = region->length,
                                        .handle = mr_handle,
                                        .lkey = mr_handle,
                                        .rkey = mr_handle},
                              .is_imported = is_imported};
  return &mr->verbs;
}

void ibv_unimport_mr(ibv_mr* mr) {
  MemoryRegion& own = from(mr);
  if (own.is_imported) from(mr->context).adapter().imports().unimport_memory(MemoryKey{mr->lkey});
  delete &own;
}

ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t dm_handle) {
  const Context& own = from(context);
  adapter::Adapter& adapter = own.adapter();
  const auto bytes =
      is_ours(own) ? adapter.imports().device_memory().find(dm_handle)
                   : adapter.imports().import_device_memory(own.exporter.first_qpn, dm_handle);
  if (!bytes) return refused_null("import_dm", bytes.error());
  ibv_dm* const dm = wrap_device_memory(context, dm_handle);
  if (!is_ours(own)) from(dm).imported = *bytes;
  return dm;
}

void ibv_unimport_dm(ibv_dm* dm) {
  DeviceBuffer& own = from(dm);
  if (!own.imported.empty()) {
    const auto first = reinterpret_cast<std::uint64_t>(own.imported.data());
    adapter::ImportedMemory::of_process().remove(first);
  }
  delete &own;
}
