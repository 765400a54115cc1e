// A host of NVMe over Fabrics for tests: lists what a target shows, writes and reads with every
// byte compared, or says how it was refused.
//
//   nvme_host discover ADDRESS:PORT HOST
//   nvme_host crowd ADDRESS:PORT HOST NQN [hosts=N]
//   nvme_host io ADDRESS:PORT HOST NQN [queues=N] [rounds=N] [seed=N] [entries=N] [only=read]
//   [retries=N]
#include <cstdio>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "nvme_queue.h"
#include "sim/random.h"
#include "ulp/nvmeof/wire/identify_data.h"
#include "ulp/nvmeof/wire/log_pages.h"

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kAdminEntries = 32;
constexpr std::uint64_t kEnable = 0x460001;
constexpr int kExitRefused = 3;

std::unique_ptr<HostQueue> connect_admin(const Where& where) {
  std::string why;
  auto admin = HostQueue::connect(where, 0, kAdminEntries, ConnectData::kAnyController, why);
  if (admin == nullptr) {
    fmt::print("refused: {}\n", why);
    std::exit(kExitRefused);
  }
  if (static_cast<std::uint8_t>(admin->get(Property::capabilities) >> 37) != 1)
    give_up("the controller has no NVM command set");
  admin->set(Property::configuration, kEnable);
  if (admin->get(Property::status) != 1) give_up("the controller is not ready");
  return admin;
}

int discover(const Where& where) {
  const auto admin = connect_admin(where);
  AdminCommand command{.data = admin->describe(0, 1024)};
  put_log_request({LogPage::discovery, 0, 1024}, command);
  if (admin->ask(command).status != Status::success) give_up("no discovery log");
  const std::uint64_t count = decode_discovery_header(admin->slot(0))->entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    put_log_request({LogPage::discovery, 1024 * (i + 1), 1024}, command);
    if (admin->ask(command).status != Status::success) give_up("an entry is not there");
    const auto* const entry = reinterpret_cast<const char*>(admin->slot(0).data());
    fmt::print("{} at {} {}\n", entry + 256, entry + 512, entry + 32);
  }
  return 0;
}

/// What a block of the disk should have.
std::uint64_t word_of(std::uint64_t seed, std::uint64_t block) {
  return sim::Random(seed ^ block * 0x9e3779b97f4a7c15).next();
}

/// The disk in sectors of 512 bytes; its blocks are so many sectors each.
struct Disk {
  std::uint64_t sectors = 0, sectors_per_block = 1;
};

/// Writes pieces of its share of the disk and reads them back, with many commands at a time.
class Worker {
 public:
  Worker(HostQueue& queue, const Disk& disk, std::uint32_t slots, std::uint64_t first,
         std::uint64_t blocks, std::uint64_t seed)
      : queue_(queue),
        disk_(disk),
        slots_(slots),
        first_(first),
        blocks_(blocks),
        seed_(seed),
        random_(seed) {}

  /// One pass over all its blocks.
  bool pass(bool is_write) {
    std::uint64_t at = first_;
    std::vector<std::uint32_t> free;
    for (std::uint32_t i = 0; i < slots_; ++i) free.push_back(i);
    std::map<std::uint32_t, Piece> out;
    while (at < first_ + blocks_ || !out.empty()) {
      while (at < first_ + blocks_ && !free.empty()) {
        const std::uint64_t wanted = random_.chance(0.5) ? 8 : random_.between(1, 255);
        const std::uint64_t whole =
            std::max(wanted - wanted % disk_.sectors_per_block, disk_.sectors_per_block);
        const std::uint64_t count = std::min<std::uint64_t>(first_ + blocks_ - at, whole);
        send(free.back(), {at, count}, is_write);
        out[free.back()] = {at, count};
        free.pop_back();
        at += count;
      }
      const auto answer = queue_.next();
      if (!answer) return false;
      if (answer->status != Status::success)
        give_up(fmt::format("status {:#x}", raw(answer->status)));
      const std::uint32_t slot = raw(answer->command);
      if (!is_write) check(slot, out.at(slot));
      out.erase(slot);
      free.push_back(slot);
    }
    return true;
  }

 private:
  struct Piece {
    std::uint64_t first = 0, count = 0;
  };

