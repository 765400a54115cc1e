#include "offload/switch/frames/edited_frame.h"

#include <algorithm>
#include <cstring>

#include <gtest/gtest.h>

#include "offload/switch/frames/frames_test_util.h"
#include "offload/switch/key.h"
#include "sim/random.h"
#include "wire/crc32c.h"

namespace verbatim::offload {
namespace {

std::size_t transport_at(const FrameShape& shape) {
  return 14u + (shape.vlan >= 0 ? 4 : 0) + (shape.is_ipv6 ? 40 : 20);
}

/// A frame whose checksum is left to the card.
std::vector<std::byte> partial(const FrameShape& shape, FrameNote& note) {
  auto frame = make_frame(shape);
  const std::size_t start = transport_at(shape);
  const std::size_t ip = start - (shape.is_ipv6 ? 40 : 20);
  const ByteSpan addresses =
      shape.is_ipv6 ? ByteSpan(frame).subspan(ip + 8, 32) : ByteSpan(frame).subspan(ip + 12, 8);
  note = {.needs_checksum = true,
          .checksum_start = static_cast<std::uint16_t>(start),
          .checksum_offset = static_cast<std::uint16_t>(shape.protocol == 6 ? 16 : 6)};
  store_be(frame.data() + start + note.checksum_offset,
           fold(add_words(addresses) + shape.protocol + (frame.size() - start)));
  return frame;
}

std::vector<std::byte> finished(ByteSpan frame, const FrameNote& note) {
  std::vector<std::byte> out(frame.size());
  auto segments = Segments::of(frame, note);
  EXPECT_TRUE(segments && segments->next(out) == out.size());
  return out;
}

/// What the shape looks like on the wire.
std::vector<std::byte> on_the_wire(const FrameShape& shape) {
  FrameNote note;
  const auto frame = partial(shape, note);
  return finished(frame, note);
}

/// Applies the actions to a frame in a room, and returns it as it is on the wire.
std::vector<std::byte> edited(const std::vector<std::byte>& frame, const FrameNote& note,
                              const std::vector<Action>& actions) {
  std::vector<std::byte> room(EditedFrame::kHeadroom);
  room.insert(room.end(), frame.begin(), frame.end());
  EditedFrame edit(MutableByteSpan(room).subspan(EditedFrame::kHeadroom), note);
  for (const Action& action : actions) EXPECT_TRUE(edit.apply(action));
  return finished(edit.frame(), edit.note());
}

Action address(ActionKind kind, std::initializer_list<std::uint8_t> bytes) {
  Action action{.kind = kind};
  std::ranges::copy(bytes, action.bytes.begin());
  return action;
}
Action value(ActionKind kind, std::uint32_t number) { return {.kind = kind, .value = number}; }

struct Change {
  std::vector<Action> actions;
  FrameShape after;
};

/// Actions, and the frame that its sender would have sent in their place.
std::vector<Change> changes_of(const FrameShape& before) {
  std::vector<Change> all;
  const auto add = [&](std::vector<Action> actions, auto change) {
    FrameShape after = before;
    change(after);
    all.push_back({std::move(actions), after});
  };
  const bool is_ipv6 = before.is_ipv6;
  const auto source = is_ipv6 ? address(ActionKind::kSetSourceIpv6,
                                        {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 77})
                              : address(ActionKind::kSetSourceIpv4, {10, 9, 0, 77});
  const auto mac = address(ActionKind::kSetSourceMac, {2, 0, 0, 0, 0, 77});
  add({source, mac}, [](FrameShape& s) { s.last_of_source = 77; });
  add({value(ActionKind::kSetSourcePort, 7777)}, [](FrameShape& s) { s.source_port = 7777; });
  add({value(ActionKind::kSetDestinationPort, 65535)},
      [](FrameShape& s) { s.destination_port = 65535; });
  add({value(ActionKind::kSetHopLimit, 9)}, [](FrameShape& s) { s.hop_limit = 9; });
  if (before.vlan < 0) {
    add({value(ActionKind::kPushVlan, 0x8100), value(ActionKind::kSetVlanId, 100)},
        [](FrameShape& s) { s.vlan = 100; });
    add({value(ActionKind::kPushVlan, 0x8100), value(ActionKind::kSetVlanPriority, 5),
         value(ActionKind::kSetVlanId, 7), source, mac},
        [](FrameShape& s) { s.vlan = 5 << 13 | 7, s.last_of_source = 77; });
  } else {
    add({value(ActionKind::kSetVlanId, 7)}, [](FrameShape& s) { s.vlan = 7; });
    add({value(ActionKind::kPopVlan, 0), value(ActionKind::kSetSourcePort, 7777)},
        [](FrameShape& s) { s.vlan = -1, s.source_port = 7777; });
  }
  return all;
}

TEST(EditedFrame, IsWhatItsSenderWouldHaveSent) {
  for (const std::uint8_t protocol : {std::uint8_t{6}, std::uint8_t{17}}) {
    for (const bool is_ipv6 : {false, true}) {
      for (const int vlan : {-1, 3}) {
        const FrameShape shape{
            .is_ipv6 = is_ipv6, .vlan = vlan, .protocol = protocol, .payload = 33};
        for (const Change& change : changes_of(shape)) {
          const auto wanted = on_the_wire(change.after);
          EXPECT_EQ(edited(on_the_wire(shape), {}, change.actions), wanted);
          FrameNote note;
          const auto frame = partial(shape, note);
          EXPECT_EQ(edited(frame, note, change.actions), wanted) << "partial checksum";
        }
      }
    }
  }
}

TEST(EditedFrame, UdpWithoutChecksumStaysSo) {
  const FrameShape shape{.payload = 5};
  FrameShape after = shape;
  after.source_port = 9;
  EXPECT_EQ(edited(make_frame(shape), {}, {value(ActionKind::kSetSourcePort, 9)}),
            make_frame(after));
}

TEST(EditedFrame, LaterFragmentsKeepTheirBytes) {
  const FrameShape shape{.fragment = 0x0010, .payload = 40};
  FrameShape after = shape;
  after.last_of_source = 77;
  EXPECT_EQ(edited(make_frame(shape), {},
                   {address(ActionKind::kSetSourceIpv4, {10, 9, 0, 77}),
                    address(ActionKind::kSetSourceMac, {2, 0, 0, 0, 0, 77})}),
            make_frame(after));
}

TEST(EditedFrame, SctpHasAChecksumOfTheWholePacket) {
  const auto with_crc = [](std::uint16_t port) {
    auto frame = make_frame({.protocol = 132, .source_port = port, .payload = 20});
    std::memset(frame.data() + 34 + 8, 0, 4);
    wire::Crc32c crc;
    crc.update(ByteSpan(frame).subspan(34));
    const std::uint32_t stored = crc.value();
    std::memcpy(frame.data() + 34 + 8, &stored, sizeof stored);
    return frame;
  };
  auto padded = with_crc(1000);
  padded.resize(padded.size() + 6);
  auto wanted = with_crc(7777);
  wanted.resize(wanted.size() + 6);
  EXPECT_EQ(edited(padded, {}, {value(ActionKind::kSetSourcePort, 7777)}), wanted);
}

TEST(EditedFrame, RefusesWhatTheFrameDoesNotHave) {
  const auto refuses = [](const FrameShape& shape, const Action& action) {
    std::vector<std::byte> room(EditedFrame::kHeadroom);
    const auto frame = make_frame(shape);
    room.insert(room.end(), frame.begin(), frame.end());
    EditedFrame edit(MutableByteSpan(room).subspan(EditedFrame::kHeadroom), {});
    return !edit.apply(action) && std::ranges::equal(edit.frame(), frame);
  };
  EXPECT_TRUE(refuses({}, value(ActionKind::kPopVlan, 0)));
  EXPECT_TRUE(refuses({}, value(ActionKind::kSetVlanId, 7)));
  EXPECT_TRUE(refuses({}, address(ActionKind::kSetSourceIpv6, {1})));
  EXPECT_TRUE(refuses({.is_ipv6 = true}, address(ActionKind::kSetSourceIpv4, {1})));
  EXPECT_TRUE(refuses({.protocol = 1}, value(ActionKind::kSetSourcePort, 7)));
  EXPECT_TRUE(refuses({.fragment = 0x0010}, value(ActionKind::kSetSourcePort, 7)));
}

/// Under a sanitizer: nothing beyond the frame and its headroom is touched, whatever its bytes.
TEST(EditedFrame, TakesAnyFrameAndAnyActions) {
  sim::Random random(11);
  for (int round = 0; round < 20000; ++round) {
    auto frame = make_frame({.is_ipv6 = random.chance(0.5),
                             .vlan = random.chance(0.5) ? 1 : -1,
                             .protocol = static_cast<std::uint8_t>(random.chance(0.5) ? 6 : 132)});
    for (int i = 0; i < 4; ++i) frame[random.below(frame.size())] = std::byte(random.below(256));
    std::vector<std::byte> room(EditedFrame::kHeadroom + random.below(frame.size()));
    const std::size_t size = room.size() - EditedFrame::kHeadroom;
    std::copy_n(frame.begin(), size, room.begin() + EditedFrame::kHeadroom);
    EditedFrame edit(MutableByteSpan(room).subspan(EditedFrame::kHeadroom), {});
    for (int i = 0; i < 24; ++i) {
      const auto kind = random.below(static_cast<std::uint64_t>(kLastAction) + 1);
      Action action{.kind = static_cast<ActionKind>(kind)};
      action.value = static_cast<std::uint32_t>(random.next());
      edit.apply(action);
    }
  }
}

/// Ethernet, IPv4 or IPv6, UDP, VXLAN, as Open vSwitch gives them.
std::vector<std::byte> vxlan_header(bool is_ipv6, bool has_checksum) {
  std::vector<std::byte> header;
  append(header, {2, 0, 0, 0, 1, 2, 2, 0, 0, 0, 1, 1});
  if (is_ipv6) {
    append(header, {0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 64});
    append(header, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5});
    append(header, {0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6});
  } else {
    append(header,
           {8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 172, 16, 0, 1, 172, 16, 0, 2});
  }
  const unsigned checksum = has_checksum ? 0xff : 0;
  append(header, {0, 0, 0x12, 0xb5, 0, 0, checksum, checksum, 8, 0, 0, 0, 0, 0, 42, 0});
  return header;
}

std::vector<Action> encapsulation(ByteSpan header) {
  std::vector<Action> actions{
      {.kind = ActionKind::kEncapsulate, .value = static_cast<std::uint32_t>(header.size())}};
  for (; !header.empty(); header = header.subspan(std::min<std::size_t>(16, header.size()))) {
    Action& action = actions.emplace_back(Action{.kind = ActionKind::kHeader});
    std::memcpy(action.bytes.data(), header.data(), std::min<std::size_t>(16, header.size()));
  }
  return actions;
}

TEST(EditedFrame, ATunnelsHeaderIsFinished) {
  for (const bool is_ipv6 : {false, true}) {
    for (const bool has_checksum : {false, true}) {
      const auto inner = on_the_wire({.payload = 33});
      const auto header = vxlan_header(is_ipv6, has_checksum);
      const auto outer = edited(inner, {}, encapsulation(header));
      ASSERT_EQ(outer.size(), inner.size() + header.size());
      EXPECT_TRUE(
          std::equal(inner.begin(), inner.end(), outer.end() - std::ptrdiff_t(inner.size())));
      const std::size_t udp = header.size() - 16;
      const std::size_t udp_bytes = outer.size() - udp;
      const ByteSpan all(outer);
      EXPECT_EQ(load_be<std::uint16_t>(all.data() + udp + 4), udp_bytes);
      EXPECT_GE(load_be<std::uint16_t>(all.data() + udp), 0xc000) << "no source port";
      if (!is_ipv6) {
        EXPECT_EQ(load_be<std::uint16_t>(all.data() + 16), outer.size() - 14);
        EXPECT_EQ(fold(add_words(all.subspan(14, 20))), 0xffff);
      } else {
        EXPECT_EQ(load_be<std::uint16_t>(all.data() + 18), udp_bytes);
      }
      const auto addresses = is_ipv6 ? all.subspan(22, 32) : all.subspan(26, 8);
      const auto sum = fold(add_words(all.subspan(udp), add_words(addresses, udp_bytes + 17)));
      EXPECT_EQ(sum == 0xffff, has_checksum);
      EXPECT_EQ(edited(outer, {}, {{.kind = ActionKind::kDecapsulate}}), inner);
    }
  }
}

TEST(EditedFrame, TunnelsWantPacketsAndHeaders) {
  FrameNote note;
  auto frame = partial({.payload = 100}, note);
  const auto header = vxlan_header(false, false);
  std::vector<std::byte> room(EditedFrame::kHeadroom);
  room.insert(room.end(), frame.begin(), frame.end());
  const auto inside = MutableByteSpan(room).subspan(EditedFrame::kHeadroom);
  EXPECT_FALSE(EditedFrame(inside, note).apply(encapsulation(header)[0])) << "its checksum is open";
  EXPECT_FALSE(EditedFrame(inside, {}).apply({.kind = ActionKind::kHeader}));
  EXPECT_FALSE(EditedFrame(inside, {}).apply({.kind = ActionKind::kDecapsulate, .value = 1000}));
  EXPECT_FALSE(EditedFrame(inside.first(20), {}).apply({.kind = ActionKind::kDecapsulate}));
}

}  // namespace
}  // namespace verbatim::offload
