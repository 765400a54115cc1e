#include "ulp/disk/world_for_test.h"

#include <algorithm>
#include <cstring>

namespace verbatim::ulp::disk {

namespace {

constexpr MemoryKey kKey{77};

Tag done_of(const Work& work) {
  return std::visit(
      Overloaded{[](const Send& one) { return one.done; }, [](const Read& one) { return one.done; },
                 [](const Write& one) { return one.done; }, [](const auto&) { return kNoTag; }},
      work);
}

}  // namespace

World::World(std::uint64_t seed, WorldTarget& target, std::uint32_t paths, TimeNs quiescence)
    : random_(seed),
      target_(target),
      memory_(paths * storage::kScratchBytes + kBuffers * kBufferBytes),
      truth_(target.disk().begin(), target.disk().end()),
      peers_(paths * storage::kChannelsMax),
      down_until_(paths) {
  const auto piece = [this](std::size_t at, std::uint32_t bytes) {
    return storage::PeerMemory{{memory_.data() + at, bytes, MemoryKey{1}}, kKey};
  };
  Disk::Settings settings;
  for (std::uint32_t i = 0; i < paths; ++i)
    settings.new_sessions.push_back([this, piece, i] {
      return target_.initiator(piece(i * storage::kScratchBytes, storage::kScratchBytes), i);
    });
  for (std::uint32_t i = 0; i < kBuffers; ++i)
    settings.buffers.push_back(
        piece(paths * storage::kScratchBytes + i * kBufferBytes, kBufferBytes));
  settings.quiescence = quiescence;
  settings.patience = settings.first_patience = 100'000 * kSecond;
  disk_ = std::make_unique<Disk>(std::move(settings), *this);
}

void World::run(int asks) {
  disk_->begin(now_);
  for (int steps = 0; answered_ < asks && steps < 10'000 * asks; ++steps) {
    if (begun_ < asks) begin_ask();
    step();
    ASSERT_FALSE(testing::Test::HasFailure());
  }
  EXPECT_EQ(answered_, asks) << disk_->words();
  EXPECT_EQ(disk_->open(), 0u);
  disk_->end(now_);
  for (int steps = 0; !disk_->is_over() && steps < 100'000; ++steps) step();
  EXPECT_TRUE(disk_->is_over());
  for (const auto& peer : peers_) {
    if (peer != nullptr) end_session(*peer);
  }
  while (!lost_.empty()) end_lost(0);
  EXPECT_TRUE(
      std::ranges::equal(std::span(truth_).first(kDiskBytes), target_.disk().first(kDiskBytes)));
}

void World::step() {
  for (std::size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i] == nullptr || !peers_[i]->ends) continue;
    // With its other connection this one is lost, too.
    const bool is_lost = std::ranges::any_of(
        lost_, [&](const auto& one) { return one->at.path == at(i).path && !one->ends; });
    return cut(at(i), !is_lost);
  }
  step_lost();
  const auto chosen = static_cast<std::size_t>(random_.below(peers_.size()));
  Peer* const one = peers_[chosen].get();
  switch (random_.below(8)) {
    case 0:
      return pass_time();
    case 1:
      return establish();
    case 2:
    case 3:
      if (one != nullptr && !one->messages.empty()) deliver(*one);
      return;
    case 4:
    case 5:
      if (one != nullptr && !one->jobs.empty()) finish_job(at(chosen));
      return;
    case 6:
      if (one != nullptr) answer_store(*one);
      return;
    default:
      target_.shake(random_);
      if (one != nullptr && random_.below(60) == 0) cut(at(chosen), random_.below(2) == 0);
  }
}

/// What had come to the target is carried out as far as that needs nothing of us.
void World::step_lost() {
  for (std::size_t i = 0; i < lost_.size(); ++i) {
    if (lost_[i]->ends || lost_[i]->until <= now_) return end_lost(i);
  }
  if (lost_.empty()) return;
  Peer& one = *lost_[random_.below(lost_.size())];
  // Slowly: what is repeated elsewhere is done long before.
  if (random_.below(100) != 0) return;
  flush_jobs(one);
  if (!one.messages.empty()) deliver(one);
  if (random_.below(4) == 0) answer_store(one);
}

void World::end_lost(std::size_t index) {
  const std::unique_ptr<Peer> peer = std::move(lost_[index]);
  lost_.erase(lost_.begin() + static_cast<std::ptrdiff_t>(index));
  end_session(*peer);
}

void World::connect(std::uint32_t path, const storage::ConnectRequest& request) {
  wanted_.push_back({path, request});
}

void World::carry_out(PathChannel at, std::span<const Work> work) {
  Peer* const to = peers_[index_of(at)].get();
  if (to == nullptr || to->ends) return;
  for (const Work& one : work) {
    if (std::holds_alternative<Disconnect>(one)) return static_cast<void>(to->ends = true);
    const auto* const send = std::get_if<Send>(&one);
    ASSERT_NE(send, nullptr);
    auto& [bytes, done] = to->messages.emplace_back();
    bytes.assign(send->header.begin(), send->header.end());
    done = send->done;
    for (const Slice& slice : send->payload)
      bytes.insert(bytes.end(), slice.data, slice.data + slice.bytes);
  }
}

