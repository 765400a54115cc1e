// SPDX-License-Identifier: GPL-2.0
/* tunnel_key set, and then an output to a tunnel's interface: the card puts the tunnel's header
 * before the frame, and sends it to the wire. Route and neighbour are the kernel's. While nobody
 * has said which MAC the other end has, the rule's frames are software's, whose first one asks. */
#include <linux/slab.h>
#include <net/addrconf.h>
#include <net/geneve.h>
#include <net/gre.h>
#include <net/ip6_route.h>
#include <net/ip_tunnels.h>
#include <net/ipv6_stubs.h>
#include <net/neighbour.h>
#include <net/route.h>
#include <net/vxlan.h>

#include "nic.h"

#define HEADER_MAX 128 /* The card's limit: */
#define OPTIONS_MAX 48 /* Ethernet, IPv6, UDP, Geneve and these fit. */
#define VXLAN_HAS_ID 0x08
#define GENEVE_OAM 0x80
#define GENEVE_CRITICAL 0x40
#define NO_CHECKSUM 0
#define SOME_CHECKSUM 0xffff /* The card computes it. */

#define REFUSE(flow, what)                                       \
  ({                                                             \
    NL_SET_ERR_MSG_MOD((flow)->common.extack, "The card " what); \
    -EOPNOTSUPP;                                                 \
  })

struct nic_encap {
  u8 kind;       /* VNIC_TUNNEL_... */
  bool is_known; /* Where the other end is: the header is in the rule's actions. */
  struct ip_tunnel_info info;
  u8 options[]; /* Geneve's */
};

/* Where the tunnel's packets go. */
struct way {
  struct dst_entry* dst;
  const void* neighbour; /* Its address. */
  union {
    struct flowi4 v4;
    struct flowi6 v6;
  };
};

static bool is_ipv6(const struct nic_encap* encap) {
  return ip_tunnel_info_af(&encap->info) == AF_INET6;
}

static u8 protocol_of(const struct nic_encap* encap) {
  return encap->kind == VNIC_TUNNEL_GRE ? IPPROTO_GRE : IPPROTO_UDP;
}

/* The tunnel's own header, behind IP and UDP. */
static u32 put_tunnel(const struct nic_encap* encap, u8* out) {
  const struct ip_tunnel_key* key = &encap->info.key;
  const __be32 id = tunnel_id_to_key32(key->tun_id);
  const __be16 frame = cpu_to_be16(ETH_P_TEB);

  memset(out, 0, 8);
  if (encap->kind == VNIC_TUNNEL_GRE) {
    memcpy(out + 2, &frame, sizeof frame);
    if (!(key->tun_flags & TUNNEL_KEY)) return 4;
    memcpy(out, &(__be16){GRE_KEY}, 2);
    memcpy(out + 4, &id, sizeof id);
    return 8;
  }
  memcpy(out + 4, (const u8*)&id + 1, 3);
  if (encap->kind == VNIC_TUNNEL_VXLAN) {
    out[0] = VXLAN_HAS_ID;
    return 8;
  }
  out[0] = encap->info.options_len / 4;
  if (key->tun_flags & TUNNEL_OAM) out[1] |= GENEVE_OAM;
  if (key->tun_flags & TUNNEL_CRIT_OPT) out[1] |= GENEVE_CRITICAL;
  memcpy(out + 2, &frame, sizeof frame);
  memcpy(out + 8, encap->options, encap->info.options_len);
  return 8 + encap->info.options_len;
}

/* Of UDP the source port and the length are the card's work, of IPv4 the length and checksum. */
static u32 put_transport(const struct nic_encap* encap, u8* out) {
  const struct ip_tunnel_key* key = &encap->info.key;
  const struct udphdr udp = {
      .source = key->tp_src,
      .dest = key->tp_dst,
      .check = (__force __sum16)(key->tun_flags & TUNNEL_CSUM ? SOME_CHECKSUM : NO_CHECKSUM)};

  if (encap->kind == VNIC_TUNNEL_GRE) return put_tunnel(encap, out);
  memcpy(out, &udp, sizeof udp);
  return sizeof udp + put_tunnel(encap, out + sizeof udp);
}

