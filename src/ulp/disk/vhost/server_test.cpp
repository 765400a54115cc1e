#include "ulp/disk/vhost/server.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/os/passed_descriptors.h"
#include "ulp/disk/vhost/guest_for_test.h"

namespace verbatim::ulp::disk::vhost {
namespace {

constexpr std::size_t kDiskBytes = 1 << 20, kGuestBytes = 1 << 20;
enum Type : std::uint32_t { in = 0, out = 1, flush = 4, get_id = 8, discard = 11, zeroes = 13 };

/// Memory, which answers at once, or when the test says so.
struct FakeDisk {
  storage::DiskFacts facts{.bytes = kDiskBytes,
                           .clear_bytes_max = kDiskBytes,
                           .can_discard = true,
                           .can_write_zeroes = true,
                           .name = "fake"};
  std::vector<std::byte> bytes = std::vector<std::byte>(kDiskBytes);
  std::vector<Ask*> held;
  std::vector<Ask::Kind> asked;
  bool holds = false;

  void ask(Ask& ask) {
    asked.push_back(ask.kind);
    holds ? held.push_back(&ask) : answer(ask);
  }
  void answer(Ask& ask) {
    if (ask.offset > kDiskBytes || ask.bytes > kDiskBytes - ask.offset) ask.error = EINVAL;
    if (ask.error == 0 && ask.kind == Ask::Kind::read)
      std::memcpy(ask.data, &bytes[ask.offset], ask.bytes);
    if (ask.error == 0 && ask.kind == Ask::Kind::write)
      std::memcpy(&bytes[ask.offset], ask.data, ask.bytes);
    if (ask.error == 0 && ask.kind == Ask::Kind::write_zeroes)
      std::fill_n(&bytes[ask.offset], ask.bytes, std::byte{0});
    ask.is_answered = true;
    ask.user->on_answered();
  }
};

/// As QEMU: memory in a file, two events, messages over the socket.
class Frontend {
 public:
  explicit Frontend(const std::string& path)
      : file_(memfd_create("guest", MFD_CLOEXEC)),
        kick_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        call_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        socket_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    EXPECT_EQ(ftruncate(file_.get(), kGuestBytes), 0);
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, kGuestBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_.get(), 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  }
  ~Frontend() { munmap(memory_, kGuestBytes); }
  Frontend(const Frontend&) = delete;
  Frontend& operator=(const Frontend&) = delete;

