// What a read of 4 KiB costs a storage target, without the adapter: its sessions, the runner, a
// disk in memory and the work requests that are made, 32 reads at a time. Counts instructions.
//
//   bench_storage_steps nvme|iser|srp            of a read
//   bench_storage_steps nvme|iser|srp --where    their places, as steps.py reads them
//   bench_storage_steps nvme|iser|srp ROUNDS     rounds of 32 reads, not counted: for a profiler

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/inplace_vector.h"
#include "bench/expect.h"
#include "bench/trace.h"
#include "ulp/backstore/ram_store.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/wire/header.h"
#include "ulp/nvmeof/portal.h"
#include "ulp/rdma/connection.h"
#include "ulp/srp/service.h"
#include "ulp/target/runner.h"

namespace verbatim {
namespace {

using bench::expect;
using bench::fail;
using namespace ulp;

constexpr std::uint32_t kDepth = 32, kBytes = 4096, kBlockBytes = 512;
constexpr std::uint64_t kDiskBytes = 16 << 20;
constexpr std::uint32_t kWarmUp = 8;  // Rounds.
constexpr TimeNs kNow = kSecond;

/// Takes each request of one queue pair, and moves nothing.
struct NullAdapter {
  NullAdapter() {
    context.ops.post_send = [](ibv_qp* at, ibv_send_wr* request, ibv_send_wr**) {
      auto& own = *static_cast<NullAdapter*>(at->qp_context);
      for (; request != nullptr; request = request->next)
        if ((request->send_flags & IBV_SEND_SIGNALED) != 0) own.signaled.push(request->wr_id);
      return 0;
    };
    queue_pair.context = &context;
    queue_pair.qp_context = this;
  }
  ibv_context context{};
  ibv_qp queue_pair{};
  InplaceVector<std::uint64_t, 4 * kDepth> signaled;
};

class NullCarrier final : public rdma::Carrier {
 public:
  struct Peer {
    NullAdapter adapter;
    std::optional<rdma::Connection> connection;
  };
  Result<void> accept(rdma::ConnectionId id, const QueueSizes& sizes, ByteSpan) override {
    // All headers are sent inline: there is no registered memory to copy them to.
    constexpr std::uint32_t kInline = 1024;
    Peer& peer = peers[number_of(id)];
    peer.connection.emplace(rdma::Connection::Setup{.queue_pair = &peer.adapter.queue_pair,
                                                    .number = number_of(id),
                                                    .count = count_of(id),
                                                    .depth = sizes.sends,
                                                    .slices = sizes.send_slices,
                                                    .inline_bytes = kInline});
    return {};
  }
  void reject(rdma::ConnectionId, ByteSpan) override { fail("the target rejects the connection"); }
  void disconnect(rdma::ConnectionId, const std::string& words, TimeNs) override { fail(words); }
  void carry_out(rdma::ConnectionId id, std::span<const Work> work, TimeNs) override {
    if (const auto why = peers[number_of(id)].connection->carry_out(work)) fail(*why);
  }
  void post_again(ReceiveId) override {}

  std::array<Peer, 2> peers;
};

class NoRegistrar final : public backstore::Registrar {
 public:
  Result<MemoryKey> add(std::span<std::byte>) override { return MemoryKey{1}; }
  void remove(MemoryKey) override {}
};

struct NoAnswers final : backstore::Answers {
  void on_pages(Tag, storage::StoreStatus, std::span<const Slice>) override {}
  void on_stored(Tag, storage::StoreStatus) override {}
};

/// The runner with a disk that was written before.
class Target {
 public:
  Target() {
    NoAnswers answers;
    store_->borrow(
        {.offset = 0, .bytes = std::uint32_t{kDiskBytes}, .access = storage::Access::write},
        answers);
    store_->give_back({});
  }
  ~Target() { runner_.clear(); }