  void send(std::uint32_t slot, const Piece& piece, bool is_write) {
    const auto bytes = static_cast<std::uint32_t>(piece.count * 512);
    auto memory = queue_.slot(slot).first(bytes);
    Command command{.opcode = is_write ? Opcode::write : Opcode::read,
                    .id = CommandId{static_cast<std::uint16_t>(slot)},
                    .namespace_id = 1,
                    .data = queue_.describe(slot, bytes),
                    .first_block = piece.first / disk_.sectors_per_block,
                    .blocks = static_cast<std::uint32_t>(piece.count / disk_.sectors_per_block)};
    for (std::uint64_t i = 0; i < bytes / 8; ++i) {
      const std::uint64_t word = is_write ? word_of(seed_, piece.first + i / 64) + i % 64 : 0;
      store_le(&memory[i * 8], word);
    }
    const bool is_in_capsule = is_write && bytes <= 4096 && random_.chance(0.5);
    if (is_in_capsule) command.data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = bytes};
    std::array<std::byte, Command::kSize> capsule;
    encode(command, capsule);
    queue_.send(capsule, is_in_capsule ? ByteSpan(memory) : ByteSpan());
  }

  void check(std::uint32_t slot, const Piece& piece) {
    const auto memory = queue_.slot(slot);
    for (std::uint64_t i = 0; i < piece.count * 64; ++i) {
      const std::uint64_t block = piece.first + i / 64;
      if (load_le<std::uint64_t>(&memory[i * 8]) != word_of(seed_, block) + i % 64)
        give_up(fmt::format("block {} has other bytes than were written", block));
    }
  }

  HostQueue& queue_;
  const Disk disk_;
  const std::uint32_t slots_;
  const std::uint64_t first_, blocks_, seed_;
  sim::Random random_;
};

Disk disk_of(HostQueue& admin) {
  AdminCommand command{.opcode = AdminOpcode::identify,
                       .namespace_id = 1,
                       .data = admin.describe(0, kIdentifyBytes)};
  if (admin.ask(command).status != Status::success) give_up("no namespace 1");
  constexpr std::size_t kFirstFormat = 128;  // NVMe base specification, Identify Namespace: LBAF0.
  const auto data = admin.slot(0);
  const std::uint64_t per_block = 1u << (std::to_integer<unsigned>(data[kFirstFormat + 2]) - 9);
  return {load_le<std::uint64_t>(data.data()) * per_block, per_block};
}

int io(const Where& where, std::map<std::string, std::string> options) {
  const auto number = [&](const char* name, std::uint64_t otherwise) {
    return options.contains(name) ? std::stoull(options[name]) : otherwise;
  };
  const auto queue_count = static_cast<std::uint16_t>(number("queues", 2));
  const auto entries = static_cast<std::uint32_t>(number("entries", 32));
  const auto admin = connect_admin(where);
  const Disk disk = disk_of(*admin);
  std::uint64_t share = std::min<std::uint64_t>(disk.sectors, 32768) / queue_count;
  share -= share % disk.sectors_per_block;
  std::vector<std::unique_ptr<HostQueue>> queues;
  std::deque<Worker> workers;
  for (std::uint16_t i = 1; i <= queue_count; ++i) {
    std::string why;
    queues.push_back(HostQueue::connect(where, i, entries, admin->controller(), why));
    if (queues.back() == nullptr) give_up(fmt::format("queue {}: {}", i, why));
    workers.emplace_back(*queues.back(), disk, entries - 1, (i - 1) * share, share,
                         number("seed", 1));
  }
  fmt::print("connected\n");
  std::fflush(stdout);
  for (std::uint64_t round = 0; round < number("rounds", 2); ++round) {
    for (Worker& worker : workers) {
      const bool is_there = (options["only"] == "read" || worker.pass(true)) && worker.pass(false);
      if (!is_there) give_up("the connection is over");
    }
    if (round == 0) fmt::print("one round\n"), std::fflush(stdout);
  }
  fmt::print("all bytes are right\n");
  return 0;
}

/// Connects as many hosts, each with a small admin queue, and asks each controller for its state.
int crowd(Where where, std::uint32_t hosts) {
  where.slot_bytes = ConnectData::kSize;
  std::vector<std::unique_ptr<HostQueue>> queues;
  for (std::uint32_t i = 0; i < hosts; ++i) {
    std::string why;
    queues.push_back(HostQueue::connect(where, 0, 2, ConnectData::kAnyController, why));
    if (queues.back() == nullptr) give_up(fmt::format("host {}: {}", i, why));
  }
  for (const auto& queue : queues) {
    if (queue->get(Property::capabilities) == 0) give_up("no capabilities");
  }
  fmt::print("all are connected\n");
  std::fflush(stdout);
  std::getchar();  // Until the test has looked.
  return 0;
}

int run(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 3) give_up("see the head of nvme_host.cpp");
  const std::size_t colon = words[1].rfind(':');
  Where where{.address = words[1].substr(0, colon),
              .port = static_cast<std::uint16_t>(std::stoi(words[1].substr(colon + 1))),
              .subsystem = std::string(kDiscoveryNqn),
              .host = words[2]};
  if (words[0] == "discover") return discover(where);
  where.subsystem = words.at(3);
  std::map<std::string, std::string> options;
  for (std::size_t i = 4; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    options[words[i].substr(0, equals)] = words[i].substr(equals + 1);
  }
  if (options.contains("retries"))
    where.retries = static_cast<std::uint8_t>(std::stoi(options["retries"]));
  if (words[0] == "crowd")
    return crowd(where, static_cast<std::uint32_t>(std::stoul(options["hosts"])));
  return io(where, std::move(options));
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof

int main(int argc, char** argv) { return verbatim::ulp::nvmeof::run(argc, argv); }
