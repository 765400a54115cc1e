#include "dropin/ibverbs/program.h"

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string_view>
#include <utility>

#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/mman.h>

#include "adapter/ports/link_decorators.h"
#include "adapter/progress/progress.h"
#include "agent/client/locks.h"
#include "agent/protocol/node.h"
#include "base/log.h"
#include "dropin/ibverbs/fabric/fabric_end.h"

namespace verbatim::dropin {
namespace {

static_assert(adapter::kProgramQueuePairsMax == 1u << agent::kLocalQpnBits);
static_assert(port::kGidsMax >= arena::kNodeGidsMax);

/// The process's only global state: C entry points have no object that could have it. Never
/// destroyed, because threads of the program may call while the process exits.
struct Process {
  std::mutex lock;
  Program* program = nullptr;
};

Process& process() {
  static Process* const one = new Process;
  return *one;
}

// The lock is held across fork, so that the child finds it in a known state.
void before_fork() {
  Process& own = process();
  own.lock.lock();
  if (own.program != nullptr) own.program->adapter->before_fork();
}
void in_parent() {
  Process& own = process();
  if (own.program != nullptr) own.program->adapter->in_parent_after_fork();
  own.lock.unlock();
}

void in_child() {
  Process& own = process();
  if (Program* const parents = std::exchange(own.program, nullptr)) {
    // Not destroyed: its threads do not exist in the child, and the program may still have pointers
    // to its objects.
    parents->adapter->abandon_in_child();
    parents->client->close_in_child();
    if (parents->management) parents->management->close_in_child();
  }
  own.lock.unlock();
}

std::vector<int> sockets_by_gid(const agent::AgentClient& client) {
  const arena::Node node = client.node();
  const std::vector<int> by_address = client.sockets();
  std::vector<int> sockets;
  if (by_address.empty()) return sockets;  // On a fabric, or on a card's function.
  for (const arena::GidEntry& entry : node.gids) {
    sockets.push_back(by_address[node.index_of(entry.address)]);
  }
  return sockets;
}

void add_new_gids(const arena::Node& node, const std::vector<int>& sockets,
                  adapter::Adapter& adapter) {
  for (std::size_t i = adapter.port().gids().size(); i < node.gids.size(); ++i) {
    const auto added = adapter.add_gid(node.gids[i], sockets[node.index_of(node.gids[i].address)]);
    if (added) continue;
    log(LogLevel::warn, "no GID for a new address: {}", added.error().text);
    break;  // A later one would get this one's index.
  }
}

/// A port of RoCE or iWARP.
void follow(const arena::Node& node, const std::vector<int>& sockets, adapter::Adapter& adapter) {
  add_new_gids(node, sockets, adapter);
  // Over iWARP the port has one GID, without an address.
  adapter.port_events().change(adapter.port(),
                               {.gids = adapter.node().is_iwarp() ? 1 : gids_in_use(node),
                                .is_present = node.network.is_present,
                                .is_active = node.network.is_active,
                                .active_mtu = arena::active_mtu(node)});
}

enum class Path : std::uint8_t { automatic, direct, wire };

/// Valgrind puts its own libraries before others.
bool runs_under_valgrind() {
  const char* const preloaded = std::getenv("LD_PRELOAD");
  return preloaded != nullptr && std::string_view(preloaded).contains("/vgpreload_core");
}

/// Reads VERBATIM_PATH. EINVAL for an unknown value.
Result<Path> wanted_path() {
  const char* const path = std::getenv("VERBATIM_PATH");
  const std::string_view wanted = path != nullptr && *path != 0 ? path : "auto";
  // Valgrind cannot know what a peer writes into this program's memory, and has no room for the
  // peers' arenas.
  if (wanted == "auto") return runs_under_valgrind() ? Path::wire : Path::automatic;
  if (wanted == "direct") return Path::direct;
  if (wanted == "wire") return Path::wire;
  return refuse(EINVAL, fmt::format("VERBATIM_PATH={} is not auto, direct or wire", wanted));
}

/// Reads a variable in microseconds; returns `otherwise` if it is not set. EINVAL unless it is a
/// number up to a second.
Result<TimeNs> wanted_microseconds(const char* name, TimeNs otherwise) {
  const char* const variable = std::getenv(name);
  if (variable == nullptr || *variable == 0) return otherwise;
  const std::string_view wanted = variable;
  std::uint32_t microseconds = 0;
  const auto [end, failure] =
      std::from_chars(wanted.data(), wanted.data() + wanted.size(), microseconds);
  const TimeNs time = microseconds * kMicrosecond;
  if (failure == std::errc() && end == wanted.data() + wanted.size() && time <= kSecond) {
    return time;
  }
  return refuse(EINVAL,
                fmt::format("{}={} is no number of microseconds, 0 to 1000000", name, wanted));
}

/// Reads the variables that say how long something is waited for. EINVAL for an unknown value.
Result<void> read_waits(adapter::Membership& membership) {
  const auto busy_poll = wanted_microseconds("VERBATIM_BUSY_POLL", 0);
  if (!busy_poll) return std::unexpected(busy_poll.error());
  const auto rnr_grace = wanted_microseconds("VERBATIM_RNR_GRACE", adapter::kRnrGrace);
  if (!rnr_grace) return std::unexpected(rnr_grace.error());
  const char* const variable = std::getenv("VERBATIM_EARLY_RETRY");
  const std::string_view early = variable != nullptr && *variable != 0 ? variable : "on";
  if (early != "on" && early != "off") {
    return refuse(EINVAL, fmt::format("VERBATIM_EARLY_RETRY={} is not on or off", early));
  }
  membership.busy_poll = *busy_poll;
  membership.rnr_grace = *rnr_grace;
  membership.probes = early == "on";
  return {};
}

/// Creates the decorators of the adapter's links. Never destroyed, because a sender may be inside.
/// EINVAL if VERBATIM_FAULT is malformed.
Result<adapter::LinkDecorators*> decorate_links(adapter::Adapter& adapter) {
  auto decorators = std::make_unique<adapter::LinkDecorators>(
      adapter.ports(), adapter.progress(), adapter.arena().header().fault_counters);
  const char* const faults = std::getenv("VERBATIM_FAULT");
  if (faults != nullptr && *faults != 0) {
    if (const auto set = decorators->set_faults(faults); !set) {
      return refuse(set.error().code, fmt::format("VERBATIM_FAULT: {}", set.error().text));
    }
  }
  return decorators.release();
}

/// `verbatim capture` and `verbatim fault`. Returns the ring with what is captured.
Result<int> follow(const agent::LinkSettings& wanted, adapter::LinkDecorators& decorators) {
  if (!wanted.faults.empty()) {
    if (const auto set = decorators.set_faults(wanted.faults); !set) {
      log(LogLevel::warn, "faults '{}': {}", wanted.faults, set.error().text);
    }
  }
  if (wanted.capture != 0) return decorators.start_capture(wanted.capture);
  decorators.stop_capture();
  return -1;
}

/// Publishes what the programs of this machine need to find each other.
Result<void> open_to_peers(adapter::Membership& membership) {
  membership.doorbell.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!membership.doorbell) {
    return refuse(errno, fmt::format("eventfd: {}", std::strerror(errno)));
  }
  return {};
}

/// A host of a fabric, and a node on a card's function, have the direct path to their own programs
/// alone, which their own agents know: others are at the other end of a cable.
adapter::AskForPeer ask_for_peer(const arena::Node& own) {
  const bool has_sockets = own.has_sockets();
  return [own, name = has_sockets ? std::string() : std::string(own.name.view())](
             const SocketAddress& address, Qpn qpn) -> Result<adapter::PeerDescriptors> {
    const std::uint32_t slot = agent::slot_of(qpn);
    const auto is_own = [&](const SocketAddress& each) { return same_ip(each, address); };
    if (own.has_function() && std::ranges::none_of(own.addresses, is_own)) {
      return refuse(ENOENT, fmt::format("{} is reached by the node's function", address));
    }
    auto files =
        name.empty() ? agent::request_peer(address, slot) : agent::request_peer(name, slot);
    if (!files) return std::unexpected(files.error());
    return adapter::PeerDescriptors{std::move(files->arena), std::move(files->memory),
                                    std::move(files->doorbell)};
  };
}

Result<std::unique_ptr<Program>> join() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  const auto path = wanted_path();
  if (!path) return std::unexpected(path.error());
  adapter::Membership membership;
  if (auto read = read_waits(membership); !read) return std::unexpected(read.error());
  auto arena = adapter::Arena::create();
  if (!arena) return std::unexpected(arena.error());
  agent::SharedFiles files{.arena = (*arena)->fd()};
  membership.only_direct = *path == Path::direct;
  if (auto opened = open_to_peers(membership); !opened) return std::unexpected(opened.error());
  if (*path != Path::wire) {
    if (auto prepared = adapter::prepare_direct_path(membership); !prepared) {
      if (membership.only_direct) return std::unexpected(prepared.error());
      log(LogLevel::info, "the wire is taken everywhere: {}", prepared.error().text);
    }
  }
  const UniqueFd no_memory(memfd_create("verbatim-no-memory", MFD_CLOEXEC));
  files.memory = membership.memory ? membership.memory->fd() : no_memory.get();
  files.doorbell = membership.doorbell.get();
  auto client = agent::AgentClient::join(*options, files);
  if (!client) return std::unexpected(client.error());
  auto locks = agent::name_locks();
  if (!locks) return std::unexpected(locks.error());
  membership.locks = std::move(*locks);
  membership.node = (*client)->node();
  membership.first_qpn = agent::qpn_of((*client)->slot(), 0);
  membership.ask_for_peer = ask_for_peer(membership.node);
  if (membership.node.is_infiniband()) {
    if (auto joined = join_fabric(membership); !joined) return std::unexpected(joined.error());
  }
  if (membership.node.has_function()) {
    auto function = port::open_function(membership.node.function.view(), (*client)->slot(),
                                        agent::kLocalQpnBits, false);
    if (!function) return std::unexpected(function.error());
    membership.function = std::move(*function);
  }
  membership.receive_sockets = sockets_by_gid(**client);
  membership.event_fd = (*client)->fd();
  membership.on_event = [agent = client->get()] { agent->handle_event(); };
  auto adapter = adapter::Adapter::create(std::move(*arena), std::move(membership));
  if (!adapter) return std::unexpected(adapter.error());
  auto joined = std::make_unique<Program>();
  joined->client = std::move(*client);
  joined->adapter = std::move(*adapter);
  const arena::Node own = joined->client->node();
  joined->usage = std::make_unique<Usage>(own.limits, own.enforces_memlock);
  joined->firmware = own.firmware.view();
  const auto decorators = decorate_links(*joined->adapter);
  if (!decorators) return std::unexpected(decorators.error());
  joined->client->set_port_listener(
      [program = joined.get(), decorators = *decorators, before = joined->adapter->node().network](
          const arena::Node& node, const std::vector<int>& sockets) mutable {
        if (node.is_infiniband()) {
          follow_fabric(before, node.network, *program->adapter);
          before = node.network;
        } else {
          follow(node, sockets, *program->adapter);
        }
        decorators->follow_ports();
      });
  joined->client->set_link_listener([decorators = *decorators](const agent::LinkSettings& wanted) {
    return follow(wanted, *decorators);
  });
  return joined;
}

