#include "ulp/sdp/stream.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

/// One end: each line is one input, and what comes of it.
namespace verbatim::ulp::sdp {
namespace {

constexpr Limits kOwn{.receives = 8, .receive_bytes = 64};

class Bench {
 public:
  Bench() {
    const auto ack = stream.on_hello({.buffers = 8, .own_bytes = 48});
    EXPECT_TRUE(ack);
    EXPECT_EQ(ack->own_bytes, 64u);
  }

  /// A message of the peer with the next MSeq, in the next receive.
  std::string in(Header header, const Body& body = {}, std::string_view data = {}) {
    header.sequence = header.sequence != 0 ? header.sequence : ++peer_sequence_;
    if (header.buffers == 0) header.buffers = 8;
    std::array<std::byte, kMostHead> head{};
    const std::size_t bytes = encode(header, body, head);
    header.length = static_cast<std::uint32_t>(bytes + data.size());
    encode(header, body, head);
    std::vector<std::byte> message(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(bytes));
    for (const char one : data) message.push_back(static_cast<std::byte>(one));
    const auto use = stream.on_message(slot_++, message);
    return printed() + (use == Stream::Use::kept ? "keep" : "");
  }
  std::string in(std::string_view data) { return in({.mid = Mid::data}, {}, data); }
  std::string send(std::size_t bytes, bool is_urgent = false) {
    return text_of(stream.data(bytes, is_urgent));
  }
  std::string lend(const SourceAvailable& memory, std::size_t bytes) {
    return text_of(stream.lend(memory, bytes));
  }
  std::string read(std::uint32_t bytes) {
    const auto slot = stream.consume(bytes);
    return (slot ? fmt::format("post {} ", *slot) : "") + printed();
  }
  std::string printed() {
    std::string text;
    while (const auto control = stream.next_control()) text += text_of(control->header);
    return text;
  }

  Stream stream{kOwn};

