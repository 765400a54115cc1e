/*
 * A function that is rings of memory instead of a network interface: what the card shares with each
 * of the function's clients (programs of a node, say), and the messages by which they attach. As in
 * layout.h, fields are plain, and the card creates the memory.
 *
 * A client joins with VNIC_JOIN, registers its packet memory with VNIC_MEMORY, posts empty buffers
 * into `receive` and frames into `send`. What it wants to receive is a matter of the frame alone:
 * the programs of a node share a function by their queue pair numbers.
 */
#pragma once

#include "offload/ring/layout.h"

#define VNIC_FUNCTION_CLIENTS_MAX 64u /* Of one function. */
#define VNIC_FUNCTION_PIECES_MAX 4u   /* Of memory that one client registers. */
#define VNIC_FUNCTION_MTU 4500u       /* A packet of 4,096 bytes with all its headers fits. */
#define VNIC_FUNCTION_FRAME_MAX (VNIC_FUNCTION_MTU + 14u + 4u) /* With one VLAN tag. */

struct vnic_function_region {
  __u32 card_asleep __attribute__((aligned(VNIC_CACHE_LINE))); /* It waits for its doorbell. */
  /* The client writes it: it waits for VNIC_WAKE. */
  __u32 client_asleep __attribute__((aligned(VNIC_CACHE_LINE)));
  __u32 link_is_up __attribute__((aligned(VNIC_CACHE_LINE)));
  __u64 no_buffer_dropped; /* No buffer was posted, or a too small one. */
  struct vnic_ring receive;
  struct vnic_ring send;
};

enum vnic_function_message_type {
  VNIC_JOIN = 16,   /* vnic_join from the client. */
  VNIC_JOINED = 17, /* vnic_joined; beside it: the region, the card's doorbell (eventfd). */
  VNIC_WAKE = 18,   /* From the card, without more: a sleeper's ring has something. */
};

/* What a client receives: bits; none of them: it only sends. */
enum vnic_wants {
  VNIC_WANTS_ROCE_V1 = 1,    /* EtherType 0x8915, to its queue pair numbers. */
  VNIC_WANTS_ROCE_V2 = 2,    /* UDP port 4791, to its queue pair numbers. */
  VNIC_WANTS_NEIGHBOURS = 4, /* ARP and neighbour discovery. */
  VNIC_WANTS_ALL = 8,        /* Every frame. */
};

/* The client's queue pair numbers are those whose bits from `qpn_shift` on are `qpn_range`.
 * Multicast packets (number 0xffffff) go to each client that wants their kind. */
struct vnic_join {
  __u16 function;
  __u16 wants;
  __u32 qpn_range;
  __u32 qpn_shift;
};

struct vnic_joined {
  __u64 region_bytes;
  __u32 mtu;
  __u8 mac[6];
  __u16 reserved;
};
