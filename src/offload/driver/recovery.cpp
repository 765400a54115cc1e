#include "offload/driver/recovery.h"

#include <cerrno>
#include <mutex>
#include <thread>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>

#include "offload/driver/retry.h"

namespace verbatim::offload::driver {

struct Recovery::State {
  State(Device& of, std::string path)
      : socket(std::move(path)), name(rte_vdev_device_name(of.vdev)), device(&of) {}
  const std::string socket;
  const std::string name;
  const UniqueFd stop{eventfd(0, EFD_CLOEXEC)};  // Readable when the device is gone.
  std::mutex device_lock;                        // Held while the device is used.
  Device* device;                                // Null: it is gone.
};

namespace {

/// Waits until the card ends, or for so long. Returns false if the device is gone.
bool wait_for(int stop, int card, int milliseconds) {
  // The answers of a card are for those who ask: only its end matters here.
  pollfd files[] = {{stop, POLLIN, 0}, {card, POLLRDHUP, 0}};
  while (poll(files, card < 0 ? 1 : 2, milliseconds) < 0 && errno == EINTR) {
  }
  return files[0].revents == 0;
}

/// Returns a card that can take the place of `ended`.
Result<std::shared_ptr<Connection>> connect_like(const std::string& socket,
                                                 const Connection& ended) {
  auto opened = Connection::open(socket);
  if (!opened) return std::unexpected(opened.error());
  std::shared_ptr<Connection> card(std::move(*opened));
  if (card->ports() != ended.ports() || card->rules_max() < ended.rules_max() ||
      card->is_dpu() != ended.is_dpu()) {
    return refuse(EINVAL, "the card has other ports, or less room for rules, than before");
  }
  if (auto registered = card->register_memory(); !registered) {
    return std::unexpected(registered.error());
  }
  return card;
}

/// Tries until there is one. Null: the device is gone.
std::shared_ptr<Connection> next_card(const std::string& socket, const std::string& name, int stop,
                                      const Connection& ended) {
  Retry retry;
  std::string told;
  for (;;) {
    const auto wait = static_cast<int>(retry.next() / kMillisecond);
    if (!wait_for(stop, -1, wait)) return nullptr;
    auto card = connect_like(socket, ended);
    if (card) return *card;
    if (card.error().text != told) {
      RTE_LOG(WARNING, PMD, "%s: %s\n", name.c_str(), card.error().text.c_str());
    }
    told = card.error().text;
  }
}

}  // namespace

Recovery::Recovery(Device& device, const std::string& socket)
    : state_(std::make_shared<State>(device, socket)) {
  std::thread(run, state_).detach();
}

Recovery::~Recovery() {
  const std::lock_guard lock(state_->device_lock);
  state_->device = nullptr;
  eventfd_write(state_->stop.get(), 1);
}

void Recovery::run(const std::shared_ptr<State>& state) {
  const auto card_of_device = [&]() -> std::shared_ptr<Connection> {
    const std::lock_guard lock(state->device_lock);
    return state->device != nullptr ? state->device->card() : nullptr;
  };
  const int stop = state->stop.get();
  for (auto card = card_of_device(); card != nullptr;) {
    if (!wait_for(stop, card->socket(), -1)) return;
    RTE_LOG(WARNING, PMD, "%s: the card has ended; waiting for the next one\n",
            state->name.c_str());
    const auto next = next_card(state->socket, state->name, stop, *card);
    std::vector<rte_eth_dev*> shown;
    {
      const std::lock_guard lock(state->device_lock);
      if (state->device == nullptr || next == nullptr) return;
      const auto rules = state->device->change_card(next);
      RTE_LOG(WARNING, PMD, "%s: connected again: %zu rules\n", state->name.c_str(),
              rules.value_or(0));
      for (const auto& port : state->device->ports) {
        if (rte_eth_dev* const ethdev = port->ethdev) shown.push_back(ethdev);
      }
    }
    // Without the lock: whoever removes the device may hold what these calls wait for. DPDK's
    // array of ports is never freed.
    for (rte_eth_dev* const ethdev : shown) {
      rte_eth_dev_callback_process(ethdev, RTE_ETH_EVENT_INTR_RESET, nullptr);
    }
    card = next;
  }
}

}  // namespace verbatim::offload::driver
