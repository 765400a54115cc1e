#include "adapter/ports/port_events.h"

#include <gtest/gtest.h>

namespace verbatim::adapter {
namespace {

using enum AsyncEventType;
using port::PortState;
using Types = std::vector<AsyncEventType>;

constexpr PortState kWell{.gids = 0b11};

struct NoReceiver final : port::Receiver {
  void on_packets(std::span<const wire::Packet>, const Path&, const Path&, const Gid&,
                  TimeNs) override {}
};

TEST(PortEvents, EachChangeIsToldOnce) {
  const PortState down{.gids = 0b11, .is_active = false};
  const PortState fewer{.gids = 0b01};
  const PortState gone{.gids = 0, .is_present = false, .is_active = false};
  EXPECT_EQ(events_between(kWell, kWell), Types());
  EXPECT_EQ(events_between(kWell, down), Types{port_error});
  EXPECT_EQ(events_between(down, kWell), Types{port_active});
  EXPECT_EQ(events_between(kWell, fewer), Types{gid_change});
  EXPECT_EQ(events_between(fewer, kWell), Types{gid_change});
  EXPECT_EQ(events_between(kWell, {.gids = 0b11, .active_mtu = Mtu::k1024}), Types());
  EXPECT_EQ(events_between(kWell, gone), (Types{port_error, gid_change, device_fatal}));
  EXPECT_EQ(events_between(down, gone), (Types{gid_change, device_fatal}));
}

TEST(PortEvents, ListenersHearOfChangesUntilTheyLeave) {
  AsyncEvents events(Semaphore::create().value()), other(Semaphore::create().value());
  observe::PortCounters counters;
  NoReceiver nobody;
  port::Port port(2, nobody, counters, 1);
  PortEvents told;
  told.change(port, kWell);
  told.add_listener(events);
  told.add_listener(other);
  told.remove_listener(other);
  told.change(port, {.gids = 0b10});
  const auto event = events.wait();
  EXPECT_EQ(event->type, gid_change);
  EXPECT_EQ(event->port, 2);
  EXPECT_FALSE(port.state().has_gid(0));
  EXPECT_TRUE(port.state().has_gid(1));
  std::size_t left = 0;
  other.remove_if([&](const AsyncEvent&) { return ++left != 0; });
  EXPECT_EQ(left, 0u);
}

}  // namespace
}  // namespace verbatim::adapter
