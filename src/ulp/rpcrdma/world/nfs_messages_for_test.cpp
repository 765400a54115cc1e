#include "ulp/rpcrdma/world/nfs_messages_for_test.h"

#include "base/bytes.h"
#include "ulp/rpcrdma/wire/rpc.h"

namespace verbatim::ulp::rpcrdma {
namespace {

class XdrWriter {
 public:
  template <typename... Words>
  XdrWriter& words(Words... words) {
    (word(static_cast<std::uint32_t>(words)), ...);
    return *this;
  }
  XdrWriter& opaque(std::uint32_t bytes, sim::Random& random) {
    word(bytes);
    for (std::uint32_t i = 0; i < padded(bytes); ++i)
      bytes_.push_back(i < bytes ? static_cast<std::byte>(random.next()) : std::byte{0});
    return *this;
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  void word(std::uint32_t value) {
    bytes_.resize(bytes_.size() + 4);
    store_be(bytes_.data() + bytes_.size() - 4, value);
  }
  std::vector<std::byte> bytes_;
};

XdrWriter call_of(std::uint32_t xid, std::uint32_t program, std::uint32_t version,
                  std::uint32_t procedure) {
  XdrWriter out;
  return out.words(xid, 0, 2, program, version, procedure, 0, 0, 0, 0);
}
XdrWriter reply_of(std::uint32_t xid) { return XdrWriter().words(xid, 1, 0, 0, 0, 0); }
XdrWriter compound_of(std::uint32_t xid, std::uint32_t operations) {
  XdrWriter out = call_of(xid, 100003, 4, 1);
  out.words(0, 1, operations, 53, 0, 0, 0, 0, 1, 0, 0, 1);  // No tag; SEQUENCE.
  return out;
}
XdrWriter compound_reply_of(std::uint32_t xid, std::uint32_t operations) {
  XdrWriter out = reply_of(xid);
  out.words(0, 0, operations, 53, 0, 0, 0, 0, 0, 1, 0, 1, 1, 0);
  return out;
}

/// Mostly short, at times as long as it may be.
std::uint32_t some_bytes(std::uint32_t most, sim::Random& random) {
  const std::uint32_t limits[] = {16, 600, 5000, 70000, most};
  return static_cast<std::uint32_t>(random.between(0, limits[random.below(5)]));
}

Exchange read_v4(std::uint32_t xid, sim::Random& random) {
  const std::uint32_t asked = some_bytes(1 << 20, random);
  const auto got = static_cast<std::uint32_t>(random.between(0, asked));
  auto call = compound_of(xid, 4);
  call.words(22).opaque(28, random).words(25, 0, 0, 0, 0, 0, 0, asked, 9, 1, 0x18);
  auto reply = compound_reply_of(xid, 4);
  if (random.below(10) == 0) return {call.take(), reply.words(22, 70).take()};  // NFS4ERR_STALE
  reply.words(22, 0, 25, 0, 0).opaque(got, random).words(9, 0, 1, 0x18).opaque(16, random);
  return {call.take(), reply.take()};
}

Exchange write_v4(std::uint32_t xid, sim::Random& random) {
  auto call = compound_of(xid, 4);
  call.words(22).opaque(28, random).words(38, 0, 0, 0, 0, 0, 0, 2);
  call.opaque(some_bytes(1 << 20, random), random).words(9, 1, 0x18);
  auto reply = compound_reply_of(xid, 4);
  reply.words(22, 0, 38, 0, 7, 2, 1, 1, 9, 0, 1, 0x18).opaque(16, random);
  return {call.take(), reply.take()};
}

Exchange read_v3(std::uint32_t xid, sim::Random& random) {
  const std::uint32_t asked = some_bytes(1 << 20, random);
  auto call = call_of(xid, 100003, 3, 6);
  call.opaque(32, random).words(0, 0, asked);
  auto reply = reply_of(xid);
  reply.words(0, 0, asked, 0).opaque(static_cast<std::uint32_t>(random.between(0, asked)), random);
  return {call.take(), reply.take()};
}

Exchange write_v3(std::uint32_t xid, sim::Random& random) {
  const std::uint32_t bytes = some_bytes(1 << 20, random);
  auto call = call_of(xid, 100003, 3, 7);
  call.opaque(32, random).words(0, 0, bytes, 2).opaque(bytes, random);
  auto reply = reply_of(xid);
  return {call.take(), reply.words(0, 0, 0, bytes, 2, 1, 1).take()};
}

Exchange read_directory(std::uint32_t xid, sim::Random& random) {
  const std::uint32_t most = some_bytes(200000, random) + 100;
  auto call = call_of(xid, 100003, 3, 17);
  call.opaque(32, random).words(0, 0, 0, 0, most, most);
  auto reply = reply_of(xid);
  reply.words(0).opaque(static_cast<std::uint32_t>(random.between(0, most - 4)), random);
  return {call.take(), reply.take()};
}

/// A program that nobody here knows, long both ways.
Exchange unknown(std::uint32_t xid, sim::Random& random) {
  auto call = call_of(xid, 100227, 3, 2);
  call.opaque(some_bytes(300000, random), random);
  auto reply = reply_of(xid);
  return {call.take(), reply.opaque(some_bytes(300000, random), random).take()};
}

/// RPCSEC_GSS with integrity: READ's data is nobody's but the ends'.
Exchange protected_call(std::uint32_t xid, sim::Random& random) {
  XdrWriter call;
  call.words(xid, 0, 2, 100003, 4, 1, 6, 20, 1, 0, 7, 2, 0, 6, 0);
  call.opaque(some_bytes(100000, random), random);
  auto reply = reply_of(xid);
  return {call.take(), reply.opaque(some_bytes(100000, random), random).take()};
}

}  // namespace

Exchange make_exchange(std::uint32_t xid, sim::Random& random) {
  constexpr decltype(&read_v4) kKinds[] = {read_v4,        write_v4, read_v3,       write_v3,
                                           read_directory, unknown,  protected_call};
  return kKinds[random.below(std::size(kKinds))](xid, random);
}

Exchange make_back_exchange(std::uint32_t xid, sim::Random& random) {
  auto call = call_of(xid, 0x40000000, 1, 1);
  auto reply = reply_of(xid);
  return {call.opaque(static_cast<std::uint32_t>(random.below(800)), random).take(),
          reply.opaque(static_cast<std::uint32_t>(random.below(800)), random).take()};
}

}  // namespace verbatim::ulp::rpcrdma