const Program* current_program() {
  Process& own = process();
  const std::lock_guard guard(own.lock);
  return own.program;
}

}  // namespace

std::uint32_t gids_in_use(const arena::Node& node) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < node.gids.size(); ++i) {
    if (node.is_valid(node.gids[i])) bits |= 1u << i;
  }
  return bits;
}

[[gnu::destructor]] static void at_exit() {
  Process& own = process();
  // Another thread may hold the lock and never run again; exit does not wait for it.
  const std::unique_lock guard(own.lock, std::try_to_lock);
  if (guard && own.program != nullptr) own.program->adapter->progress().finish_turn();
}

Result<Program*> program() {
  Process& own = process();
  static const int registered = pthread_atfork(before_fork, in_parent, in_child);
  if (registered != 0) return refuse(registered, "pthread_atfork found no memory");
  const std::lock_guard guard(own.lock);
  if (own.program == nullptr) {
    auto joined = join();
    if (!joined) return std::unexpected(joined.error());
    own.program = joined->release();
  }
  return own.program;
}

Result<void> open_management(Program& program) {
  const std::lock_guard guard(process().lock);
  if (program.management || !program.client->node().is_infiniband()) return {};
  auto opened = FabricManagement::open(program.client->node());
  if (!opened) return std::unexpected(opened.error());
  if (auto started = (*opened)->start(program.adapter->progress()); !started) return started;
  program.management = std::move(*opened);
  return {};
}

Result<arena::Node> agent_node() {
  // Without the lock: handlers of the agent's messages take it.
  if (const Program* const joined = current_program()) return joined->client->node();
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  return agent::start_node(*options);
}

}  // namespace verbatim::dropin
