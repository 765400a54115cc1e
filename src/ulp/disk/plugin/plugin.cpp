// nbdkit's plugin: a disk of a storage target over RDMA, for all that knows NBD.
//
//   nbdkit verbatim iser://10.0.0.1/iqn.2026-01.com.example:disk/0
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define NBDKIT_API_VERSION 2
#include <fcntl.h>
#include <fmt/format.h>
#include <nbdkit-plugin.h>
#include <unistd.h>

#include "ulp/disk/disk_options.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace verbatim::ulp::disk {
namespace {

struct Plugin {
  DiskOptions options;
  std::string socket;  // Of `verbatim disk`, which has the URI printed.
  UniqueFd output;     // There.
  int sessions = 1;
  std::vector<std::unique_ptr<DiskThread>> disks;  // A session and a thread each.
  std::atomic<std::size_t> turn = 0;
};
std::unique_ptr<Plugin> plugin_state;

int fail(const std::string& text) {
  nbdkit_error("%s", text.c_str());
  return -1;
}

int set_sessions(const char* value) {
  int& sessions = plugin_state->sessions;
  if (nbdkit_parse_int("sessions", value, &sessions) != 0) return -1;
  constexpr int kMost = 16;
  if (sessions < 1 || sessions > kMost) return fail("sessions: 1 to 16");
  return 0;
}

/// nbdkit has /dev/null as its output by the time that it serves.
int set_socket(const char* value) {
  plugin_state->socket = value;
  plugin_state->output.reset(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  return plugin_state->output ? 0 : fail(fmt::format("output: {}", std::strerror(errno)));
}

void load() { plugin_state = std::make_unique<Plugin>(); }
void unload() { plugin_state.reset(); }

int config(const char* key, const char* value) {
  const std::string_view name = key;
  if (name == "sessions") return set_sessions(value);
  if (name == "socket") return set_socket(value);
  const auto is_known = plugin_state->options.set(name, value);
  if (!is_known) return fail(is_known.error().text);
  if (*is_known) return 0;
  return fail(
      fmt::format("'{}' is not known: url, initiator, host-id, auth, patience, sessions", name));
}

/// RFC 3986: what is not plain in a path is written as %20.
std::string in_uri(const std::string& path) {
  constexpr std::string_view kPlain = "-._~/!$'()*,;:@";
  std::string text;
  for (const char c : path) {
    const auto byte = static_cast<unsigned char>(c);
    const bool is_plain = (byte < 0x80 && std::isalnum(byte) != 0) || kPlain.contains(c);
    text += is_plain ? std::string(1, c) : fmt::format("%{:02X}", byte);
  }
  return text;
}

int config_complete() {
  DiskOptions& options = plugin_state->options;
  if (const auto complete = options.complete(); !complete) return fail(complete.error().text);
  if (plugin_state->sessions > 1 && options.urls.front().starts_with("srp"))
    return fail("sessions: an SRP target ends the older one of an initiator's two");
  if (!plugin_state->socket.empty())
    options.settings.uri = "nbd+unix:///?socket=" + in_uri(plugin_state->socket);
  return 0;
}

/// Threads do not survive the fork into the background.
int after_fork() {
  DiskOptions& options = plugin_state->options;
  for (int i = 0; i < plugin_state->sessions; ++i) {
    DiskSettings settings = options.settings;
    if (i > 0) {  // Another session of the same initiator; the first one is shown.
      options.identity.session += options.urls.size();
      settings.targets = *parse_paths(options.urls, options.identity);
      settings.name.clear();
    }
    auto disk = DiskThread::start(std::move(settings));
    if (!disk) return fail(disk.error().text);
    plugin_state->disks.push_back(std::move(*disk));
  }
  if (plugin_state->output) {
    dprintf(plugin_state->output.get(), "%s\n", options.settings.uri.c_str());
    plugin_state->output.reset();
  }
  return 0;
}

void cleanup() {
  plugin_state->disks.clear();
  if (!plugin_state->socket.empty()) unlink(plugin_state->socket.c_str());
}

const storage::DiskFacts& facts() { return plugin_state->disks.front()->facts(); }

void* open_disk(int) { return NBDKIT_HANDLE_NOT_NEEDED; }
std::int64_t get_size(void*) { return static_cast<std::int64_t>(facts().bytes); }

int block_size(void*, std::uint32_t* minimum, std::uint32_t* preferred, std::uint32_t* maximum) {
  constexpr std::uint32_t kPreferred = 4096, kMaximum = 32 << 20;
  *minimum = facts().block_bytes;
  *preferred = std::max(kPreferred, facts().block_bytes);
  *maximum = kMaximum;
  return 0;
}

int can_write(void*) { return facts().is_read_only ? 0 : 1; }
int can_flush(void*) { return 1; }
int can_fua(void*) { return facts().can_write_stable ? NBDKIT_FUA_NATIVE : NBDKIT_FUA_EMULATE; }
int can_trim(void*) { return facts().can_discard ? 1 : 0; }
int can_zero(void*) { return facts().can_write_zeroes ? 1 : 0; }
/// A flush is one of the disk, whichever session has written.
int can_multi_conn(void*) { return 1; }

int done(int error) {
  if (error == 0) return 0;
  nbdkit_set_error(error);
  return -1;
}

int ask(Ask& ask, std::uint32_t flags) {
  const bool is_write = ask.kind == Ask::Kind::write;
  const bool is_stable = (flags & NBDKIT_FLAG_FUA) != 0;
  ask.is_stable = is_write && is_stable;
  ask.may_discard = (flags & NBDKIT_FLAG_MAY_TRIM) != 0;
  DiskThread& disk = *plugin_state->disks[plugin_state->turn++ % plugin_state->disks.size()];
  int error = disk.ask(ask);
  if (error == 0 && is_stable && !is_write) {
    Ask flush{.kind = Ask::Kind::flush};
    error = disk.ask(flush);
  }
  return done(error);
}

int read(void*, void* data, std::uint32_t bytes, std::uint64_t offset, std::uint32_t flags) {
  Ask one{.kind = Ask::Kind::read,
          .offset = offset,
          .bytes = bytes,
          .data = static_cast<std::byte*>(data)};
  return ask(one, flags);
}

/// The disk does not change what is written.
int write(void*, const void* data, std::uint32_t bytes, std::uint64_t offset, std::uint32_t flags) {
  Ask one{.kind = Ask::Kind::write,
          .offset = offset,
          .bytes = bytes,
          .data = static_cast<std::byte*>(const_cast<void*>(data))};
  return ask(one, flags);
}

int flush(void*, std::uint32_t flags) {
  Ask one{.kind = Ask::Kind::flush};
  return ask(one, flags);
}

int trim(void*, std::uint32_t bytes, std::uint64_t offset, std::uint32_t flags) {
  Ask one{.kind = Ask::Kind::discard, .offset = offset, .bytes = bytes};
  return ask(one, flags);
}

int zero(void*, std::uint32_t bytes, std::uint64_t offset, std::uint32_t flags) {
  Ask one{.kind = Ask::Kind::write_zeroes, .offset = offset, .bytes = bytes};
  return ask(one, flags);
}

constexpr const char* kHelp =
    "[url=]URL            (required) iser://HOST[:PORT]/IQN/LUN or\n"
    "                     nvme://HOST[:PORT]/NQN/NSID; again: another path to this disk\n"
    "initiator=NAME       our IQN or NQN (default: this machine's)\n"
    "auth=FILE            CHAP: userid and password, each with its value in a line;\n"
    "                     userid_mutual and password_mutual: the target's\n"
    "sessions=N           how many, in a thread each (default: 1)\n"
    "patience=SECONDS     how long a lost target is waited for (default: 120)";

nbdkit_plugin make_plugin() {
  nbdkit_plugin plugin{};
  plugin.name = "verbatim";
  plugin.longname = "Verbatim's disks over RDMA";
  plugin.version = VERBATIM_VERSION;
  plugin.description = "A disk of an iSER or NVMe over Fabrics target";
  plugin.load = load;
  plugin.unload = unload;
  plugin.config = config;
  plugin.config_complete = config_complete;
  plugin.config_help = kHelp;
  plugin.magic_config_key = "url";
  plugin.after_fork = after_fork;
  plugin.cleanup = cleanup;
  plugin.open = open_disk;
  plugin.get_size = get_size;
  plugin.block_size = block_size;
  plugin.can_write = can_write;
  plugin.can_flush = can_flush;
  plugin.can_fua = can_fua;
  plugin.can_trim = can_trim;
  plugin.can_zero = can_zero;
  plugin.can_multi_conn = can_multi_conn;
  plugin.pread = read;
  plugin.pwrite = write;
  plugin.flush = flush;
  plugin.trim = trim;
  plugin.zero = zero;
  return plugin;
}

nbdkit_plugin plugin = make_plugin();

}  // namespace
}  // namespace verbatim::ulp::disk

using verbatim::ulp::disk::plugin;

#pragma GCC visibility push(default)
NBDKIT_REGISTER_PLUGIN(plugin)
#pragma GCC visibility pop
