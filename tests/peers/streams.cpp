// Many requests outstanding at once on several queue pairs, each with a separate part of the
// memory.
#include <cstring>

#include "tests/peers/session.h"

namespace peers {
namespace {

constexpr std::size_t kPairs = 4;
constexpr std::size_t kEach = 32;  // Requests per queue pair.
constexpr std::size_t kBytes = 5000;
constexpr std::size_t kAll = kPairs * kEach;

struct Stream {
  ibv_wr_opcode opcode;
  const char* name;
};
constexpr Stream kStreams[] = {{IBV_WR_SEND, "SEND, 4 x 32 at once"},
                               {IBV_WR_RDMA_WRITE, "WRITE, 4 x 32 at once"},
                               {IBV_WR_RDMA_READ, "READ, 4 x 32 at once"}};

ibv_sge slot_of(const Buffer& memory, std::size_t slot) {
  ibv_sge segment = memory.segment(kBytes);
  segment.addr += slot * kBytes;
  return segment;
}

std::uint8_t byte_at(std::size_t i) { return static_cast<std::uint8_t>((i * 2654435761U) >> 13); }
void fill(Buffer& memory) {
  for (std::size_t i = 0; i < kAll * kBytes; ++i) memory.bytes[i] = byte_at(i);
}
void compare(const Buffer& memory, const Stream& stream) {
  for (std::size_t i = 0; i < kAll * kBytes; ++i) {
    if (memory.bytes[i] == byte_at(i)) continue;
    std::fprintf(stderr, "%s: message %zu differs\n", stream.name, i / kBytes);
    std::exit(1);
  }
}

/// Round by round, so that all queue pairs are busy.
template <typename Each>
void for_all(std::vector<std::unique_ptr<Pair>>& pairs, Each each) {
  for (std::size_t i = 0; i < kEach; ++i) {
    for (std::size_t q = 0; q < kPairs; ++q) each(*pairs[q], q * kEach + i);
  }
}

/// Over iWARP a WRITE completes before its bytes are placed; a READ after it shows that they are
/// (RFC 5040, section 5.5).
void wait_for_placement(const Session& session, const std::vector<std::unique_ptr<Pair>>& pairs) {
  ibv_sge spare = session.memory->segment(1);
  spare.addr += kBytesMax;
  for (const auto& pair : pairs) {
    ibv_send_wr wanted{};
    wanted.opcode = IBV_WR_RDMA_READ;
    wanted.wr.rdma = {pair->there.address, pair->there.key};
    endpoint::post_send(pair->qp, wanted, spare);
  }
  session.device.completions(kPairs);
}

void request(const Session& session, std::vector<std::unique_ptr<Pair>>& pairs,
             const Stream& stream) {
  Buffer& memory = *session.memory;
  const bool reads = stream.opcode == IBV_WR_RDMA_READ;
  if (reads) {
    std::memset(memory.bytes.data(), 0, kAll * kBytes);
  } else {
    fill(memory);
  }
  session.line.barrier();
  for_all(pairs, [&](const Pair& pair, std::size_t slot) {
    ibv_send_wr wanted{};
    wanted.opcode = stream.opcode;
    wanted.wr.rdma = {pair.there.address + slot * kBytes, pair.there.key};
    endpoint::post_send(pair.qp, wanted, slot_of(memory, slot));
  });
  session.device.completions(kAll);
  if (stream.opcode == IBV_WR_RDMA_WRITE) wait_for_placement(session, pairs);
  if (reads) compare(memory, stream);
  session.line.barrier();
  session.line.barrier();  // The peer has checked.
}

void respond(const Session& session, std::vector<std::unique_ptr<Pair>>& pairs,
             const Stream& stream) {
  Buffer& memory = *session.memory;
  const bool reads = stream.opcode == IBV_WR_RDMA_READ;
  const bool receives = stream.opcode == IBV_WR_SEND;
  if (reads) {
    fill(memory);
  } else {
    std::memset(memory.bytes.data(), 0, kAll * kBytes);
  }
  if (receives) {
    for_all(pairs, [&](const Pair& pair, std::size_t slot) {
      endpoint::post_receive(pair.qp, slot_of(memory, slot), slot);
    });
  }
  session.line.barrier();
  if (receives) session.device.completions(kAll);
  session.line.barrier();
  if (!reads) compare(memory, stream);
  session.line.barrier();
}

}  // namespace

void run_streams(const Session& session) {
  std::vector<std::unique_ptr<Pair>> pairs;
  for (std::size_t i = 0; i < kPairs; ++i) {
    pairs.push_back(std::make_unique<Pair>(session, IBV_QPT_RC, session.mtu));
  }
  for (const Stream& stream : kStreams) {
    session.each_way([&] { request(session, pairs, stream); },
                     [&] { respond(session, pairs, stream); });
    session.report("RC", std::size_t{128} << session.mtu, stream.name);
  }
}

}  // namespace peers
