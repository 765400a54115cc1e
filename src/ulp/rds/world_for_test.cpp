#include "ulp/rds/world_for_test.h"

#include <cstring>

#include "base/assert.h"

namespace verbatim::ulp::rds {

bool HeapFragments::take(std::span<Slice> slices) {
  if (free_.size() < slices.size()) return false;
  for (Slice& slice : slices) {
    slice = free_.back();
    free_.pop_back();
  }
  return true;
}

/// What is given back is overwritten, so that whoever still reads it is noticed.
void HeapFragments::give_back(std::span<const Slice> slices) {
  for (const Slice& slice : slices) {
    std::memset(slice.data, 0xdd, kRoom);
    free_.push_back({slice.data, kRoom, {}});
  }
}

std::vector<std::byte> content_of(std::uint64_t number, std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    content[i] = static_cast<std::byte>((number >> (8 * (i % 8))) + i / 8);
  return content;
}

World::World(const Options& options) : options_(options), random_(options.seed) {
  for (std::size_t i = 0; i < options.nodes; ++i) {
    nodes_.push_back(std::make_unique<Node>(*this, i));
    make_broker(*nodes_.back());
  }
}

World::~World() = default;

void World::make_broker(Node& node) {
  node.broker =
      std::make_unique<Broker>(node, node.pool,
                               Broker::Options{.seed = random_(),
                                               .first_sequence = (++node.restarts << 32) + 1,
                                               .peers_max = options_.peers_max});
}

World::Program& World::open(std::size_t node, std::uint16_t port) {
  const SocketId socket{++last_socket_};
  VERBATIM_ASSERT(nodes_[node]->broker->open(socket).has_value());
  const auto bound = nodes_[node]->broker->bind(socket, address(node, port));
  VERBATIM_ASSERT(bound.has_value());
  return programs_.emplace_back(Program{.node = node, .socket = socket, .own = *bound});
}

std::vector<Slice> World::take(std::size_t node, std::size_t bytes) {
  std::vector<Slice> slices(fragments_of(static_cast<std::uint32_t>(bytes)));
  VERBATIM_ASSERT(nodes_[node]->pool.take(slices));
  for (std::size_t at = 0; Slice & slice : slices) {
    slice.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(kFragmentBytes, bytes - at));
    at += slice.bytes;
  }
  return slices;
}

Result<void> World::send(Program& from, const SocketAddress& to, std::span<const std::byte> bytes,
                         std::vector<Operation> operations) {
  Node& node = *nodes_[from.node];
  std::vector<Slice> slices(fragments_of(static_cast<std::uint32_t>(bytes.size())));
  if (!node.pool.take(slices)) return refuse(EAGAIN, "no fragments");
  for (std::size_t at = 0; Slice & slice : slices) {
    const std::size_t part = std::min<std::size_t>(kFragmentBytes, bytes.size() - at);
    std::ranges::copy(bytes.subspan(at, part), slice.data + Header::kSize);
    slice.bytes = static_cast<std::uint32_t>(Header::kSize + part);
    at += part;
  }
  return node.broker->send(from.socket, to,
                           {.bytes = static_cast<std::uint32_t>(bytes.size()),
                            .fragments = std::move(slices),
                            .operations = std::move(operations)},
                           now_);
}

World::Program* World::program(std::size_t node, SocketId socket) {
  for (Program& one : programs_) {
    if (one.node == node && one.socket == socket) return &one;
  }
  return nullptr;
}

World::End* World::find(std::size_t node, LinkId link, Link** whole) {
  for (Link& one : links_) {
    for (End& end : one.ends) {
      if (end.node != node || end.link != link || !end.is_there) continue;
      if (whole != nullptr) *whole = &one;
      return &end;
    }
  }
  return nullptr;
}

bool World::Node::deliver(SocketId socket, const Delivery& delivery) {
  Program& program = *world.program(index, socket);
  if (delivery.notice) {
    program.notices.push_back(*delivery.notice);
    return true;
  }
  if (program.arrived.size() >= program.room) return false;
  Received& received = program.arrived.emplace_back(Received{.from = delivery.from});
  for (const ByteSpan piece : delivery.pieces)
    received.bytes.insert(received.bytes.end(), piece.begin(), piece.end());
  VERBATIM_ASSERT(received.bytes.size() == delivery.bytes);
  return true;
}

void World::Node::tell_congestion(SocketId socket, std::uint64_t ports) {
  world.program(index, socket)->news |= ports;
}

void World::Node::let_send(std::uint64_t waiter) {
  for (Program& one : world.programs_) {
    if (one.node == index) one.allowed.push_back(waiter);
  }
}

void World::Node::pause(SocketId socket, bool is_paused) {
  world.program(index, socket)->is_paused = is_paused;
}

