// Any bytes from an iSCSI initiator, over TCP however they are cut and over iSER: messages and keys
// are decoded within their bounds and encode to what they were, and a target takes no harm.
#include <array>
#include <vector>

#include "base/assert.h"
#include "input.h"
#include "ulp/iscsi/sessions.h"
#include "ulp/iscsi/tcp_connection.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/wire/header.h"

namespace {

using namespace verbatim;
using namespace verbatim::ulp;

constexpr std::string_view kLogin(
    "InitiatorName=iqn.2026-01.test:i1\0TargetName=iqn.2026-01.test:t1\0", 66);

void check_codecs(ByteSpan bytes) {
  if (bytes.size() >= iscsi::kHeaderBytes) {
    const auto pdu = iscsi::decode_request(bytes.first<iscsi::kHeaderBytes>());
    if (pdu)
      VERBATIM_ASSERT(iscsi::decode_request(std::span<const std::byte, 48>(iscsi::encode(*pdu))) ==
                      *pdu);
  }
  if (bytes.size() >= iser::kHeaderBytes) {
    const auto header = iser::decode(bytes.first<iser::kHeaderBytes>());
    if (header)
      VERBATIM_ASSERT(iser::decode(std::span<const std::byte, 28>(iser::encode(*header))) ==
                      *header);
  }
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (const auto keys = iscsi::parse_keys(text)) {
    for (const iscsi::Key& key : *keys) {
      static_cast<void>(iscsi::parse_binary(key.value));
      static_cast<void>(iscsi::is_iscsi_name(key.value));
      static_cast<void>(iscsi::parse_number(key.value));
    }
  }
}

/// Nothing the target puts out is carried out but the store's work, which fails.
void drain(storage::Session& session, storage::Output& out) {
  for (int i = 0; i < 10'000; ++i) {
    const auto requests = out.store;
    const bool more = out.more;
    out.clear();
    for (const auto& request : requests) {
      if (const auto* const borrow = std::get_if<storage::Borrow>(&request))
        session.on_pages(borrow->tag, storage::StoreStatus::medium_error, {}, 0, out);
    }
    if (more) session.resume(0, out);
    if (!more && out.store.empty() && !out.more) return;
  }
  VERBATIM_ASSERT(false);
}

void feed(storage::Session& session, ByteSpan bytes, storage::Output& out) {
  std::vector<std::byte> copy(bytes.begin(), bytes.end());
  session.on_message({.memory = {copy.data(), static_cast<std::uint32_t>(copy.size()), {}}}, 0,
                     out);
  drain(session, out);
}

std::vector<std::byte> login_message(bool is_iser) {
  const iscsi::RequestHeader header{.opcode = iscsi::Opcode::login,
                                    .is_immediate = true,
                                    .flags = 0x87,
                                    .data_bytes = static_cast<std::uint32_t>(kLogin.size())};
  std::vector<std::byte> bytes;
  const auto add = [&bytes](ByteSpan part) { bytes.insert(bytes.end(), part.begin(), part.end()); };
  if (is_iser) add(iser::encode(iser::Header{}));
  add(iscsi::encode(header));
  add(std::as_bytes(std::span(kLogin)));
  if (!is_iser) bytes.resize(iscsi::padded(static_cast<std::uint32_t>(bytes.size())));
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  check_codecs(std::as_bytes(std::span(data, size)));
  Input input(data, size);
  std::vector<std::byte> memory(scsi::LogicalUnit::kMemoryBytes);
  const Slice piece{memory.data(), scsi::LogicalUnit::kMemoryBytes, {}};
  scsi::LogicalUnit unit(storage::UnitId{1}, {}, {.blocks = 1000, .ports = {1}});
  const bool is_iser = (input.byte() & 1) != 0, logs_in = (input.byte() & 1) != 0;
  iscsi::Sessions sessions(
      {.sessions = 1, .window = 8, .stashes = 2, .initial_r2t = (input.byte() & 1) != 0},
      {&piece, 1}, [](MutableByteSpan) {});
  auto target = *iscsi::Target::create("iqn.2026-01.test:t1");
  static_cast<void>(target.add(0, unit));
  target.admit_any();
  static_cast<void>(sessions.add(std::move(target)));
  iscsi::TcpService tcp(sessions);
  iser::Service iser(sessions);
  const Meeting meeting{.reads = {.initiator = 1, .responder = 1}};
  auto verdict = is_iser ? iser.on_meeting(meeting, 0) : tcp.on_meeting(meeting, 0);
  auto session = std::move(std::get<storage::Accept>(verdict).session);
  auto output = std::make_unique<storage::Output>();
  if (logs_in) feed(*session, login_message(is_iser), *output);
  while (!input.empty()) {
    std::vector<std::byte> message(1 + input.byte());
    for (std::byte& byte : message) byte = static_cast<std::byte>(input.byte());
    feed(*session, message, *output);
  }
  session->on_end(0, *output);
  drain(*session, *output);
  return 0;
}