 private:
  static std::string text_of(const Header& header) {
    return fmt::format("{}{} {} mseq {} ack {} buffers {}; ", name_of(header.mid),
                       header.has_urgent ? " urgent" : "", header.length, header.sequence,
                       header.acknowledged, header.buffers);
  }
  std::uint32_t peer_sequence_ = 0;
  std::uint32_t slot_ = 0;
};

TEST(SdpStream, DataUsesCreditsAndLeavesTwo) {
  Bench end;
  EXPECT_EQ(end.stream.room(), 32u);
  EXPECT_EQ(end.send(32), "Data 48 mseq 1 ack 0 buffers 8; ");
  for (int i = 0; i < 5; ++i) end.send(1);
  EXPECT_EQ(end.stream.credits(), 2u);
  EXPECT_EQ(end.stream.room(), 0u);
  // The peer has received two and posted them again.
  EXPECT_EQ(end.in({.mid = Mid::data, .acknowledged = 2}), "");
  EXPECT_EQ(end.stream.credits(), 4u);
}

TEST(SdpStream, ReceivesAreKeptUntilReadAndThenCreditsAreGiven) {
  Bench end;
  EXPECT_EQ(end.in("abc"), "keep");
  EXPECT_EQ(end.in("de"), "keep");
  EXPECT_EQ(end.stream.piece(0).bytes, 3u);
  EXPECT_EQ(end.read(2), "");
  EXPECT_EQ(end.read(1), "post 0 ");
  for (int i = 0; i < 4; ++i) EXPECT_EQ(end.in("x"), "keep");
  // Six came, the peer knows of two receives, and three are posted.
  EXPECT_EQ(end.read(2), "post 1 Data 16 mseq 1 ack 6 buffers 4; ");
}

TEST(SdpStream, CreditUpdatesAreAnsweredOnceTheyHaveUsedUpThePeersCredits) {
  Bench end;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(end.in({.mid = Mid::data}), "");
  EXPECT_EQ(end.in({.mid = Mid::data}), "Data 16 mseq 1 ack 6 buffers 8; ");
}

TEST(SdpStream, SidesThatDoNotReadDoNotAnswerEachOtherForEver) {
  Bench end;
  for (int i = 0; i < 6; ++i) EXPECT_EQ(end.in("x"), "keep");  // Two receives are left.
  for (int i = 0; i < 2; ++i) EXPECT_EQ(end.in({.mid = Mid::data}), "");
}

TEST(SdpStream, DisConnIsTheEndOfOneDirection) {
  Bench end;
  end.send(5);
  end.stream.finish();
  EXPECT_EQ(end.printed(), "DisConn 16 mseq 2 ack 0 buffers 8; ");
  EXPECT_EQ(end.stream.room(), 0u);
  EXPECT_EQ(end.in("still"), "keep");
  EXPECT_FALSE(end.stream.peer_finished());
  EXPECT_EQ(end.in({.mid = Mid::disconnect}), "");
  EXPECT_TRUE(end.stream.peer_finished() && end.stream.has_data());
  EXPECT_EQ(end.in("late"), "AbortConn 16 mseq 3 ack 3 buffers 7; ");
  EXPECT_EQ(end.stream.fault(), Fault::after_end);
}

TEST(SdpStream, DisConnGoesWithTheLastCreditsThatDataLeaves) {
  Bench end;
  while (end.stream.room() > 0) end.send(1);
  end.stream.finish();
  EXPECT_EQ(end.printed(), "DisConn 16 mseq 7 ack 0 buffers 8; ");
  EXPECT_EQ(end.stream.credits(), 1u);
}

TEST(SdpStream, AbortEndsBothDirections) {
  Bench end;
  end.stream.abort();
  EXPECT_EQ(end.printed(), "AbortConn 16 mseq 1 ack 0 buffers 8; ");
  Bench other;
  EXPECT_EQ(other.in({.mid = Mid::abort}), "");
  EXPECT_TRUE(other.stream.peer_aborted());
}

/// A4.6: what this side does not do is answered as the annex says.
TEST(SdpStream, ZCopyIsAnswered) {
  Bench end;
  EXPECT_EQ(end.in({.mid = Mid::source_available}, SourceAvailable{.bytes = 1 << 20}, "first"),
            "SendSm 16 mseq 1 ack 1 buffers 7; keep");
  EXPECT_EQ(end.stream.piece(0).offset, 32u);
  EXPECT_EQ(end.in({.mid = Mid::source_cancel}), "");
  EXPECT_EQ(end.in({.mid = Mid::sink_available}, SinkAvailable{.bytes = 1}), "");
  EXPECT_EQ(end.in({.mid = Mid::sink_cancel}), "SinkCancelAck 16 mseq 2 ack 4 buffers 7; ");
  EXPECT_EQ(end.in({.mid = Mid::buffer_change}, BufferSize{4096}),
            "ChRcvBufAck 20 mseq 3 ack 5 buffers 7; ");
  EXPECT_EQ(end.in({.mid = Mid::mode_change}, Mode{1}), "");
}

constexpr SourceAvailable kLent{.bytes = 1000, .key = MemoryKey{7}, .address = 0x5000};

/// The first bytes go with the offer; no Data until the rest is read, in parts if the peer likes.
TEST(SdpStream, LentMemoryIsReadByThePeer) {
  Bench end;
  EXPECT_EQ(end.stream.lending_room(), 16u);
  EXPECT_EQ(end.lend(kLent, 16), "SrcAvail 48 mseq 1 ack 0 buffers 8; ");
  EXPECT_EQ(end.stream.room() + end.stream.lending_room(), 0u);
  end.stream.finish();
  EXPECT_EQ(end.in({.mid = Mid::read_done, .acknowledged = 1}, Moved{900}), "");
  EXPECT_TRUE(end.stream.is_lending());
  EXPECT_EQ(end.in({.mid = Mid::read_done, .acknowledged = 1}, Moved{84}),
            "DisConn 16 mseq 2 ack 2 buffers 8; ");
  EXPECT_EQ(end.stream.lent_bytes_moved(), 1000u);
}

TEST(SdpStream, LentMemoryComesBackIfThePeerRefuses) {
  Bench end;
  end.lend(kLent, 16);
  end.stream.reclaim();
  EXPECT_EQ(end.printed(), "SrcAvailCancel 16 mseq 2 ack 0 buffers 8; ");
  end.stream.reclaim();
  EXPECT_EQ(end.printed(), "");
  EXPECT_EQ(end.in({.mid = Mid::read_done, .acknowledged = 1}, Moved{100}), "");
  EXPECT_EQ(end.in({.mid = Mid::send_mode, .acknowledged = 1}), "");
  EXPECT_FALSE(end.stream.is_lending());
  EXPECT_EQ(end.stream.lent_bytes_moved(), 116u);
  EXPECT_GT(end.stream.room(), 0u);
}

TEST(SdpStream, BorrowedMemoryIsReadBehindTheBytesBeforeIt) {
  Bench end;
  end.stream.set_borrows(true);
  EXPECT_EQ(end.in({.mid = Mid::source_available}, kLent, "first"), "keep");
  EXPECT_FALSE(end.stream.borrowed());
  EXPECT_EQ(end.read(5), "post 0 ");
  ASSERT_TRUE(end.stream.borrowed());
  EXPECT_EQ(*end.stream.borrowed(),
            (SourceAvailable{.bytes = 995, .key = MemoryKey{7}, .address = 0x5005}));
  end.stream.begin_borrowed_read();
  end.stream.on_borrowed_read(600);
  EXPECT_EQ(end.printed(), "RdmaRdCompl 20 mseq 1 ack 1 buffers 8; ");
  end.stream.refuse_borrowed();
  EXPECT_FALSE(end.stream.borrowed());
  EXPECT_EQ(end.printed(), "SendSm 16 mseq 2 ack 1 buffers 8; ");
  EXPECT_EQ(end.in("rest"), "keep");
}

TEST(SdpStream, ACancelWaitsForTheReadInFlight) {
  Bench end;
  end.stream.set_borrows(true);
  end.in({.mid = Mid::source_available}, kLent, "first");
  end.read(5);
  end.stream.begin_borrowed_read();
  EXPECT_EQ(end.in({.mid = Mid::source_cancel}), "");
  end.stream.on_borrowed_read(500);
  EXPECT_EQ(end.printed(),
            "RdmaRdCompl 20 mseq 1 ack 2 buffers 8; SendSm 16 mseq 2 ack 2 buffers 8; ");
}

TEST(SdpStream, RulesThatAPeerBreaksEndTheConnection) {
  const auto fault_of = [](Header header, const Body& body = {}) {
    Bench end;
    end.in(header, body);
    EXPECT_FALSE(end.stream.room() > 0 && end.stream.next_control());
    return end.stream.fault();
  };
  EXPECT_EQ(fault_of({.mid = Mid::data, .sequence = 2}), Fault::sequence);
  EXPECT_EQ(fault_of({.mid = Mid::data, .acknowledged = 1}), Fault::acknowledgement);
  EXPECT_EQ(fault_of({.mid = Mid::hello}), Fault::unexpected);
  EXPECT_EQ(fault_of({.mid = Mid::suspend}), Fault::unexpected);
  EXPECT_EQ(fault_of({.mid = Mid::read_done}, Moved{1}), Fault::unexpected);
  EXPECT_EQ(fault_of({.mid = Mid::send_mode}), Fault::unexpected);
  EXPECT_EQ(fault_of({.mid = static_cast<Mid>(0x10)}), Fault::message);
  Stream small(kOwn);
  EXPECT_EQ(small.on_hello({.buffers = 3, .own_bytes = 64}).error(), Fault::no_room);
  EXPECT_EQ(small.on_hello_ack({.buffers = 8, .own_bytes = 16}).error(), Fault::no_room);
}

TEST(SdpStream, UrgentByteIsOutOfTheStream) {
  Bench end;
  EXPECT_EQ(end.send(3, true), "Data urgent 19 mseq 1 ack 0 buffers 8; ");
  EXPECT_EQ(end.in({.mid = Mid::data, .has_urgent = true}, {}, "ab!"), "keep");
  EXPECT_EQ(end.in("cd"), "keep");
  EXPECT_TRUE(end.stream.is_urgent());
  EXPECT_EQ(end.stream.bytes_to_mark(), 2u);
  EXPECT_EQ(end.stream.urgent(true), std::byte{'!'});
  EXPECT_EQ(end.stream.urgent(false), std::byte{'!'});
  EXPECT_FALSE(end.stream.urgent(false) || end.stream.is_urgent());
  end.read(2);
  EXPECT_TRUE(end.stream.is_at_mark());
  end.read(1);
  EXPECT_FALSE(end.stream.is_at_mark());
  EXPECT_EQ(end.in({.mid = Mid::data, .has_urgent = true}, {}, "?"),
            "");  // Nothing else: the receive is free.
  EXPECT_EQ(end.stream.urgent(false), std::byte{'?'});
}

TEST(SdpStream, UrgentByteStaysInlineIfAsked) {
  Bench end;
  end.stream.set_urgent_inline(true);
  EXPECT_EQ(end.in({.mid = Mid::data, .has_urgent = true}, {}, "ab!"), "keep");
  EXPECT_EQ(end.stream.piece(0).bytes, 3u);
  EXPECT_EQ(end.stream.bytes_to_mark(), 2u);
  EXPECT_FALSE(end.stream.urgent(false));
  end.read(2);
  EXPECT_TRUE(end.stream.is_at_mark() && end.stream.is_urgent());
}

}  // namespace
}  // namespace verbatim::ulp::sdp