  void connect(std::uint32_t number, storage::Service& service, const PrivateData& data) {
    runner_.serve({}, service, carrier_);
    Meeting meeting{.own = SocketAddress::ipv4({10, 0, 0, 1}, 4420),
                    .reads = {.initiator = 16, .responder = 16}};
    meeting.private_data = data;
    handler().on_requested({{}, rdma::connection_id(number, 0), meeting}, kNow);
  }
  void on_message(std::uint32_t number, std::span<std::byte> bytes) {
    const Message message{.memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}};
    handler().on_message(rdma::connection_id(number, 0), message, kNow, work_);
  }
  /// All that was posted ends, and what had no room is posted.
  void complete(std::uint32_t number) {
    auto& [adapter, connection] = carrier_.peers[number];
    while (!adapter.signaled.empty()) {
      for (const std::uint64_t id : std::exchange(adapter.signaled, {})) {
        connection->on_ended({.id = rdma::WorkId::decode(id)}, [&](Tag tag) {
          handler().on_done(rdma::connection_id(number, 0), tag, CompletionStatus::success, kNow,
                            work_);
        });
      }
      if (const auto why = connection->resume()) fail(*why);
    }
  }
  std::size_t signaled(std::uint32_t number) const {
    return carrier_.peers[number].adapter.signaled.size();
  }
  storage::UnitId unit() const { return unit_; }

 private:
  rdma::Handler& handler() { return runner_; }

  std::unique_ptr<backstore::RamStore> store_ =
      expect(backstore::RamStore::create(std::make_unique<NoRegistrar>(), kDiskBytes, kBlockBytes));
  target::Runner runner_;
  NullCarrier carrier_;
  const storage::UnitId unit_ = runner_.add(*store_);
  WorkList work_;
};

using Bytes = std::vector<std::byte>;

/// A protocol's initiator, as far as one is needed: it does not look at answers.
class Way {
 public:
  virtual ~Way() = default;
  virtual void log_in() = 0;
  /// The message of one more read.
  virtual Bytes read(std::uint32_t number) = 0;
  virtual std::uint32_t connection() const { return 0; }

 protected:
  static std::uint64_t block_of(std::uint32_t number) {
    return std::uint64_t{number} * 7919 % (kDiskBytes / kBytes) * (kBytes / kBlockBytes);
  }
  static std::array<std::byte, 16> cdb_of(std::uint32_t number) {
    std::array<std::byte, 16> cdb{std::byte{0x28}};
    store_be(&cdb[2], static_cast<std::uint32_t>(block_of(number)));
    store_be(&cdb[7], std::uint16_t{kBytes / kBlockBytes});
    return cdb;
  }
  std::unique_ptr<scsi::LogicalUnit> make_unit() const {
    scsi::UnitSettings settings;
    settings.blocks = kDiskBytes / kBlockBytes;
    settings.ports = {1};
    return std::make_unique<scsi::LogicalUnit>(target_.unit(), scsi::Identity{}, settings);
  }
  Target target_;

 public:
  Target& target() { return target_; }
};

/// Registered memory of SCSI's sessions, which reads do not use.
struct Pieces {
  std::array<std::byte, 2 * scsi::LogicalUnit::kMemoryBytes> memory{};
  std::array<Slice, 2> slices{
      Slice{memory.data(), scsi::LogicalUnit::kMemoryBytes, {}},
      Slice{&memory[scsi::LogicalUnit::kMemoryBytes], scsi::LogicalUnit::kMemoryBytes, {}}};
};

class Iser final : public Way {
 public:
  void log_in() override {
    auto made = expect(iscsi::Target::create("iqn.2026-01.test:t"));
    expect(made.add(0, *unit_));
    made.admit_any();
    expect(sessions_.add(std::move(made)));
    const std::array flags{std::byte{iser::kNoZeroBased | iser::kNoInvalidate}, std::byte{},
                           std::byte{}, std::byte{}};
    target_.connect(0, service_, to_private_data(flags));
    std::string text;
    for (const std::string_view key : {"InitiatorName=iqn.2026-01.test:i",
                                       "TargetName=iqn.2026-01.test:t", "RDMAExtensions=Yes"})
      text.append(key).push_back('\0');
    Bytes login = message({.opcode = iscsi::Opcode::login,
                           .is_immediate = true,
                           .flags = 0x87,
                           .data_bytes = static_cast<std::uint32_t>(text.size()),
                           .lun = 0x23d0000010000,
                           .cmd_sn = 1},
                          {});
    for (const char letter : text) login.push_back(static_cast<std::byte>(letter));
    target_.on_message(0, login);
    target_.complete(0);
  }
  Bytes read(std::uint32_t number) override {
    return message({.opcode = iscsi::Opcode::scsi_command,
                    .flags = iscsi::kFinal | iscsi::kReads,
                    .task_tag = number,
                    .word_20 = kBytes,
                    .cmd_sn = number + 1,
                    .cdb = cdb_of(number)},
                   {.write = {}, .read = iser::Buffer{7, 0x1000}});
  }

