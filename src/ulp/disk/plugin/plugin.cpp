// nbdkit's plugin: a disk of a storage target over RDMA, for all that knows NBD.
//
//   nbdkit verbatim iser://10.0.0.1/iqn.2026-01.com.example:disk/0
#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#define NBDKIT_API_VERSION 2
#include <fcntl.h>
#include <fmt/format.h>
#include <nbdkit-plugin.h>
#include <unistd.h>

#include "ulp/disk/disk_thread.h"

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

namespace verbatim::ulp::disk {
namespace {

struct Plugin {
  std::vector<std::string> urls;  // A path each.
  std::string socket;             // Of `verbatim disk`, which has the URI printed.
  UniqueFd output;                // There.
  Identity identity = own_identity();
  DiskSettings settings;
  int sessions = 1;
  std::vector<std::unique_ptr<DiskThread>> disks;  // A session and a thread each.
  std::atomic<std::size_t> turn = 0;
};
std::unique_ptr<Plugin> plugin_state;

int fail(const std::string& text) {
  nbdkit_error("%s", text.c_str());
  return -1;
}

/// CHAP: "userid NAME" and "password SECRET", as LIO's files are named; with "_mutual" those of the
/// target.
int read_auth(const char* path) {
  std::ifstream file(path);
  if (!file) return fail(fmt::format("auth={}: {}", path, std::strerror(errno)));
  Identity& self = plugin_state->identity;
  const std::pair<std::string_view, std::string*> known[] = {
      {"userid", &self.credentials.user},
      {"password", &self.credentials.secret},
      {"userid_mutual", &self.target_proves.user},
      {"password_mutual", &self.target_proves.secret}};
  for (std::string key, value; file >> key && std::getline(file >> std::ws, value);) {
    const auto place = std::ranges::find(known, key, [](const auto& one) { return one.first; });
    if (place == std::end(known))
      return fail(fmt::format(
          "auth={}: '{}': userid, password, userid_mutual and password_mutual are known", path,
          key));
    *place->second = value;
  }
  if (self.credentials.empty())
    return fail(
        fmt::format("auth={}: no userid and password, each with its value in a line", path));
  return 0;
}

int set_patience(const char* value) {
  int seconds = 0;
  if (nbdkit_parse_int("patience", value, &seconds) != 0) return -1;
  if (seconds < 0) return fail("patience: seconds are not negative");
  plugin_state->settings.patience = seconds * kSecond;
  return 0;
}

int set_host_id(const char* value) {
  const auto id = parse_host_id(value);
  if (!id) return fail(fmt::format("host-id={}: a UUID is expected", value));
  plugin_state->identity.host_id = *id;
  return 0;
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
  if (name == "url") return plugin_state->urls.emplace_back(value), 0;
  if (name == "initiator")
    return plugin_state->identity.iqn = plugin_state->identity.nqn = value, 0;
  if (name == "host-id") return set_host_id(value);
  if (name == "auth") return read_auth(value);
  if (name == "patience") return set_patience(value);
  if (name == "sessions") return set_sessions(value);
  if (name == "name") return plugin_state->settings.name = value, 0;
  if (name == "socket") return set_socket(value);
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
  const std::vector<std::string>& urls = plugin_state->urls;
  if (urls.empty()) return fail("which disk? Say url=iser://HOST/IQN/LUN");
  auto targets = parse_paths(urls, plugin_state->identity);
  if (!targets) return fail(targets.error().text);
  if (plugin_state->sessions > 1 && urls.front().starts_with("srp"))
    return fail("sessions: an SRP target ends the older one of an initiator's two");
  plugin_state->settings.url = urls.front();
  if (!plugin_state->socket.empty())
    plugin_state->settings.uri = "nbd+unix:///?socket=" + in_uri(plugin_state->socket);
  plugin_state->settings.targets = std::move(*targets);
  return 0;
}

/// Threads do not survive the fork into the background.
int after_fork() {
  for (int i = 0; i < plugin_state->sessions; ++i) {
    DiskSettings settings = plugin_state->settings;
    if (i > 0) {  // Another session of the same initiator; the first one is shown.
      plugin_state->identity.session += plugin_state->urls.size();
      settings.targets = *parse_paths(plugin_state->urls, plugin_state->identity);
      settings.name.clear();
    }
    auto disk = DiskThread::start(std::move(settings));
    if (!disk) return fail(disk.error().text);
    plugin_state->disks.push_back(std::move(*disk));
  }
  if (plugin_state->output) {
    dprintf(plugin_state->output.get(), "%s\n", plugin_state->settings.uri.c_str());
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
