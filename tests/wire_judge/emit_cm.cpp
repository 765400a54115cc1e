// Writes each CM message as a datagram to QP1, in the order of attribute ids; the REQ once with an
// RDMA IP header.
#include <cstdio>

#include "tests/wire_judge/capture.h"
#include "wire/mad/cm_test_util.h"
#include "wire/mad/rdma_ip_header.h"

int main(int argc, char** argv) {
  using namespace verbatim;
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s CAPTURE.pcap\n", argv[0]);
    return 2;
  }
  auto messages = wire::sample_messages();
  wire::RdmaIpHeader header{.ipv4 = true, .source_port = 0x1234};
  header.source.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  header.destination.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2};
  wire::CmReq& req = std::get<wire::CmReq>(messages[0]);
  encode(header, std::span(req.private_data).first<wire::RdmaIpHeader::kSize>());

  wire::Headers headers;
  headers.bth = {
      .opcode = wire::opcode_of(wire::Service::ud, wire::Verb::send, wire::Position::only),
      .dest_qp = Qpn(1)};
  headers.deth = {.qkey = QKey{0x80010000}, .source_qp = Qpn(1)};
  std::vector<std::vector<std::byte>> packets;
  for (const wire::CmMessage& message : messages) {
    std::vector<std::byte> mad(wire::kMadBytes);
    encode(wire::CmMad{0x0102030405060708, message}, std::span(mad).first<wire::kMadBytes>());
    packets.push_back(judge::datagram(judge::flow(false), 7, headers, mad));
  }
  judge::write_capture(argv[1], packets);
  return 0;
}