void World::disconnect(PathChannel at) {
  if (Peer* const peer = peers_[index_of(at)].get()) return static_cast<void>(peer->ends = true);
  unwanted_.push_back(at);
}

/// A connection that was asked for: granted, refused, or not reached.
void World::establish() {
  if (wanted_.empty()) return;
  const auto [path, request] = wanted_.front();
  wanted_.pop_front();
  const PathChannel at{path, request.channel};
  const bool is_unwanted = std::erase(unwanted_, at) > 0;
  if (is_unwanted || down_until_[path] > now_ || random_.below(20) == 0)
    return disk_->on_end(at, "not reached", now_);
  Meeting meeting{.own = SocketAddress::ipv4({10, 0, 0, static_cast<std::uint8_t>(path + 1)}, 4420),
                  .reads = {.initiator = 8, .responder = 1}};
  meeting.private_data = request.private_data;
  auto verdict = target_.service_of(path).on_meeting(meeting, now_);
  if (const auto* const no = std::get_if<Rejection>(&verdict)) {
    const PrivateData& data = no->private_data;
    return disk_->on_rejected(at, 28, {data.begin(), data.size()}, now_);
  }
  auto& accept = std::get<storage::Accept>(verdict);
  for (const storage::Session* const old : accept.replaces) {
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      if (peers_[i] != nullptr && peers_[i]->session.get() == old) cut(this->at(i), true);
    }
    for (std::size_t i = lost_.size(); i-- > 0;) {
      if (lost_[i]->session.get() == old) end_lost(i);
    }
  }
  auto made = std::make_unique<Peer>();
  made->session = std::move(accept.session);
  made->store = std::make_unique<storage::StoreBench>(target_.disk(), *made->session);
  made->at = at;
  peers_[index_of(at)] = std::move(made);
  const PrivateData& data = accept.private_data;
  disk_->on_established(at, {data.begin(), data.size()}, now_);
}

void World::deliver(Peer& to) {
  auto [bytes, done] = std::move(to.messages.front());
  to.messages.pop_front();
  const Message message{.receive = ReceiveId{1},
                        .memory = {bytes.data(), static_cast<std::uint32_t>(bytes.size()), {}}};
  // What is kept would have to stay; capsules with data are kept until they are stored.
  if (to.session->on_message(message, now_, out_) == ReceiveUse::kept)
    kept_.push_back(std::move(bytes));
  take(to);
  if (done != kNoTag && peers_[index_of(to.at)].get() == &to)
    disk_->on_done(to.at, done, CompletionStatus::success, now_);
}

void World::take(Peer& peer) {
  for (;;) {
    for (storage::StoreRequest& request : out_.store) {
      // Unit 0 is for an engine's own data: it lies behind the disk.
      auto* const borrow = std::get_if<storage::Borrow>(&request);
      if (borrow != nullptr && borrow->unit == storage::UnitId{}) borrow->offset += kDiskBytes;
      peer.store->take(request);
    }
    for (const Work& work : out_.work) {
      if (peer.ends) break;
      if (std::holds_alternative<Disconnect>(work)) {
        peer.ends = true;
        break;
      }
      Job job{work, {}};
      if (const auto* const send = std::get_if<Send>(&work))
        job.bytes.assign(send->header.begin(), send->header.end());
      if (!std::holds_alternative<PostAgain>(work)) peer.jobs.push_back(std::move(job));
    }
    const bool more = out_.more;
    out_.clear();
    if (!more) return;
    peer.session->resume(now_, out_);
  }
}

MutableByteSpan World::memory_of(const RemoteRange& range) {
  EXPECT_EQ(range.remote_key, kKey);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory_.data());
  EXPECT_GE(range.address, begin);
  EXPECT_LE(range.address + range.bytes, begin + memory_.size());
  return {reinterpret_cast<std::byte*>(range.address), range.bytes};
}

void World::finish_job(PathChannel at) {
  Peer& from = *peers_[index_of(at)];
  Job job = std::move(from.jobs.front());
  from.jobs.pop_front();
  const Tag done = done_of(job.work);
  if (const auto* const send = std::get_if<Send>(&job.work)) {
    EXPECT_FALSE(send->invalidate) << "a region's key";
    for (const Slice& slice : send->payload)
      job.bytes.insert(job.bytes.end(), slice.data, slice.data + slice.bytes);
  } else if (const auto* const write = std::get_if<Write>(&job.work)) {
    MutableByteSpan to = memory_of(write->to);
    for (const Slice& slice : write->from) {
      std::memcpy(to.data(), slice.data, slice.bytes);
      to = to.subspan(slice.bytes);
    }
  } else if (const auto* const read = std::get_if<Read>(&job.work)) {
    ByteSpan bytes = memory_of(read->from);
    for (const Slice& slice : read->into) {
      std::memcpy(slice.data, bytes.data(), slice.bytes);
      bytes = bytes.subspan(slice.bytes);
    }
  }
  if (done != kNoTag) {
    from.session->on_done(done, CompletionStatus::success, now_, out_);
    take(from);
  }
  if (job.bytes.empty()) return;
  disk_->on_message(
      at,
      {.receive = ReceiveId{1},
       .memory = {job.bytes.data(), static_cast<std::uint32_t>(job.bytes.size()), {}}},
      now_);
}

