/*
 * The memory that a card shares with its driver, and the messages of its socket. Written once, in
 * C, so that a kernel module can include it. Fields are plain: cursors, flags and counters are read
 * and written with acquire and release (ring.h for C++, smp_load_acquire and smp_store_release in a
 * kernel).
 *
 * The card creates the memory, one for each driver. A ring is an array of descriptors with two
 * cursors that only grow: the driver posts (empty buffers to receive into, full ones to send), the
 * card completes in order. The driver owns all packet memory: it registers it by descriptor, and
 * its addresses are checked by the card against what is registered.
 */
#pragma once

#include <linux/types.h>

/* Of the socket's messages: VNIC, and a number that changes with every change of this file. */
#define VNIC_MAGIC 0x43494e56u
#define VNIC_VERSION 5

#define VNIC_PORTS_MAX 64u  /* Port 0 is the uplink, port N + 1 function N (vnic_welcome). */
#define VNIC_QUEUES_MAX 16u /* Of one port and direction. */
#define VNIC_SLOTS 1024u    /* Of one ring. */
#define VNIC_COMMANDS 256u
#define VNIC_ACTIONS_MAX 16u
#define VNIC_RANGES_MAX 4u
#define VNIC_OPTIONS_MAX 2u
#define VNIC_OPTION_BYTES 36u
#define VNIC_GROUPS_MAX 512u
#define VNIC_METERS_MAX 1024u
#define VNIC_COLORS 3u   /* Green, yellow, red. */
#define VNIC_SPREAD 128u /* Entries of the table that spreads what is received over queues. */
#define VNIC_CACHE_LINE 64

struct vnic_descriptor {
  __u64 address; /* The driver's own, virtual. */
  __u32 length;  /* To receive: room when posted, bytes when completed. */
  __u32 mark;    /* Of a received frame; 0: none. */
};

struct vnic_ring {
  __u32 posted __attribute__((aligned(VNIC_CACHE_LINE))); /* The driver writes it. */
  __u32 done __attribute__((aligned(VNIC_CACHE_LINE)));   /* The card writes it. */
  struct vnic_descriptor slots[VNIC_SLOTS] __attribute__((aligned(VNIC_CACHE_LINE)));
};

/*
 * What rules match, in network byte order; zeros where a frame has no such field. A bit that is not
 * in the mask is ignored.
 */
struct vnic_match {
  __u8 destination_mac[6];
  __u8 source_mac[6];
  __u8 ether_type[2]; /* Of what follows the first VLAN tag. */
  __u8
      vlan_tag[2]; /* Priority and id of the first tag; bit 0x10 of the first byte: there is one. */
  __u8 vlan_protocol[2];    /* 0x8100 or 0x88a8; zero without a tag. */
  __u8 protocol;            /* After the IPv6 extension headers. */
  __u8 traffic_class;       /* IPv4: TOS. */
  __u8 hop_limit;           /* IPv4: time to live. */
  __u8 fragment;            /* VNIC_FRAGMENT_... */
  __u8 tcp_flags[2];        /* With the low bits of the data offset's byte. */
  __u8 source_port[2];      /* TCP, UDP, SCTP; ICMP: the type in the second byte. */
  __u8 destination_port[2]; /* ICMP: the code in the second byte. */
  __u8 reserved[4];
  __u8 source_ip[16]; /* IPv4: in the first four bytes. */
  __u8 destination_ip[16];
};

enum vnic_fragment {
  VNIC_FRAGMENT_NONE = 0,
  VNIC_FRAGMENT_FIRST = 1,
  VNIC_FRAGMENT_LATER = 3,
};

enum vnic_action_kind {
  VNIC_ACTION_OUTPUT = 1, /* port: copies the frame as it is at that point. */
  VNIC_ACTION_DROP = 2,
  VNIC_ACTION_MARK = 3,                /* value: what the driver finds beside the frame. */
  VNIC_ACTION_JUMP = 4,                /* value: the group in which the search goes on. */
  VNIC_ACTION_SET_DESTINATION_MAC = 5, /* bytes */
  VNIC_ACTION_SET_SOURCE_MAC = 6,
  VNIC_ACTION_SET_SOURCE_IPV4 = 7,
  VNIC_ACTION_SET_DESTINATION_IPV4 = 8,
  VNIC_ACTION_SET_SOURCE_IPV6 = 9,
  VNIC_ACTION_SET_DESTINATION_IPV6 = 10,
  VNIC_ACTION_SET_HOP_LIMIT = 11, /* value, as of the following ones; IPv4: time to live. */
  VNIC_ACTION_SET_SOURCE_PORT = 12,
  VNIC_ACTION_SET_DESTINATION_PORT = 13,
  VNIC_ACTION_PUSH_VLAN = 14, /* The type that announces the tag. */
  VNIC_ACTION_POP_VLAN = 15,
  VNIC_ACTION_SET_VLAN_ID = 16,
  VNIC_ACTION_SET_VLAN_PRIORITY = 17,
  /* value: bytes of a header, Ethernet to the tunnel's own, that is put before the frame. The card
   * fills in lengths, IPv4's checksum, and UDP's source port if it is zero. */
  VNIC_ACTION_ENCAPSULATE = 18,
  VNIC_ACTION_HEADER = 19, /* Follows it: bytes has 16 of the header, the last one the rest. */
  VNIC_ACTION_DECAPSULATE =
      20,                 /* value: bytes that are taken away; 0: all before a tunnel's frame. */
  VNIC_ACTION_METER = 21, /* value: a meter, which drops the frame or not. */
};

