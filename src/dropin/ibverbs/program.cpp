#include "dropin/ibverbs/program.h"

#include <mutex>
#include <utility>

#include <pthread.h>

#include "adapter/progress.h"
#include "agent/node.h"

namespace verbatim::dropin {
namespace {

static_assert(adapter::kProgramQueuePairsMax == 1u << agent::kLocalQpnBits);

/// The one piece of state that belongs to the process: C entry points have no object to hold it.
/// Never destroyed, since threads of the program may call us while the process exits.
struct Process {
  std::mutex lock;
  Program* program = nullptr;
};

Process& process() {
  static Process* const one = new Process;
  return *one;
}

// The lock is held across fork, so that the child finds it in a known state.
void before_fork() { process().lock.lock(); }
void in_parent() { process().lock.unlock(); }

void in_child() {
  Process& own = process();
  if (Program* const parents = std::exchange(own.program, nullptr)) {
    // Not destroyed: its threads are gone, and the program may still hold objects of it.
    parents->adapter->abandon_in_child();
    parents->client->close_in_child();
  }
  own.lock.unlock();
}

adapter::NodeDescription describe(const agent::NodeDescription& node) {
  adapter::NodeDescription own{.name = node.name,
                               .guid = node.guid,
                               .mac = node.mac,
                               .interface = node.interface,
                               .interface_index = node.interface_index,
                               .active_mtu = node.active_mtu};
  for (const agent::GidEntry& entry : node.gids) {
    own.gids.push_back({.gid = entry.gid, .address = node.address_of(entry)});
  }
  return own;
}

void follow(const agent::NodeDescription& node, const agent::PortState& now,
            adapter::Adapter& adapter) {
  adapter.port().change(
      {.gids = gids_in_use(node, now), .is_present = now.is_present, .is_active = now.is_active});
}

Result<std::unique_ptr<Program>> join() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  auto arena = adapter::Arena::create();
  if (!arena) return std::unexpected(arena.error());
  auto client = agent::AgentClient::join(*options, {.arena = (*arena)->fd()});
  if (!client) return std::unexpected(client.error());

  auto adapter = adapter::Adapter::create(
      std::move(*arena), {.node = describe((*client)->node()),
                          .first_qpn = agent::qpn_of((*client)->slot(), 0),
                          .receive_sockets = (*client)->sockets(),
                          .event_fd = (*client)->fd(),
                          .on_event = [agent = client->get()] { agent->handle_event(); }});
  if (!adapter) return std::unexpected(adapter.error());
  auto joined = std::make_unique<Program>();
  joined->client = std::move(*client);
  joined->adapter = std::move(*adapter);
  joined->client->set_port_listener([own = joined.get()](const agent::PortState& now) {
    follow(own->client->node(), now, *own->adapter);
  });
  return joined;
}

const Program* current_program() {
  Process& own = process();
  const std::lock_guard guard(own.lock);
  return own.program;
}

}  // namespace

std::uint32_t gids_in_use(const agent::NodeDescription& node, const agent::PortState& port) {
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < node.gids.size(); ++i) {
    if (port.has(node.gids[i].address)) bits |= 1u << i;
  }
  return bits;
}

[[gnu::destructor]] static void at_exit() {
  Process& own = process();
  // Another thread may hold the lock and never run again: exit does not wait for it.
  const std::unique_lock guard(own.lock, std::try_to_lock);
  if (guard && own.program != nullptr) own.program->adapter->progress().settle();
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

Result<agent::NodeDescription> agent_node() {
  // Not under the lock: handlers of the agent's messages take it.
  if (const Program* const joined = current_program()) {
    agent::NodeDescription now = joined->client->node();
    now.port = joined->client->port();
    return now;
  }
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  return agent::start_node(*options);
}

Result<adapter::NodeDescription> node() {
  const auto described = agent_node();
  if (!described) return std::unexpected(described.error());
  return describe(*described);
}

}  // namespace verbatim::dropin