 private:
  static Bytes message(const iscsi::RequestHeader& request, const iser::Header& header) {
    const auto head = iser::encode(header);
    const auto pdu = iscsi::encode(request);
    Bytes bytes(head.begin(), head.end());
    bytes.insert(bytes.end(), pdu.begin(), pdu.end());
    return bytes;
  }
  Pieces pieces_;
  std::unique_ptr<scsi::LogicalUnit> unit_ = make_unit();
  iscsi::Sessions sessions_{{.sessions = 2}, pieces_.slices, [](MutableByteSpan) {}};
  iser::Service service_{sessions_};
};

class Srp final : public Way {
 public:
  void log_in() override {
    auto* const port = expect(ports_.add(srp::Port(kOurs, "target")));
    port->admit_any();
    expect(port->add(0, *unit_));
    const auto login =
        srp::encode({.tag = 1, .request_bytes = 8260, .initiator = kTheirs, .target = kOurs},
                    srp::LoginForm::rdma_cm);
    target_.connect(0, service_, to_private_data(ByteSpan(login).first(56)));
  }
  Bytes read(std::uint32_t number) override {
    Bytes bytes(srp::Command::kSize + srp::Buffer::kRangeBytes);
    bytes[0] = std::byte{raw(srp::Opcode::command)};
    bytes[5] = std::byte{raw(srp::Format::direct)};
    store_be(&bytes[srp::kTagAt], std::uint64_t{number});
    std::ranges::copy(cdb_of(number), &bytes[32]);
    store_be(&bytes[48], std::uint64_t{0x1000});
    store_be(&bytes[56], std::uint32_t{7});
    store_be(&bytes[60], kBytes);
    return bytes;
  }

 private:
  static constexpr srp::PortId kOurs{std::byte{1}}, kTheirs{std::byte{2}};
  Pieces pieces_;
  std::unique_ptr<scsi::LogicalUnit> unit_ = make_unit();
  srp::Ports ports_{{.channels = 1}, pieces_.slices};
  srp::Service service_{ports_};
};

class Nvme final : public Way {
 public:
  void log_in() override {
    auto subsystem = expect(nvmeof::Subsystem::create(kNqn));
    subsystem.admit_any_host();
    expect(subsystem.add(
        1, {.unit = target_.unit(), .blocks = kDiskBytes / kBlockBytes, .can_reserve = true}));
    expect(all_.add(std::move(subsystem)));
    connect(0, 32);
    nvmeof::AdminCommand enable;
    put_property(nvmeof::FabricsType::property_set,
                 {nvmeof::Property::configuration, false, 0x460001}, enable);
    Bytes bytes(nvmeof::AdminCommand::kSize);
    encode(enable, std::span(bytes).first<nvmeof::AdminCommand::kSize>());
    target_.on_message(0, bytes);
    connect(1, 128);
  }
  Bytes read(std::uint32_t number) override {
    Bytes bytes(nvmeof::Command::kSize);
    encode(nvmeof::Command{.opcode = nvmeof::Opcode::read,
                           .id = nvmeof::CommandId{static_cast<std::uint16_t>(number)},
                           .namespace_id = 1,
                           .data = {.kind = nvmeof::DataDescriptor::Kind::keyed,
                                    .address = 0x1000,
                                    .bytes = kBytes,
                                    .key = MemoryKey{7}},
                           .first_block = block_of(number),
                           .blocks = kBytes / kBlockBytes},
           std::span(bytes).first<nvmeof::Command::kSize>());
    return bytes;
  }
  std::uint32_t connection() const override { return 1; }