struct vnic_action {
  __u16 kind;
  __u16 port;
  __u32 value;
  __u8 bytes[16]; /* Of an address or a header, in network byte order. */
};

enum vnic_domain {
  VNIC_DOMAIN_TRANSFER = 0, /* The rule decides where the frame goes. */
  VNIC_DOMAIN_INGRESS = 1,  /* The frame goes to the driver, with a mark. */
};

enum vnic_tunnel_kind {
  VNIC_TUNNEL_VXLAN = 1,  /* UDP port 4789 */
  VNIC_TUNNEL_GENEVE = 2, /* UDP port 6081 */
  VNIC_TUNNEL_GRE = 3,
};

/* A tunnel, whose headers are vnic_rule.key's, and what is in it. */
struct vnic_tunnel {
  __u8 kind; /* Mask: 0xff, or the rule asks for no tunnel. */
  __u8 reserved;
  __u8 protocol[2]; /* EtherType of what is in it; 0x6558: a frame. */
  __u8 id[4];       /* In network byte order; VXLAN and Geneve: 24 bits. */
  struct vnic_match inner;
};

/* A number in vnic_match that must be in a range. Its bits are not in the rule's mask. */
struct vnic_range {
  __u8 is_inner; /* Of what is in the tunnel. */
  __u8 at;       /* Offset in vnic_match. */
  __u8 size;     /* Bytes, 1 to 16. */
  __u8 reserved[5];
  __u8 mask[16];
  __u8 low[16]; /* Both ends are in the range. */
  __u8 high[16];
};

/* An option of Geneve that a packet must have, at any place: its header (class, type, length) and
 * data. */
struct vnic_option {
  __u8 size; /* Bytes, 4 to VNIC_OPTION_BYTES. */
  __u8 reserved[3];
  __u8 mask[VNIC_OPTION_BYTES];
  __u8 value[VNIC_OPTION_BYTES];
};

/* What few rules have. */
struct vnic_more {
  struct vnic_tunnel tunnel;
  struct vnic_tunnel tunnel_mask;
  __u32 range_count;
  __u32 option_count;
  struct vnic_range ranges[VNIC_RANGES_MAX];
  struct vnic_option options[VNIC_OPTIONS_MAX];
};

struct vnic_rule {
  struct vnic_match key;
  struct vnic_match mask;
  __u32 id;       /* Of the rule and its counter; below vnic_welcome.rules_max. */
  __u32 priority; /* 0 wins. */
  __u16 port;     /* From which frames come. */
  __u16 group;
  __u16 domain;
  __u16 action_count;
  __u32 has_more;       /* `more` counts. */
  __u32 shared_counter; /* Of another id, which counts, too: that id + 1; 0: none. */
  struct vnic_action actions[VNIC_ACTIONS_MAX];
  struct vnic_more more;
};

enum vnic_meter_algorithm {
  VNIC_METER_SINGLE_RATE = 0, /* RFC 2697 */
  VNIC_METER_TWO_RATE = 1,    /* RFC 2698 */
};

struct vnic_meter {
  __u32 id; /* Below VNIC_METERS_MAX. */
  __u8 algorithm;
  __u8 counts_packets; /* Rates and bursts are in packets, not in bytes. */
  __u8 drops;          /* A bit for each color. */
  __u8 reserved;
  __u64 committed_rate; /* A second. */
  __u64 peak_rate;      /* VNIC_METER_TWO_RATE */
  __u64 committed_burst;
  __u64 other_burst; /* Excess, or peak. */
};

enum vnic_operation {
  VNIC_INSERT = 1,
  VNIC_ERASE = 2,       /* rule.id */
  VNIC_START = 3,       /* rule.port: frames may be put into its rings. */
  VNIC_STOP = 4,        /* rule.port: the card touches no buffer of it any more. */
  VNIC_SET_MAC = 5,     /* rule.port; rule.actions[0].bytes: of the function's interface. */
  VNIC_SET_LINK = 6,    /* rule.port; rule.actions[0].value: 0 is down. */
  VNIC_SET_METER = 7,   /* meter: a new one, or other rates for one that is there. */
  VNIC_CLEAR_METER = 8, /* meter.id; rules that name it let everything pass. */
};

