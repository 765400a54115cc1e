// cable SOCKET PORT PORT...: a driver of a card that joins ports in pairs, as numbers: what comes
// from the one leaves by the other.
// cable SOCKET vxlan PORT OWN PEER: what comes from the port leaves by the uplink (port 0) in a
// VXLAN tunnel, from 172.16.0.OWN to 172.16.0.PEER; what comes out of that goes to the port. Says
// "ready", and ends when its input ends.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "offload/ring/ring.h"
#include "service/channel.h"
#include "service/clients.h"
#include "service/folder.h"

namespace {

using namespace verbatim;
using namespace verbatim::offload;

template <typename T>
T need(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "cable: %s\n", result.error().text.c_str());
  std::exit(1);
}

class Driver {
 public:
  explicit Driver(const std::string& socket)
      : channel_(need(service::connect_to(socket)), {VNIC_MAGIC, VNIC_VERSION}) {
    if (auto sent = channel_.send_and_wait(VNIC_HELLO, {}); !sent) std::exit(1);
    auto answer = need(service::unless_refused(need(channel_.receive())));
    vnic_welcome welcome{};
    std::memcpy(&welcome, answer.bytes.data(), sizeof welcome);
    doorbell_ = std::move(answer.descriptors.at(1));
    region_ = static_cast<vnic_region*>(mmap(nullptr, welcome.region_bytes, PROT_READ | PROT_WRITE,
                                             MAP_SHARED, answer.descriptors.at(0).get(), 0));
  }

  /// All frames from one port leave by the other.
  void join(unsigned from, unsigned to) {
    vnic_rule rule{};
    rule.port = static_cast<__u16>(from);
    insert(rule, {output(to)});
  }

  void join_by_vxlan(unsigned port, std::uint8_t own, std::uint8_t peer) {
    vnic_rule out{};
    out.port = static_cast<__u16>(port);
    const std::vector<std::uint8_t> header = vxlan_header(own, peer);
    std::vector<vnic_action> actions{{.kind = VNIC_ACTION_ENCAPSULATE,
                                      .port = 0,
                                      .value = static_cast<__u32>(header.size()),
                                      .bytes = {}}};
    for (std::size_t at = 0; at < header.size(); at += 16) {
      vnic_action& piece = actions.emplace_back();
      piece.kind = VNIC_ACTION_HEADER;
      std::copy_n(header.begin() + static_cast<std::ptrdiff_t>(at),
                  std::min<std::size_t>(16, header.size() - at), piece.bytes);
    }
    actions.push_back(output(0));
    insert(out, actions);

    vnic_rule in{};
    in.has_more = 1;
    in.more.tunnel.kind = VNIC_TUNNEL_VXLAN;
    in.more.tunnel_mask.kind = 0xff;
    in.more.tunnel.id[3] = kNetwork;
    std::ranges::fill(in.more.tunnel_mask.id, 0xff);
    vnic_action decapsulate{};
    decapsulate.kind = VNIC_ACTION_DECAPSULATE;
    insert(in, {decapsulate, output(port)});
  }

 private:
  static constexpr std::uint8_t kNetwork = 42;

  static vnic_action output(unsigned port) {
    return {.kind = VNIC_ACTION_OUTPUT, .port = static_cast<__u16>(port), .value = 0, .bytes = {}};
  }

  /// Ethernet, IPv4, UDP and VXLAN; lengths, checksum and source port are the card's work.
  static std::vector<std::uint8_t> vxlan_header(std::uint8_t own, std::uint8_t peer) {
    return {2, 0, 0,    0,    0, peer, 2,  0, 0, 0,   0,  own, 8,   0,   0x45,     0, 0,
            0, 0, 0,    0,    0, 64,   17, 0, 0, 172, 16, 0,   own, 172, 16,       0, peer,
            0, 0, 0x12, 0xb5, 0, 0,    0,  0, 8, 0,   0,  0,   0,   0,   kNetwork, 0};
  }

  void insert(vnic_rule rule, const std::vector<vnic_action>& actions) {
    vnic_command command{};
    command.operation = VNIC_INSERT;
    command.rule = rule;
    command.rule.id = rules_++;
    command.rule.action_count = static_cast<__u16>(actions.size());
    std::ranges::copy(actions, command.rule.actions);
    region_->commands[posted_ % VNIC_COMMANDS] = command;
    release(region_->command_posted, ++posted_);
    ring_doorbell(*region_, doorbell_.get());
    while (acquire(region_->command_done) != posted_) usleep(1000);
    if (region_->commands_refused != 0) std::exit(2);
  }

  service::Channel channel_;
  UniqueFd doorbell_;
  vnic_region* region_ = nullptr;
  std::uint32_t rules_ = 0;
  std::uint32_t posted_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 1;
  Driver driver(argv[1]);
  const auto number = [&](int i) { return static_cast<unsigned>(std::atoi(argv[i])); };
  const bool is_vxlan = std::string_view(argv[2]) == "vxlan" && argc == 6;
  if (is_vxlan) {
    driver.join_by_vxlan(number(3), static_cast<std::uint8_t>(number(4)),
                         static_cast<std::uint8_t>(number(5)));
  }
  for (int i = 2; i + 1 < argc && !is_vxlan; i += 2) {
    driver.join(number(i), number(i + 1));
    driver.join(number(i + 1), number(i));
  }
  std::puts("ready");
  std::fflush(stdout);
  while (std::getchar() != EOF) {
  }
  return 0;
}
