#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ulp/engine/meeting.h"
#include "ulp/lnet/connection.h"
#include "ulp/lnet/wire/ping_info.h"

namespace verbatim::ulp::lnet {

/// A driver's connection, whatever it carries.
enum class LinkId : std::uint32_t {};

/// To nodes of `net` by way of `gateway`, a node of a network of ours.
struct Route {
  Net net{};
  Nid gateway;
};

struct NodeSettings {
  std::vector<Nid> own;  // One for each network; with two it forwards between them.
  std::vector<Route> routes;
  std::uint64_t stamp = 0;  // Of this start; not zero.
};

/// What a node does with messages that are for it and are no ping: self-test.
class Portals {
 public:
  virtual ~Portals() = default;
  virtual void on_put(const LnetHeader& header, ByteSpan payload, TimeNs now) = 0;
  virtual bool wants(const LnetHeader& put) = 0;
  /// Memory that the GET has named; it stays lent until `on_given`.
  virtual std::optional<Buffer> find(const LnetHeader& get) = 0;
  virtual void on_given(const LnetHeader& get, const Buffer& buffer) = 0;
  virtual void on_time(TimeNs now) = 0;
  virtual TimeNs deadline() const = 0;
};

/// A node of LNet: its connections, who is reached by which, and what is answered: pings, and by
/// `Portals` more. Messages between its networks are forwarded. No I/O: a driver makes the
/// connections that it wishes.
class Node final : public Above {
 public:
  static constexpr std::size_t kPeersMax = 1024;
  static constexpr int kRacesMax = 20, kTriesMax = 3;
  static constexpr TimeNs kPatience = 50 * kSecond;

  /// LNet's messages, and the bytes of their payloads.
  struct Traffic {
    std::uint64_t messages = 0, bytes = 0;
    void count(std::uint64_t payload_bytes) { ++messages, bytes += payload_bytes; }
  };
  struct Counters {
    Traffic sent, received, forwarded, dropped;
  };
  /// What has become of a GET or ping: empty payload with `words` if nothing came.
  using OnReply = std::function<void(ByteSpan payload, const std::string& words, TimeNs now)>;

  Node(NodeSettings settings, Buffers& buffers);
  ~Node();
  void use(Portals* portals) { portals_ = portals; }

  const NodeSettings& settings() const { return settings_; }
  bool forwards() const { return settings_.own.size() > 1; }
  const Counters& counters() const { return counters_; }
  Buffers& buffers() { return buffers_; }

  // What the driver tells.
  struct Accepted {
    PrivateData private_data;
    QueueSizes sizes;
  };
  std::expected<Accepted, Rejection> on_meeting(LinkId link, const Meeting& meeting, TimeNs now);
  void on_established(LinkId link, ByteSpan private_data, TimeNs now);
  void on_message(LinkId link, ByteSpan bytes, TimeNs now);
  void on_done(LinkId link, Tag tag, CompletionStatus status);
  /// `refusal`: the private data of the peer's rejection.
  void on_end(LinkId link, const std::string& words, ByteSpan refusal, TimeNs now);
  void on_time(TimeNs now);
  TimeNs deadline() const;

  // What the driver asks.
  struct Wish {
    Nid own, peer;
    PrivateData private_data;
    QueueSizes sizes;
  };
  /// The driver connects, and says by `on_connecting` which link it is, or by `on_refused` why not.
  std::optional<Wish> take_wish();
  void on_connecting(LinkId link, Nid peer);
  void on_refused(Nid peer, const std::string& words, TimeNs now);
  /// A link that may have something to send.
  std::optional<LinkId> take_ready();
  void pump(LinkId link, TimeNs now, Output& out);

  // What users ask. False: nobody can be reached there, in `words`.
  bool put(Nid to, std::uint32_t portal, std::uint64_t match_bits, ByteSpan payload, TimeNs now);
  /// The buffer becomes free when it is sent.
  bool put(Nid to, std::uint32_t portal, std::uint64_t match_bits, Buffer buffer,
           std::uint32_t bytes, TimeNs now);
  /// `on_reply` is called once, perhaps within the call. With a buffer, the answer comes there.
  void get(Nid from, std::uint32_t portal, std::uint64_t match_bits, std::uint32_t bytes,
           std::optional<Buffer> into, OnReply on_reply, TimeNs now);

  struct PeerState {
    Nid nid;
    bool is_connected = false;
    std::size_t waiting = 0;
    std::uint16_t credits = 0;
    std::string words;  // Why the last connection ended.
  };
  std::vector<PeerState> peers() const;

  // Above.
  void on_parcel(Connection& from, Parcel parcel, TimeNs now) override;
  bool wants(const LnetHeader& header) override;
  std::optional<Buffer> find(const LnetHeader& get) override;
  void on_given(const LnetHeader& get, const Buffer& buffer) override;

 private:
  struct Peer {
    std::optional<LinkId> link;    // That parcels go by.
    std::optional<LinkId> asking;  // Our request that is under way,
    bool is_wished = false;        // or will be.
    std::uint64_t stamp = 0;       // 0: not known.
    ConnectionSizes sizes;         // That it has asked us to keep to.
    int tries = 0, races = 0;
    std::deque<Parcel> waiting;  // For a connection.
    TimeNs gives_up = kNever;
    std::string words;
  };
  struct Link {
    Nid peer;
    Nid own;
    std::unique_ptr<Connection> connection;  // Null: our request is under way.
  };
  struct Expected {
    OnReply on_reply;
    TimeNs gives_up = kNever;
  };

  const Nid* own_at(Net net) const;
  bool is_own(Nid nid) const;
  std::optional<Nid> next_hop(Nid to) const;
  Peer& peer_of(Nid nid) { return peers_[nid]; }
  std::unexpected<Rejection> refuse(Why why, std::string words, const ConnectionSizes& sizes) const;

  bool route(Parcel parcel, TimeNs now);
  void wish(Nid nid, Peer& peer, TimeNs now);
  void drop(Parcel& parcel);
  void drop_waiting(Peer& peer, const std::string& words, TimeNs now);
  void use_link(LinkId link, TimeNs now);
  void mark(LinkId link) { ready_.insert(link); }
  void mark_held();

  void deliver(Parcel& parcel, TimeNs now);
  void answer_get(const LnetHeader& get, TimeNs now);
  void end_get(std::uint64_t object, ByteSpan payload, const std::string& words, TimeNs now);
  std::vector<std::byte> ping_info() const;

  const NodeSettings settings_;
  Buffers& buffers_;
  Portals* portals_ = nullptr;
  std::map<Nid, Peer> peers_;
  std::map<LinkId, Link> links_;
  std::deque<Nid> wishes_;
  std::set<LinkId> ready_;
  std::map<std::uint64_t, Expected> expected_;  // By the handle's object.
  std::uint64_t next_object_ = 1;
  Counters counters_;
};

}  // namespace verbatim::ulp::lnet