/* The card takes commands in their order, before frames that come later. */
struct vnic_command {
  __u32 operation;
  __s32 result; /* 0 or a negative errno value, when it is done. */
  union {
    struct vnic_rule rule;
    struct vnic_meter meter;
  };
};

struct vnic_counter {
  __u64 packets; /* Large frames count as the packets that they are cut into. */
  __u64 bytes;
};

struct vnic_meter_counter {
  __u64 packets[VNIC_COLORS];
  __u64 bytes[VNIC_COLORS];
  __u64 dropped_packets;
  __u64 dropped_bytes;
};

struct vnic_port_counters {
  __u64 missed_packets; /* To the driver. */
  __u64 missed_bytes;
  __u64 sent_packets; /* From the driver. */
  __u64 sent_bytes;
  __u64 offloaded_packets;
  __u64 offloaded_bytes;
  __u64 no_buffer_dropped; /* No buffer was posted, or a too small one. */
  __u64 egress_dropped;    /* The function took no frame. */
};

struct vnic_port {
  struct vnic_ring receive[VNIC_QUEUES_MAX];
  struct vnic_ring send[VNIC_QUEUES_MAX];
  /* The driver writes how many rings it uses before VNIC_START. */
  __u32 receive_queues __attribute__((aligned(VNIC_CACHE_LINE)));
  __u32 send_queues;
  /* Which ring a frame goes to, by its flow's hash. Without `has_spread`: hash modulo rings. */
  __u8 spread[VNIC_SPREAD];
  __u32 has_spread;
  __u32 link_is_up __attribute__((aligned(VNIC_CACHE_LINE)));
  struct vnic_port_counters counters;
};

struct vnic_region {
  __u32 asleep __attribute__((aligned(VNIC_CACHE_LINE))); /* The card waits for its doorbell. */
  __u32 command_posted __attribute__((aligned(VNIC_CACHE_LINE)));
  __u32 command_done __attribute__((aligned(VNIC_CACHE_LINE)));
  __u64 commands_refused;
  struct vnic_command commands[VNIC_COMMANDS];
  struct vnic_port ports[VNIC_PORTS_MAX];
};

/* They follow the region: VNIC_METERS_MAX of them, by the meters' ids; */
static inline struct vnic_meter_counter* vnic_meter_counters(struct vnic_region* region) {
  return (struct vnic_meter_counter*)(region + 1);
}
/* then vnic_welcome.rules_max of these, by the rules' ids. */
static inline struct vnic_counter* vnic_counters(struct vnic_region* region) {
  return (struct vnic_counter*)(vnic_meter_counters(region) + VNIC_METERS_MAX);
}
static inline __u64 vnic_region_bytes(__u32 rules_max) {
  return sizeof(struct vnic_region) + VNIC_METERS_MAX * sizeof(struct vnic_meter_counter) +
         rules_max * (__u64)sizeof(struct vnic_counter);
}

/* How much of a rule is used: its rest need not be copied. */
static inline unsigned long vnic_rule_bytes(const struct vnic_rule* rule) {
  if (rule->has_more || rule->action_count > VNIC_ACTIONS_MAX) return sizeof *rule;
  return (
      unsigned long)((const char*)(rule->actions + (rule->action_count ? rule->action_count : 1)) -
                     (const char*)rule);
}

/* Each message of the socket (SOCK_SEQPACKET) begins with this. */
struct vnic_message {
  __u32 magic;
  __u16 version;
  __u16 type;
};

enum vnic_message_type {
  VNIC_HELLO = 1,        /* From the driver, without more. The card answers VNIC_WELCOME. */
  VNIC_WELCOME = 2,      /* vnic_welcome; beside it: the region, the doorbell (eventfd). */
  VNIC_MEMORY = 3,       /* vnic_memory from the driver; beside it: the file. */
  VNIC_REGISTERED = 4,   /* The card's answer. */
  VNIC_REFUSAL = 0xffff, /* An errno value (4 bytes), and why, in words. */
};

enum vnic_mode {
  VNIC_MODE_HOST = 0, /* The driver is where the functions are. */
  VNIC_MODE_DPU = 1,  /* It is on the card's own processors: the last port is its host's PF. */
};

struct vnic_welcome {
  __u32 ports;
  __u32 rules_max;
  __u32 mode;
  __u32 reserved;
  __u64 region_bytes;
  __u8 macs[VNIC_PORTS_MAX][6]; /* Of the functions. */
};

struct vnic_memory {
  __u64 address;
  __u64 length;
  __u64 offset; /* In the file. */
};