LinkId World::ask(std::size_t from, std::size_t to, const PrivateData& data) {
  Link& link = links_.emplace_back();
  link.request = data;
  link.request_due = later();
  link.ends[0] = {.node = from, .link = LinkId{++last_link_}, .is_there = true};
  link.ends[1] = {.node = to, .link = LinkId{++last_link_}};
  return link.ends[0].link;
}

Result<LinkId> World::Node::connect(const Pair& pair, const PrivateData& data) {
  return world.ask(index, pair.peer.ipv4_bytes()[3] - 1u, data);
}

void World::Node::accept(LinkId link, const PrivateData& data) {
  Link* whole = nullptr;
  world.find(index, link, &whole);
  whole->answer = data;
  whole->answer_due = world.later();
}

void World::Node::reject(LinkId link, const PrivateData&) {
  Link* whole = nullptr;
  world.find(index, link, &whole);
  world.cut(*whole, "rejected");
}

void World::Node::disconnect(LinkId link, const char* words) {
  Link* whole = nullptr;
  if (world.find(index, link, &whole) != nullptr) world.cut(*whole, words);
}

void World::Node::carry_out(LinkId link, std::span<const Work> work) {
  End* const end = world.find(index, link);
  VERBATIM_ASSERT(end != nullptr);
  for (const Work& one : work) {
    const TimeNs due =
        end->sent.empty() ? world.later() : std::max(end->sent.back().due, world.now_);
    Packet packet{.due = due};
    if (const auto* const send = std::get_if<Send>(&one)) {
      packet.slices = {send->payload.begin(), send->payload.end()};
      packet.done = send->done;
    } else if (const auto* const write = std::get_if<Write>(&one)) {
      packet.slices = {write->from.begin(), write->from.end()};
      packet.done = write->done;
      packet.operation = Operation{.kind = Operation::Kind::write, .remote = write->to};
    } else {
      const Read& read = std::get<Read>(one);
      packet.slices = {read.into.begin(), read.into.end()};
      packet.done = read.done;
      packet.operation = Operation{.kind = Operation::Kind::read, .remote = read.from};
    }
    end->sent.push_back(std::move(packet));
  }
}

void World::Node::carry_out(LinkId link, const Atomic& atomic) {
  End* const end = world.find(index, link);
  const TimeNs due = end->sent.empty() ? world.later() : std::max(end->sent.back().due, world.now_);
  using Kind = Operation::Kind;
  end->sent.push_back({.slices = {atomic.into},
                       .done = Tag{atomic.done},
                       .due = due,
                       .operation = Operation{
                           .kind = atomic.compares ? Kind::compare_and_swap : Kind::fetch_and_add,
                           .remote = atomic.remote,
                           .value = atomic.value,
                           .compare = atomic.compare}});
}

void World::Node::on_operation(SocketId socket, const Operation& operation,
                               OperationStatus status) {
  if (status != OperationStatus::success || operation.kind == Operation::Kind::write) return;
  Program* const program = world.program(index, socket);
  if (program == nullptr) return;
  auto& bytes = program->read_memory.emplace_back();
  for (const Slice& slice : operation.local)
    bytes.insert(bytes.end(), slice.data, slice.data + slice.bytes);
}

/// Returns false if the peer's adapter refuses it.
bool World::execute(const Operation& operation, Node& there) {
  const RemoteRange& remote = operation.remote;
  if (remote.remote_key != kGranted || remote.address > there.memory.size() ||
      there.memory.size() - remote.address < remote.bytes)
    return false;
  std::byte* memory = &there.memory[remote.address];
  std::uint64_t old = 0;
  if (!moves_bytes(operation)) {
    std::memcpy(&old, memory, sizeof old);
    std::memcpy(operation.local.front().data, &old, sizeof old);
    const std::uint64_t sum = old + operation.value;
    if (operation.kind == Operation::Kind::fetch_and_add) std::memcpy(memory, &sum, sizeof sum);
    if (operation.kind == Operation::Kind::compare_and_swap && old == operation.compare)
      std::memcpy(memory, &operation.value, sizeof old);
    return true;
  }
  for (const Slice& slice : operation.local) {
    if (operation.kind == Operation::Kind::write) {
      std::memcpy(memory, slice.data, slice.bytes);
    } else {
      std::memcpy(slice.data, memory, slice.bytes);
    }
    memory += slice.bytes;
  }
  return true;
}

/// What is on its way is lost. Each side hears of it at another time.
void World::cut(Link& link, const std::string& words) {
  if (std::exchange(link.is_over, true)) return;
  for (End& end : link.ends) {
    end.is_up = false;
    end.words = words;
    end.ends_at = later();
  }
}

void World::cut_all() {
  for (Link& link : links_) cut(link, "the link is cut");
}

std::size_t World::links() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(links_, [](const Link& link) { return !link.is_over; }));
}