 private:
  void connect(std::uint16_t queue, std::uint32_t commands) {
    target_.connect(queue, portal_,
                    encode(nvmeof::QueueRequest{.queue_id = queue,
                                                .receives = static_cast<std::uint16_t>(commands),
                                                .commands = commands}));
    nvmeof::AdminCommand command{.data = {.kind = nvmeof::DataDescriptor::Kind::in_capsule,
                                          .bytes = nvmeof::ConnectData::kSize}};
    put_connect({.queue_id = queue, .commands = commands, .keep_alive_ms = 5000}, command);
    nvmeof::ConnectData data{.subsystem = kNqn, .host = kHost};
    if (queue > 0) data.controller_id = 1;
    Bytes bytes(nvmeof::AdminCommand::kSize + nvmeof::ConnectData::kSize);
    encode(command, std::span(bytes).first<nvmeof::AdminCommand::kSize>());
    encode(data,
           std::span(bytes).subspan<nvmeof::AdminCommand::kSize, nvmeof::ConnectData::kSize>());
    target_.on_message(queue, bytes);
  }
  static constexpr const char *kNqn = "nqn.2026-01.test:n", *kHost = "nqn.2026-01.test:h";
  nvmeof::Target all_{nvmeof::Limits{}};
  nvmeof::Portal portal_{all_, SocketAddress::ipv4({10, 0, 0, 1}, 4420), 256};
};

std::unique_ptr<Way> make(std::string_view name) {
  if (name == "nvme") return std::make_unique<Nvme>();
  if (name == "iser") return std::make_unique<Iser>();
  if (name == "srp") return std::make_unique<Srp>();
  fail("see the first lines of bench/storage_steps.cpp");
}

std::vector<Bytes> messages_of(Way& way, std::uint32_t rounds) {
  std::vector<Bytes> messages;
  for (std::uint32_t i = 0; i < rounds * kDepth; ++i) messages.push_back(way.read(i));
  return messages;
}

/// Messages come, then all that was posted for them ends.
void run_round(Way& way, std::span<Bytes> messages) {
  for (Bytes& one : messages) way.target().on_message(way.connection(), one);
  if (way.target().signaled(way.connection()) == 0) fail("the target answers nothing");
  way.target().complete(way.connection());
}

void run(Way& way, std::span<Bytes> messages) {
  for (; !messages.empty(); messages = messages.subspan(kDepth))
    run_round(way, messages.first(kDepth));
}

}  // namespace
}  // namespace verbatim

int main(int argc, char** argv) {
  using namespace verbatim;
  const std::string_view what = argc > 2 ? argv[2] : "";
  const auto way = make(argc > 1 ? argv[1] : "");
  way->log_in();
  const bool is_counted = argc == 2 || what == "--where";
  auto messages =
      messages_of(*way, is_counted ? kWarmUp + 1 : static_cast<std::uint32_t>(std::atoi(argv[2])));
  if (!is_counted) {
    run(*way, messages);
    std::_Exit(0);  // Sessions are still there.
  }
  const auto parts = trace::parts_of([&] {
    const auto last = std::span(messages).last(kDepth);
    run(*way, std::span(messages).first(messages.size() - kDepth));
    trace::breakpoint();
    run_round(*way, last);
    trace::breakpoint();
  });
  if (what == "--where")
    trace::print("32 reads", parts[0]);
  else
    std::printf("%zu instructions a read\n", parts[0].size() / kDepth);
  std::fflush(stdout);
  std::_Exit(0);
}