static u32 put_header(const struct nic_encap* encap, const struct way* way,
                      const struct net_device* netdev, const u8* mac, u8* out) {
  const struct ip_tunnel_key* key = &encap->info.key;
  struct ethhdr* ethernet = (struct ethhdr*)out;
  u32 at = sizeof *ethernet;

  ether_addr_copy(ethernet->h_dest, mac);
  ether_addr_copy(ethernet->h_source, netdev->dev_addr);
  if (is_ipv6(encap)) {
    struct ipv6hdr ip = {.nexthdr = protocol_of(encap),
                         .hop_limit = key->ttl ?: ip6_dst_hoplimit(way->dst),
                         .saddr = way->v6.saddr,
                         .daddr = key->u.ipv6.dst};

    ethernet->h_proto = cpu_to_be16(ETH_P_IPV6);
    ip6_flow_hdr(&ip, key->tos, key->label);
    memcpy(out + at, &ip, sizeof ip);
    at += sizeof ip;
  } else {
    const struct iphdr ip = {
        .version = 4,
        .ihl = 5,
        .tos = key->tos,
        .frag_off = key->tun_flags & TUNNEL_DONT_FRAGMENT ? cpu_to_be16(IP_DF) : 0,
        .ttl = key->ttl ?: ip4_dst_hoplimit(way->dst),
        .protocol = protocol_of(encap),
        .saddr = way->v4.saddr,
        .daddr = key->u.ipv4.dst};

    ethernet->h_proto = cpu_to_be16(ETH_P_IP);
    memcpy(out + at, &ip, sizeof ip);
    at += sizeof ip;
  }
  return at + put_transport(encap, out + at);
}

/* Returns false if there is no route. */
static bool find_way(struct net* net, const struct nic_encap* encap, struct way* way) {
  const struct ip_tunnel_key* key = &encap->info.key;

  if (is_ipv6(encap)) {
    way->v6 = (struct flowi6){.daddr = key->u.ipv6.dst,
                              .saddr = key->u.ipv6.src,
                              .flowlabel = ip6_make_flowinfo(key->tos, key->label),
                              .flowi6_proto = protocol_of(encap)};
    way->dst = ipv6_stub->ipv6_dst_lookup_flow(net, NULL, &way->v6, NULL);
    way->neighbour = &way->v6.daddr;
  } else {
    struct rtable* route;

    way->v4 = (struct flowi4){.daddr = key->u.ipv4.dst,
                              .saddr = key->u.ipv4.src,
                              .flowi4_tos = RT_TOS(key->tos),
                              .flowi4_proto = protocol_of(encap)};
    route = ip_route_output_key(net, &way->v4);
    way->dst = IS_ERR(route) ? ERR_CAST(route) : &route->dst;
    way->neighbour = &way->v4.daddr;
  }
  return !IS_ERR(way->dst);
}

/* Returns whether the neighbour's MAC is known; else it is asked for, once. */
static bool find_mac(const struct way* way, u8* mac) {
  struct neighbour* neighbour = dst_neigh_lookup(way->dst, way->neighbour);
  u8 state;

  if (!neighbour) return false;
  read_lock_bh(&neighbour->lock);
  state = neighbour->nud_state;
  ether_addr_copy(mac, neighbour->ha);
  read_unlock_bh(&neighbour->lock);
  if (!(state & (NUD_VALID | NUD_FAILED))) neigh_event_send(neighbour, NULL);
  neigh_release(neighbour);
  return state & NUD_VALID;
}

static struct vnic_action* action_of(struct vnic_rule* rule) {
  struct vnic_action* action = rule->actions;

  while (action->kind != VNIC_ACTION_ENCAPSULATE) ++action;
  return action;
}

/* Puts a header into the rule's actions. Returns whether it was another one. */
static bool put_into(struct vnic_rule* rule, const u8* header, u32 size, u16 port) {
  struct vnic_action* action = action_of(rule);
  bool differs = false;

  while (size != 0) {
    const u32 part = min_t(u32, size, sizeof action->bytes);

    ++action;
    differs |= memcmp(action->bytes, header, part) != 0;
    memcpy(action->bytes, header, part);
    header += part;
    size -= part;
  }
  ++action;
  differs |= action->port != port;
  action->port = port;
  return differs;
}

/* Returns 1 if the rule has to be told to the card again, -ENETUNREACH if its packets do not leave
 * by the card: they are software's. */
int nic_encap_resolve(struct nic_card* card, struct nic_rule* rule) {
  struct nic_encap* encap = rule->encap;
  const bool was_known = encap->is_known;
  u8 header[HEADER_MAX], mac[ETH_ALEN];
  const struct net_device* netdev;
  struct way way;
  int result = was_known;

  encap->is_known = false;
  if (!find_way(dev_net(card->ports[0]->netdev), encap, &way)) return was_known ? 1 : -ENETUNREACH;
  netdev = READ_ONCE(way.dst->dev); /* Another one when the interface goes meanwhile. */
  if (!nic_is_port(netdev, card)) {
    result = was_known ? 1 : -ENETUNREACH;
  } else if (find_mac(&way, mac)) {
    const u32 size = put_header(encap, &way, netdev, mac, header);
    const struct nic_port* port = netdev_priv(netdev);
    const bool differs = put_into(&rule->command.rule, header, size, port->index);

    encap->is_known = true;
    result = differs || !was_known;
  }
  dst_release(way.dst);
  return result;
}

