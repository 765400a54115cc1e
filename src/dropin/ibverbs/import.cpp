#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dropin/ibverbs/calls.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/refusal.h"

/// Importing contexts, protection domains, regions and device memory by descriptor and handle.
/// Within a process everything is shared: one adapter serves all contexts. Another process that
/// imports the descriptor gets a context of the same node; objects are their process's own there.
namespace verbatim::dropin {
namespace {

/// What stands in the file behind `ibv_context::cmd_fd`.
struct CommandFile {
  static constexpr std::uint64_t kMagic = 0x76657262'61636d64;  // "verbacmd"
  std::uint64_t magic = kMagic;
  std::uint64_t node_guid = 0;
  std::int32_t process_id = 0;
};

Result<CommandFile> read_command_file(int fd) {
  CommandFile file{};
  if (pread(fd, &file, sizeof file, 0) != sizeof file || file.magic != CommandFile::kMagic) {
    return refuse(EINVAL,
                  fmt::format("descriptor {} is no cmd_fd of a context of this adapter", fd));
  }
  return file;
}

Result<void> check_exporter(const Context& context, const char* what, std::uint32_t handle) {
  if (context.exporter == getpid()) return {};
  return refuse(EOPNOTSUPP, fmt::format("{} {:#x} belongs to process {}: objects are shared within "
                                        "a process",
                                        what, handle, context.exporter));
}

Result<Context*> import_context(int fd) {
  const auto file = read_command_file(fd);
  if (!file) return std::unexpected(file.error());
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  Device* const device = count > 0 ? &from(list[0]) : nullptr;
  ibv_free_device_list(list);  // Devices stay.
  if (device == nullptr || device->node.guid != file->node_guid) {
    return refuse(EINVAL, "the context is of another node than this process");
  }
  return open_context(*device, UniqueFd(fd), file->process_id);
}

}  // namespace

Result<UniqueFd> make_command_file(const adapter::NodeDescription& node) {
  UniqueFd fd(memfd_create("verbatim-context", MFD_CLOEXEC));
  const CommandFile file{.node_guid = node.guid, .process_id = getpid()};
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
  if (auto ours = check_exporter(from(context), "protection domain", pd_handle); !ours) {
    return refused_null("import_pd", ours.error());
  }
  if (!from(context).adapter().has_pd(PdNumber{pd_handle})) {
    return refused_null("import_pd",
                        {ENOENT, fmt::format("there is no protection domain {}", pd_handle)});
  }
  auto* pd = new ProtectionDomain;
  pd->verbs = {.context = context, .handle = pd_handle};
  return &pd->verbs;
}

void ibv_unimport_pd(ibv_pd* pd) { delete &from(pd); }

ibv_mr* ibv_import_mr(ibv_pd* pd, std::uint32_t mr_handle) {
  if (auto ours = check_exporter(from(pd->context), "memory region", mr_handle); !ours) {
    return refused_null("import_mr", ours.error());
  }
  const auto region = from(pd->context).adapter().regions().find_region(MemoryKey{mr_handle});
  if (!region || region->pd != from(pd).number()) {
    return refused_null("import_mr", {ENOENT, fmt::format("the protection domain has no region "
                                                          "{:#010x}",
                                                          mr_handle)});
  }
  auto* mr = new MemoryRegion{.verbs = {.context = pd->context,
                                        .pd = pd,
                                        .length = region->length,
                                        .handle = mr_handle,
                                        .lkey = mr_handle,
                                        .rkey = mr_handle}};
  return &mr->verbs;
}

void ibv_unimport_mr(ibv_mr* mr) { delete &from(mr); }

ibv_dm* ibv_import_dm(ibv_context* context, std::uint32_t dm_handle) {
  if (auto ours = check_exporter(from(context), "device memory", dm_handle); !ours) {
    return refused_null("import_dm", ours.error());
  }
  if (const auto bytes = from(context).adapter().device_memory().find(dm_handle); !bytes) {
    return refused_null("import_dm", bytes.error());
  }
  return wrap_device_memory(context, dm_handle);
}

void ibv_unimport_dm(ibv_dm* dm) { delete &from(dm); }