void World::answer_store(Peer& peer) {
  if (peer.store->waiting.empty()) return;
  peer.store->answer(random_.below(peer.store->waiting.size()), now_, out_);
  take(peer);
}

void World::pass_time() {
  now_ += static_cast<TimeNs>(random_.below(20 * kMillisecond));
  if (random_.below(200) == 0) now_ += 2 * kSecond;
  for (const auto* const peers : {&peers_, &lost_}) {
    for (const auto& peer : *peers) {
      if (peer == nullptr || peer->session->deadline() > now_) continue;
      peer->session->on_time(now_, out_);
      take(*peer);
    }
  }
  if (disk_->deadline() <= now_) disk_->on_time(now_);
}

/// The connection is over; what is on its way to us is lost. The target knows it at once, or later.
void World::cut(PathChannel at, bool is_known_there) {
  std::unique_ptr<Peer> peer = std::move(peers_[index_of(at)]);
  if (is_known_there) {
    end_session(*peer);
  } else {
    peer->ends = false;
    if (random_.below(2) == 0)
      down_until_[at.path] = now_ + static_cast<TimeNs>(random_.below(kLateMax));
    peer->until = now_ + static_cast<TimeNs>(random_.below(kLateMax));
    lost_.push_back(std::move(peer));
  }
  disk_->on_end(at, "cut", now_);
}

/// The target's READs and WRITEs of what we have lost fail.
void World::flush_jobs(Peer& peer) {
  for (const Job& job : std::exchange(peer.jobs, {})) {
    const Tag tag = done_of(job.work);
    if (tag == kNoTag) continue;
    peer.session->on_done(tag, CompletionStatus::flushed, now_, out_);
    take(peer);
  }
}

void World::end_session(Peer& peer) {
  peer.ends = true;
  flush_jobs(peer);
  peer.session->on_end(now_, out_);
  take(peer);
  storage::Service& service = target_.service_of(peer.at.path);
  for (storage::Session* const other : service.ends_with(*peer.session)) {
    for (const auto* const peers : {&peers_, &lost_}) {
      for (const auto& one : *peers)
        if (one != nullptr && one->session.get() == other) one->ends = true;
    }
  }
  while (!peer.store->waiting.empty()) answer_store(peer);
  EXPECT_TRUE(peer.session->is_idle());
  EXPECT_EQ(peer.store->loans(), 0u);
  service.on_gone(*peer.session);
  peer.session.reset();
}

void World::begin_ask() {
  if (disk_->facts() == nullptr || users_.size() >= 10) return;
  auto user = std::make_unique<User>();
  user->region = static_cast<std::uint32_t>(random_.below(kRegions));
  for (const auto& other : users_) {
    if (other->region == user->region) return;
  }
  using Kind = Ask::Kind;
  constexpr Kind kKinds[] = {Kind::read, Kind::write, Kind::write_zeroes, Kind::flush};
  Ask& ask = user->ask;
  ask.kind = kKinds[random_.below(std::size(kKinds))];
  if (ask.kind == Kind::write_zeroes && !disk_->facts()->can_write_zeroes) ask.kind = Kind::write;
  if (ask.kind != Kind::flush) {
    ask.offset = std::uint64_t{user->region} * kRegionBlocks * kBlock;
    ask.bytes = (1 + random_.below(kRegionBlocks)) * kBlock;
  }
  user->data.resize(ask.bytes);
  if (ask.kind == Kind::write)
    std::ranges::generate(user->data,
                          [this] { return static_cast<std::byte>(random_.below(256)); });
  ask.data = user->data.data();
  users_.push_back(std::move(user));
  ++begun_;
  disk_->ask(ask, now_);
}

void World::on_answered(Ask& ask) {
  const auto user =
      std::ranges::find_if(users_, [&](const auto& one) { return &one->ask == &ask; });
  ASSERT_NE(user, users_.end()) << "answered twice";
  check(**user);
  ++answered_;
  // The disk does not touch it any more.
  users_.erase(user);
}

MutableByteSpan World::truth_of(const User& user) {
  return std::span(truth_).subspan(user.ask.offset, user.ask.bytes);
}

void World::check(User& user) {
  EXPECT_EQ(user.ask.error, 0);
  const MutableByteSpan truth = truth_of(user);
  switch (user.ask.kind) {
    case Ask::Kind::read:
      EXPECT_TRUE(std::ranges::equal(user.data, truth));
      return;
    case Ask::Kind::write:
      return static_cast<void>(std::ranges::copy(user.data, truth.begin()));
    case Ask::Kind::write_zeroes:
      return static_cast<void>(std::ranges::fill(truth, std::byte{}));
    case Ask::Kind::flush:
    case Ask::Kind::discard:
      return;
  }
}

}  // namespace verbatim::ulp::disk
