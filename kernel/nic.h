/* SPDX-License-Identifier: GPL-2.0 */
/* What the module's files know of each other. */
#pragma once

#include <linux/hashtable.h>
#include <linux/idr.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/platform_device.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <net/devlink.h>
#include <net/flow_offload.h>
#include <net/pkt_cls.h>

#include "offload/ring/module.h"

#define NIC_DEPTH 256u          /* Buffers of one ring; a power of two, below VNIC_SLOTS. */
#define NIC_BUFFER_BYTES 10240u /* For a frame of NIC_MTU_MAX with its tags. */
#define NIC_MTU_MAX 9216
#define NIC_GROUPS 256

struct nic_card;

/* A representor: what the function, or the wire, sends and nobody has decided comes out here. */
struct nic_port {
  struct nic_card* card;
  struct net_device* netdev;
  struct devlink_port devlink_port;
  struct napi_struct napi;
  u16 index;    /* Of the card's port. */
  u32 received; /* Up to here; frames and their buffers. */
  u32 sent;     /* Posted up to here. */
};

/* Where the frames of a rule come from: a port, or the interface of a tunnel, whose packets come
 * from the wire. */
struct nic_source {
  struct nic_port* port;
  const struct net_device* netdev;
  u8 tunnel; /* VNIC_TUNNEL_...; 0: none. */
};

struct nic_rule {
  struct hlist_node node; /* By cookie and interface. */
  const struct net_device* netdev;
  struct list_head dying;
  unsigned long cookie;
  u16 groups[2];     /* Of the card: its own, and to which it goes; 0: none. */
  bool is_inserted;  /* The card has it. */
  bool is_posted;    /* A card that did not answer in time may have it. */
  bool is_elsewhere; /* It is for another port of a shared block: the card does not need it here. */
  struct vnic_counter told;   /* What tc has been told. */
  struct vnic_counter before; /* What earlier cards have counted. */
  u64 last_used;
  bool is_stale;           /* The card has another tunnel's header. */
  struct nic_encap* encap; /* The tunnel into which it puts frames, if it does. */
  struct vnic_command command;
};

/* A policer of tc, which rules may share: tc names it by an index. */
struct nic_meter {
  u32 index;
  u32 users;
  struct vnic_meter wanted;
};

struct nic_chain {
  u32 index;
  u32 users;
};

struct nic_card {
  struct platform_device* device;
  struct devlink* devlink;
  bool is_open;
  bool is_attached; /* A card has the memory. */
  bool is_rung;     /* The doorbell. */
  wait_queue_head_t doorbell;
  wait_queue_head_t answers;

  struct mutex lock; /* Of commands, rules, chains. After rtnl, where both are held. */
  struct vnic_region* region;
  void* buffers; /* Of all ports. */
  struct vnic_attach attach;
  u32 commands; /* Posted. */
  DECLARE_HASHTABLE(rules, 12);
  struct list_head dying; /* Rules that the card may still have. */
  struct ida ids;
  struct nic_chain chains[NIC_GROUPS]; /* By the card's group. */
  struct nic_meter* meters;            /* By the card's number. */
  struct delayed_work catch_up;
  struct notifier_block neighbours, routes;
  struct work_struct look_for_ways; /* They may have changed. */
  u32 encaps;                       /* Rules that have one. */
  struct nic_port* ports[VNIC_PORTS_MAX];
};

/* commands.c; the lock is held */
int nic_command(struct nic_card* card, const struct vnic_command* command);
int nic_port_command(struct nic_card* card, u32 operation, u16 port);
static inline bool nic_is_silent(int error) { return error == -ETIMEDOUT || error == -EBUSY; }
void nic_ring(struct nic_card* card);

/* ports.c */
int nic_ports_create(struct nic_card* card);
void nic_ports_destroy(struct nic_card* card);
void nic_ports_reset(struct nic_card* card); /* rtnl is held; no card is attached. */
bool nic_ports_start(struct nic_card* card); /* rtnl is held. False: again, it does not answer. */
void nic_ports_interrupt(struct nic_card* card);
void nic_ports_link(struct nic_card* card, bool is_up);
bool nic_is_port(const struct net_device* netdev, const struct nic_card* card);
extern const struct ethtool_ops nic_ethtool_ops;

/* rules.c */
int nic_on_flower(const struct nic_source* source, struct flow_cls_offload* flow);
int nic_setup_tc(struct net_device* netdev, enum tc_setup_type type, void* data);
void nic_rules_lose(struct nic_card* card);   /* The card has ended: the counters are kept. */
bool nic_rules_replay(struct nic_card* card); /* Returns whether all is done. */

/* match.c, actions.c: a rule of tc in the card's words. */
int nic_translate_match(const struct nic_source* source, const struct flow_cls_offload* flow,
                        struct vnic_rule* rule, bool* is_elsewhere);
/* `group`: the card's for the chain to which the rule goes, if it does. */
int nic_translate_actions(const struct nic_source* source, const struct flow_cls_offload* flow,
                          u16 group, struct nic_rule* rule);

/* tunnels.c */
int nic_translate_tunnel(const struct nic_source* source, const struct flow_cls_offload* flow,
                         struct vnic_rule* rule);
int nic_tunnels_begin(struct nic_card* card); /* It has ports. */
void nic_tunnels_end(struct nic_card* card);

/* encap.c; the lock is held. */
bool nic_encap_is_tunnel(const struct net_device* netdev);
bool nic_encap_is_known(const struct nic_encap* encap);
void nic_encap_used(struct nic_card* card, const struct nic_encap* encap); /* Frames, by it. */
int nic_encap_resolve(struct nic_card* card, struct nic_rule* rule);
int nic_encap_add(struct nic_card* card, const struct flow_cls_offload* flow,
                  const struct flow_action_entry* output, const struct ip_tunnel_info* info,
                  struct nic_rule* rule);

/* meters.c; the lock is held. Both count the users of a policer. */
int nic_meter_get(struct nic_card* card, const struct flow_cls_offload* flow,
                  const struct flow_action_entry* entry);
void nic_meters_put(struct nic_card* card, const struct vnic_rule* rule);
int nic_meters_replay(struct nic_card* card);

/* devlink.c */
extern const struct devlink_ops nic_devlink_ops;
void nic_devlink_attributes(struct nic_port* port);