const Peer* World::peer(std::size_t node, std::size_t of) {
  const auto& peers = broker(node).peers();
  const auto found = peers.find({address(node), address(of)});
  return found == peers.end() ? nullptr : found->second.get();
}

void World::inject(std::size_t node, std::size_t from, ByteSpan fragment) {
  broker(node).on_message(peer(node, from)->link, fragment, now_);
}

void World::restart(std::size_t node) {
  for (Link& link : links_) {
    if (link.ends[0].node != node && link.ends[1].node != node) continue;
    cut(link, "killed");
    for (End& end : link.ends) {
      if (end.node == node) end.is_there = false;
    }
  }
  std::erase_if(programs_, [&](const Program& one) { return one.node == node; });
  make_broker(*nodes_[node]);
}

void World::serve(End& from, End& to) {
  while (!from.sent.empty() && from.sent.front().due <= now_ && from.is_up && to.is_up) {
    Packet packet = from.sent.front();
    from.sent.pop_front();
    if (packet.operation) {
      packet.operation->local = packet.slices;
      if (execute(*packet.operation, *nodes_[to.node])) {
        from.done.emplace_back(packet.done, later());
        continue;
      }
      nodes_[from.node]->broker->on_failed(from.link, packet.done, OperationStatus::remote_error);
      return cut(*std::ranges::find_if(links_,
                                       [&](const Link& link) {
                                         return &link.ends[0] == &from || &link.ends[1] == &from;
                                       }),
                 "refused");
    }
    std::vector<std::byte> bytes;
    for (const Slice& slice : packet.slices)
      bytes.insert(bytes.end(), slice.data, slice.data + slice.bytes);
    if (packet.done != kNoTag) from.done.emplace_back(packet.done, later());
    nodes_[to.node]->broker->on_message(to.link, bytes, now_);
  }
  while (!from.done.empty() && from.done.front().second <= now_ && from.is_up) {
    const Tag tag = from.done.front().first;
    from.done.pop_front();
    nodes_[from.node]->broker->on_done(from.link, tag);
  }
}

void World::serve(Link& link) {
  End& active = link.ends[0];
  End& passive = link.ends[1];
  if (is_apart_) cut(link, "unreachable");
  if (!link.is_over && now_ >= link.request_due && !passive.is_there) {
    passive.is_there = true;
    const Meeting meeting{.peer = address(active.node, 40'000),
                          .own = address(passive.node, 18'634),
                          .private_data = link.request};
    nodes_[passive.node]->broker->on_requested(passive.link, meeting, now_);
  }
  if (!link.is_over && now_ >= link.answer_due && !active.is_up) {
    active.is_up = passive.is_up = true;
    nodes_[active.node]->broker->on_established(active.link,
                                                {link.answer.begin(), link.answer.size()}, now_);
    nodes_[passive.node]->broker->on_established(passive.link, {}, now_);
  }
  serve(active, passive);
  serve(passive, active);
  for (End& end : link.ends) {
    if (!link.is_over || !end.is_there || end.ends_at > now_) continue;
    end.is_there = false;
    nodes_[end.node]->broker->on_end(end.link, end.words, now_);
  }
}

void World::step() {
  now_ += 10 * kMicrosecond;
  for (std::size_t i = 0; i < links_.size(); ++i) {
    const bool is_cut =
        options_.cut > 0 && std::uniform_real_distribution<>()(random_) < options_.cut;
    if (is_cut) cut(links_[i], "cut");
    serve(links_[i]);
  }
  std::erase_if(links_, [](const Link& link) {
    return link.is_over && !link.ends[0].is_there && !link.ends[1].is_there;
  });
  for (Program& one : programs_) {
    bool has_read = false;
    while (one.reads && !one.arrived.empty() && below(4) > 0) {
      one.read.push_back(std::move(one.arrived.front()));
      one.arrived.pop_front();
      has_read = true;
    }
    if (has_read) nodes_[one.node]->broker->on_room(one.socket);
  }
  for (const auto& node : nodes_) {
    if (node->broker->deadline() <= now_) node->broker->on_time(now_);
    node->broker->flush();
  }
}

void World::run(std::size_t steps) {
  for (std::size_t i = 0; i < steps; ++i) {
    step();
    const bool is_quiet = std::ranges::all_of(nodes_, [](const auto& node) {
      return node->broker->is_idle() && !node->broker->is_dirty();
    });
    const bool is_read = std::ranges::all_of(
        programs_, [](const Program& one) { return one.arrived.empty() || !one.reads; });
    const bool is_silent = std::ranges::all_of(links_, [](const Link& link) {
      return !link.is_over && link.ends[0].sent.empty() && link.ends[1].sent.empty() &&
             link.ends[0].done.empty() && link.ends[1].done.empty();
    });
    if (is_quiet && is_read && is_silent) return;
  }
}

}  // namespace verbatim::ulp::rds