/* Frames that the card has sent do not tell the kernel that the neighbour is in use. */
void nic_encap_used(struct nic_card* card, const struct nic_encap* encap) {
  struct neighbour* neighbour;
  struct way way;

  if (!encap->is_known) return;
  if (!find_way(dev_net(card->ports[0]->netdev), encap, &way)) return;
  neighbour = dst_neigh_lookup(way.dst, way.neighbour);
  if (neighbour) {
    if (READ_ONCE(neighbour->nud_state) & NUD_STALE) neigh_event_send(neighbour, NULL);
    neigh_release(neighbour);
  }
  dst_release(way.dst);
}

bool nic_encap_is_known(const struct nic_encap* encap) { return encap->is_known; }

/* Whether the interface takes the tunnel from what tunnel_key has set. Of Geneve it is not said. */
static u8 kind_of(const struct net_device* netdev) {
  if (netif_is_vxlan(netdev)) {
    const struct vxlan_dev* vxlan = netdev_priv(netdev);

    return vxlan->cfg.flags & VXLAN_F_COLLECT_METADATA ? VNIC_TUNNEL_VXLAN : 0;
  }
  if (netif_is_geneve(netdev)) return VNIC_TUNNEL_GENEVE;
  if (netif_is_gretap(netdev)) {
    const struct ip_tunnel* gre = netdev_priv(netdev);

    return gre->collect_md ? VNIC_TUNNEL_GRE : 0;
  }
  return 0;
}

bool nic_encap_is_tunnel(const struct net_device* netdev) { return kind_of(netdev) != 0; }

static int check(const struct flow_cls_offload* flow, const struct ip_tunnel_info* info, u8 kind) {
  const __be16 known = TUNNEL_KEY | TUNNEL_CSUM | TUNNEL_DONT_FRAGMENT | TUNNEL_OAM |
                       TUNNEL_CRIT_OPT | TUNNEL_NOCACHE | TUNNEL_GENEVE_OPT;

  if (info->key.tun_flags & ~known) return REFUSE(flow, "sets options of Geneve alone");
  if (info->options_len != 0 && kind != VNIC_TUNNEL_GENEVE) {
    return REFUSE(flow, "sets options of Geneve alone");
  }
  if (kind == VNIC_TUNNEL_GRE) {
    return info->key.tun_flags & TUNNEL_CSUM ? REFUSE(flow, "sets no checksum of GRE") : 0;
  }
  return info->key.tp_dst == 0 ? REFUSE(flow, "sets a tunnel with its dst_port") : 0;
}

static struct vnic_action* add(struct vnic_rule* rule, u16 kind, u32 value) {
  struct vnic_action* action;

  if (rule->action_count == VNIC_ACTIONS_MAX) return NULL;
  action = &rule->actions[rule->action_count++];
  *action = (struct vnic_action){.kind = kind, .value = value};
  return action;
}

/* The frame goes on without the tunnel if more is to become of it. */
static bool add_actions(struct vnic_rule* rule, u32 size, bool goes_on) {
  u32 at;
  bool fits = add(rule, VNIC_ACTION_ENCAPSULATE, size);

  for (at = 0; at < size; at += sizeof rule->actions->bytes) {
    fits = fits && add(rule, VNIC_ACTION_HEADER, 0);
  }
  fits = fits && add(rule, VNIC_ACTION_OUTPUT, 0);
  return fits && (!goes_on || add(rule, VNIC_ACTION_DECAPSULATE, size));
}

int nic_encap_add(struct nic_card* card, const struct flow_cls_offload* flow,
                  const struct flow_action_entry* output, const struct ip_tunnel_info* info,
                  struct nic_rule* rule) {
  const u8 kind = kind_of(output->dev);
  u8 header[HEADER_MAX];
  u32 size = sizeof(struct ethhdr);
  int error = check(flow, info, kind);

  if (error) return error;
  if (rule->encap) return REFUSE(flow, "sets one tunnel in a rule");
  if (info->options_len > OPTIONS_MAX) return REFUSE(flow, "sets 48 bytes of Geneve's options");
  rule->encap = kzalloc(struct_size(rule->encap, options, info->options_len), GFP_KERNEL);
  if (!rule->encap) return -ENOMEM;
  WRITE_ONCE(card->encaps, card->encaps + 1);
  rule->encap->kind = kind;
  rule->encap->info = *info;
  memcpy(rule->encap->options, ip_tunnel_info_opts((struct ip_tunnel_info*)info),
         info->options_len);
  size += is_ipv6(rule->encap) ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
  size += put_transport(rule->encap, header);
  if (!add_actions(&rule->command.rule, size, output->id == FLOW_ACTION_MIRRED)) {
    return REFUSE(flow, "has no room for so many actions");
  }
  return nic_encap_resolve(card, rule) < 0 ? REFUSE(flow, "is not the way to the tunnel's end") : 0;
}