  MutableByteSpan memory() const { return {memory_, kGuestBytes}; }
  void send(Request request, std::vector<std::uint32_t> payload, std::span<const int> fds = {},
            bool needs_reply = false) {
    const std::uint32_t header[] = {static_cast<std::uint32_t>(request), needs_reply ? 9U : 1U,
                                    static_cast<std::uint32_t>(payload.size() * 4)};
    const iovec pieces[] = {{const_cast<std::uint32_t*>(header), sizeof header},
                            {payload.data(), payload.size() * 4}};
    EXPECT_TRUE(send_message(socket_.get(), pieces, fds));
  }
  void send_table() {
    const int fd = file_.get();
    send(Request::set_mem_table, words(1, Guest::kGuest, kGuestBytes, Guest::kUser, 0), {&fd, 1});
  }
  /// All that starts the ring.
  void start(std::uint64_t features, std::uint32_t base = 0) {
    const int kick = kick_.get(), call = call_.get();
    const VringAddress at = Guest::addresses();
    send(Request::set_features, words(features));
    send_table();
    send(Request::set_vring_num, {0, Guest::kEntries});
    send(Request::set_vring_base, {0, base});
    send(Request::set_vring_addr, words(0, at.descriptors, at.used, at.available, 0));
    send(Request::set_vring_kick, words(0), {&kick, 1});
    send(Request::set_vring_call, words(0), {&call, 1});
    send(Request::set_vring_enable, {0, 1});
  }
  void kick() const { eventfd_write(kick_.get(), 1); }
  bool was_called() const {
    eventfd_t count = 0;
    return eventfd_read(call_.get(), &count) == 0;
  }
  /// What has come; empty: nothing, or the end.
  Bytes receive() const {
    Bytes bytes(kMessageBytesMax);
    const auto got = recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  bool has_ended() const {
    std::byte one;
    const auto got = recv(socket_.get(), &one, 1, MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }

  template <typename... T>
  static std::vector<std::uint32_t> words(T... numbers) {
    std::vector<std::uint32_t> words;
    for (const std::uint64_t number : {static_cast<std::uint64_t>(numbers)...}) {
      words.push_back(static_cast<std::uint32_t>(number));
      words.push_back(static_cast<std::uint32_t>(number >> 32));
    }
    return words;
  }

 private:
  UniqueFd file_, kick_, call_, socket_;
  std::byte* memory_ = nullptr;
};

struct VhostServer : testing::Test {
  VhostServer() { open(); }
  void open() {
    auto opened = Server::open(path, *loop, disk.facts, [this](Ask& ask) { disk.ask(ask); });
    ASSERT_TRUE(opened) << opened.error().text;
    server = std::move(*opened);
  }
  ~VhostServer() override {
    server.reset();
    rmdir(folder.c_str());
  }
  /// Until nothing more happens.
  void settle() {
    for (int idle = 0; idle < 3;) idle = loop->turn(0) == 0 ? idle + 1 : 0;
  }
  void connect() {
    frontend = std::make_unique<Frontend>(path);
    guest.emplace(frontend->memory());
  }
  void start(std::uint32_t base = 0) {
    connect();
    frontend->start(features_of(disk.facts), base);
    settle();
  }
  /// One request with its head, data and status in a slot of its own.
  void ask(std::uint16_t slot, Type type, std::uint64_t sector, std::uint32_t bytes) {
    const std::uint64_t at = slot * 0x2000U;
    std::memcpy(guest->data_at(at), &type, sizeof type);
    std::memcpy(guest->data_at(at + 8), &sector, sizeof sector);
    *guest->data_at(at + 16) = std::byte{0xff};
    const bool is_read = type == in || type == get_id;
    guest->set_chain(static_cast<std::uint16_t>(slot * 4),
                     {{Guest::data(at), 16},
                      {Guest::data(at + 0x1000), bytes, is_read ? kWrite : std::uint16_t{0}},
                      {Guest::data(at + 16), 1, kWrite}});
    guest->offer(static_cast<std::uint16_t>(slot * 4));
    frontend->kick();
  }
  std::byte* data(std::uint16_t slot) { return guest->data_at(slot * 0x2000U + 0x1000); }
  int status(std::uint16_t slot) {
    return std::to_integer<int>(*guest->data_at(slot * 0x2000U + 16));
  }
  int done(std::uint16_t slot, Type type, std::uint64_t sector, std::uint32_t bytes) {
    ask(slot, type, sector, bytes);
    settle();
    return status(slot);
  }
  static std::string new_folder() {
    std::string name = testing::TempDir() + "vhost-XXXXXX";
    return mkdtemp(name.data()) == nullptr ? "" : name;
  }

  const std::string folder = new_folder(), path = folder + "/socket";
  FakeDisk disk;
  std::unique_ptr<service::Loop> loop = service::Loop::create().value();
  std::unique_ptr<Server> server;
  std::unique_ptr<Frontend> frontend;
  std::optional<Guest> guest;
};

TEST_F(VhostServer, AGuestWritesReadsAndFlushes) {
  start();
  std::fill_n(data(0), 1024, std::byte{7});
  EXPECT_EQ(done(0, out, 2, 1024), 0);
  EXPECT_EQ(disk.bytes[1023], std::byte{0});
  EXPECT_EQ(disk.bytes[1024], std::byte{7});
  EXPECT_EQ(done(1, in, 2, 1024), 0);
  EXPECT_EQ(*(data(1) + 1023), std::byte{7});
  EXPECT_EQ(done(0, flush, 0, 0), 0);
  EXPECT_EQ(disk.asked.back(), Ask::Kind::flush);
  EXPECT_EQ(done(1, get_id, 0, 20), 0);
  EXPECT_STREQ(reinterpret_cast<char*>(data(1)), "fake");
  EXPECT_EQ(guest->used(), 4);
  EXPECT_EQ(guest->used_at(0), (Guest::Used{0, 1}));
  EXPECT_EQ(guest->used_at(1), (Guest::Used{4, 1025}));
  EXPECT_TRUE(frontend->was_called());
  EXPECT_EQ(done(0, in, kDiskBytes / 512, 512), 1) << "behind the disk's end";
}

TEST_F(VhostServer, AGuestClears) {
  start();
  std::ranges::fill(disk.bytes, std::byte{5});
  const std::uint32_t range[] = {1, 0, 2, 1};  // Two sectors from 1, which need not be kept.
  std::memcpy(data(0), range, sizeof range);
  EXPECT_EQ(done(0, zeroes, 0, sizeof range), 0);
  EXPECT_EQ(disk.bytes[511], std::byte{5});
  EXPECT_EQ(disk.bytes[512], std::byte{0});
  EXPECT_EQ(disk.bytes[1536], std::byte{5});
  std::memcpy(data(1), range, sizeof range);
  EXPECT_EQ(done(1, discard, 0, sizeof range), 2) << "its flags are none of a discard's";
  const std::uint32_t plain[] = {1, 0, 2, 0};
  std::memcpy(data(0), plain, sizeof plain);
  EXPECT_EQ(done(0, discard, 0, sizeof plain), 0);
}

TEST_F(VhostServer, AReadOnlyDiskIsNotWritten) {
  disk.facts.is_read_only = true;
  start();
  EXPECT_EQ(done(0, out, 0, 512), 1);
  EXPECT_TRUE(disk.asked.empty());
}

TEST_F(VhostServer, AWriteOfADriverThatCannotFlushIsMadeStable) {
  connect();
  frontend->start(features_of(disk.facts) & ~kFlush);
  settle();
  EXPECT_EQ(done(0, out, 0, 512), 0);
  EXPECT_EQ(disk.asked, (std::vector{Ask::Kind::write, Ask::Kind::flush}));
  EXPECT_EQ(guest->used(), 1);
}

TEST_F(VhostServer, AnswersComeInTheOrderOfTheRing) {
  start();
  disk.holds = true;
  ask(0, in, 0, 512), ask(1, in, 1, 512);
  settle();
  ASSERT_EQ(disk.held.size(), 2U);
  disk.answer(*disk.held[1]);
  settle();
  EXPECT_EQ(guest->used(), 0);
  disk.answer(*disk.held[0]);
  settle();
  EXPECT_EQ(guest->used(), 2);
  EXPECT_EQ(guest->used_at(0).head, 0U);
}

TEST_F(VhostServer, ARingStopsWhenAllIsAnswered) {
  start();
  disk.holds = true;
  ask(0, in, 0, 512);
  settle();
  frontend->send(Request::get_vring_base, {0, 0});
  settle();
  EXPECT_TRUE(frontend->receive().empty());
  ask(1, in, 0, 512);
  disk.answer(*disk.held[0]);
  settle();
  EXPECT_EQ(frontend->receive(), encode_reply(Request::get_vring_base, VringState{0, 1}));
  EXPECT_EQ(guest->used(), 1);
  EXPECT_EQ(disk.held.size(), 1U) << "what came after is the next start's";
  disk.holds = false;
  frontend->start(features_of(disk.facts), 1);
  settle();
  EXPECT_EQ(guest->used(), 2);
}

TEST_F(VhostServer, AFrontendComesAgainWhenNothingOfTheLastOneIsUnderWay) {
  start();
  disk.holds = true;
  ask(0, out, 0, 512);
  settle();
  frontend.reset();
  settle();
  connect();
  frontend->send(Request::get_features, {});
  settle();
  EXPECT_TRUE(frontend->receive().empty()) << "a write could come behind the new one's";
  disk.answer(*disk.held[0]);
  settle();
  EXPECT_EQ(frontend->receive(), encode_reply(Request::get_features, features_of(disk.facts)));
  disk.holds = false;
  frontend->start(features_of(disk.facts));
  settle();
  EXPECT_EQ(done(0, in, 0, 512), 0);
}

TEST_F(VhostServer, TheSocketIsTheUsersAndGoes) {
  struct stat info{};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
  const auto second = Server::open(path, *loop, disk.facts, [](Ask&) {});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, EADDRINUSE);
  server.reset();
  EXPECT_NE(stat(path.c_str(), &info), 0);
  // One that was killed.
  const UniqueFd left(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(bind(left.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  open();
}

TEST_F(VhostServer, RepliesAreThoseThatWereAskedFor) {
  connect();
  frontend->send(Request::get_protocol_features, {});
  settle();
  EXPECT_EQ(frontend->receive(),
            encode_reply(Request::get_protocol_features, kOurProtocolFeatures));
  frontend->send(Request::set_protocol_features, Frontend::words(kReplyAck | kConfig));
  frontend->send(Request::set_owner, {}, {}, true);
  settle();
  EXPECT_EQ(frontend->receive(), encode_reply(Request::set_owner, std::uint64_t{0}));
  frontend->send(Request::set_vring_num, {0, 3}, {}, true);
  settle();
  EXPECT_EQ(frontend->receive(), encode_reply(Request::set_vring_num, std::uint64_t{1}));
  frontend->send(Request::get_config, {0, 8, 0, 0, 0});
  settle();
  const std::uint64_t sectors = kDiskBytes / 512;
  EXPECT_EQ(frontend->receive(),
            encode_reply(Request::get_config, {0, 8, 0}, std::as_bytes(std::span(&sectors, 1))));
}

TEST_F(VhostServer, AFrontendThatBreaksTheRulesIsGivenUp) {
  const UniqueFd file(memfd_create("plain", MFD_CLOEXEC));
  const int fds[] = {file.get(), file.get(), file.get(), file.get(), file.get(),
                     file.get(), file.get(), file.get(), file.get()};
  const auto some = [&fds](std::size_t count) { return std::span(fds).first(count); };
  struct Row {
    Request request;
    std::vector<std::uint32_t> payload;
    std::size_t descriptors;
  };
  const Row rows[] = {
      {Request{6}, {0, 0}, 0},
      {Request::set_features, {0, 1 << 2}, 0},  // Packed rings.
      {Request::set_vring_num, {0, 2048}, 0},
      {Request::set_vring_num, {1, 8}, 0},
      {Request::set_vring_base, {0, 0x10000}, 0},
      {Request::get_vring_base, {5, 0}, 0},
      {Request::set_vring_kick, {0, 0}, 0},
      {Request::set_vring_kick, {0x100, 0}, 0},  // To be polled.
      {Request::set_vring_kick, {0, 0}, 1},      // A file has no events.
      {Request::set_vring_call, {1, 0}, 1},
      {Request::set_vring_call, {0, 0}, 2},
      {Request::set_mem_table, Frontend::words(1, 0, 4096, 0, 0), 0},
      {Request::set_mem_table, Frontend::words(1, 0, 4096, 0, 0), 1},  // An empty file.
      {Request::set_mem_table, Frontend::words(1, 0, 4096, 0, 0), 9},
      {Request::get_config, {200, 100, 0}, 0},
      {Request::set_config, {0, 0, 0}, 0},
  };
  for (const Row& row : rows) {
    connect();
    frontend->send(row.request, row.payload, some(row.descriptors));
    settle();
    EXPECT_TRUE(frontend->has_ended())
        << static_cast<std::uint32_t>(row.request) << " " << row.descriptors;
  }
  start();
  EXPECT_EQ(done(0, in, 0, 512), 0) << "the next one has the disk";
}

TEST_F(VhostServer, ARingThatBreaksTheRulesStopsUntilItIsStartedAgain) {
  start();
  guest->offer(Guest::kEntries);
  frontend->kick();
  settle();
  EXPECT_EQ(done(0, in, 0, 512), 0xff);
  EXPECT_FALSE(frontend->has_ended());
  std::ranges::fill(frontend->memory(), std::byte{0});
  guest.emplace(frontend->memory());
  frontend->start(features_of(disk.facts));
  settle();
  EXPECT_EQ(done(0, in, 0, 512), 0);
}

TEST_F(VhostServer, AGuestMakesUsKeepNoMoreThanIsSaid) {
  start();
  disk.holds = true;
  guest->set_chain(0, {{Guest::data(0), 16}, {Guest::data(0x1000), 15 << 20, kWrite}});
  for (int i = 0; i < 5; ++i) guest->offer(0);
  frontend->kick();
  settle();
  EXPECT_EQ(disk.held.size(), 2U);
}

}  // namespace
}  // namespace verbatim::ulp::disk::vhost
