// SPDX-License-Identifier: GPL-2.0
/* Representors: network devices that take what the card has not decided, and send as the card does.
 */
#include <linux/etherdevice.h>
#include <linux/ethtool.h>
#include <linux/rtnetlink.h>

#include "nic.h"

static struct vnic_ring* receive_ring(const struct nic_port* port) {
  return &port->card->region->ports[port->index].receive[0];
}
static struct vnic_ring* send_ring(const struct nic_port* port) {
  return &port->card->region->ports[port->index].send[0];
}

/* The buffer of a ring's slot: first those to receive into, then those to send from. */
static u64 buffer_offset(const struct nic_port* port, bool is_send, u32 slot) {
  return ((port->index * 2ull + is_send) * NIC_DEPTH + slot % NIC_DEPTH) * NIC_BUFFER_BYTES;
}

static struct vnic_descriptor descriptor(const struct nic_port* port, bool is_send, u32 slot,
                                         u32 length) {
  return (struct vnic_descriptor){
      .address = port->card->attach.memory.address + buffer_offset(port, is_send, slot),
      .length = length,
  };
}

static void post_empty(struct nic_port* port) {
  struct vnic_ring* ring = receive_ring(port);
  u32 posted = ring->posted;

  for (; posted != port->received + NIC_DEPTH; ++posted) {
    ring->slots[posted % VNIC_SLOTS] = descriptor(port, false, posted, NIC_BUFFER_BYTES);
  }
  smp_store_release(&ring->posted, posted);
}

static void receive_one(struct nic_port* port, u32 length) {
  const void* frame = port->card->buffers + buffer_offset(port, false, port->received);
  struct net_device* netdev = port->netdev;
  struct sk_buff* skb;

  if (length < ETH_HLEN || length > NIC_BUFFER_BYTES) return; /* It could not be used. */
  skb = napi_alloc_skb(&port->napi, length);
  if (!skb) {
    ++netdev->stats.rx_dropped;
    return;
  }
  skb_put_data(skb, frame, length);
  skb->protocol = eth_type_trans(skb, netdev);
  ++netdev->stats.rx_packets;
  netdev->stats.rx_bytes += length;
  napi_gro_receive(&port->napi, skb);
}

static bool has_room(const struct nic_port* port) {
  return port->sent - smp_load_acquire(&send_ring(port)->done) < NIC_DEPTH;
}

static int poll(struct napi_struct* napi, int budget) {
  struct nic_port* port = container_of(napi, struct nic_port, napi);
  struct vnic_ring* ring = receive_ring(port);
  u32 done = smp_load_acquire(&ring->done);
  int count = 0;

  /* A cursor that is wrong is the card's fault: nothing has come. */
  if (done - port->received > NIC_DEPTH) done = port->received;
  for (; count < budget && port->received != done; ++count, ++port->received) {
    receive_one(port, READ_ONCE(ring->slots[port->received % VNIC_SLOTS].length));
  }
  if (count != 0) post_empty(port);
  if (netif_queue_stopped(port->netdev) && has_room(port)) netif_wake_queue(port->netdev);
  if (count < budget) napi_complete_done(napi, count);
  return count;
}

static netdev_tx_t start_xmit(struct sk_buff* skb, struct net_device* netdev) {
  struct nic_port* port = netdev_priv(netdev);
  struct vnic_ring* ring = send_ring(port);

  if (!has_room(port)) {
    netif_stop_queue(netdev);
    return NETDEV_TX_BUSY;
  }
  if (!READ_ONCE(port->card->is_attached) || skb->len > NIC_BUFFER_BYTES ||
      skb_copy_bits(skb, 0, port->card->buffers + buffer_offset(port, true, port->sent),
                    skb->len) != 0) {
    ++netdev->stats.tx_dropped;
    dev_kfree_skb_any(skb);
    return NETDEV_TX_OK;
  }
  ring->slots[port->sent % VNIC_SLOTS] = descriptor(port, true, port->sent, skb->len);
  smp_store_release(&ring->posted, ++port->sent);
  ++netdev->stats.tx_packets;
  netdev->stats.tx_bytes += skb->len;
  dev_consume_skb_any(skb);
  if (!has_room(port)) {
    netif_stop_queue(netdev);
    smp_mb(); /* The poll looks at the queue after the card's cursor. */
    if (has_room(port)) netif_wake_queue(netdev);
  }
  nic_ring(port->card);
  return NETDEV_TX_OK;
}

static int tell_card(struct nic_port* port, u32 operation) {
  int error;

  mutex_lock(&port->card->lock);
  error = nic_port_command(port->card, operation, port->index);
  mutex_unlock(&port->card->lock);
  return error;
}

/* Frames that came before are old. */
static void prepare_rings(struct nic_port* port) {
  struct vnic_port* shared = &port->card->region->ports[port->index];

  shared->receive_queues = shared->send_queues = 1;
  port->received = smp_load_acquire(&receive_ring(port)->done);
  port->sent = READ_ONCE(send_ring(port)->posted);
  receive_ring(port)->posted = port->received;
  post_empty(port);
}

static int port_open(struct net_device* netdev) {
  struct nic_port* port = netdev_priv(netdev);
  int error;

  prepare_rings(port);
  napi_enable(&port->napi);
  error = tell_card(port, VNIC_START);
  if (error == -ENODEV) error = 0; /* It is started when there is a card. */
  if (error) {
    napi_disable(&port->napi);
    return error;
  }
  netif_start_queue(netdev);
  return 0;
}

static int port_stop(struct net_device* netdev) {
  struct nic_port* port = netdev_priv(netdev);

  netif_stop_queue(netdev);
  tell_card(port, VNIC_STOP); /* If it does not hear, its frames find no buffer. */
  napi_disable(&port->napi);
  return 0;
}

static struct devlink_port* get_devlink_port(struct net_device* netdev) {
  struct nic_port* port = netdev_priv(netdev);

  return &port->devlink_port;
}

static const struct net_device_ops operations = {
    .ndo_open = port_open,
    .ndo_stop = port_stop,
    .ndo_start_xmit = start_xmit,
    .ndo_set_mac_address = eth_mac_addr,
    .ndo_validate_addr = eth_validate_addr,
    .ndo_setup_tc = nic_setup_tc,
    .ndo_get_devlink_port = get_devlink_port,
};

bool nic_is_port(const struct net_device* netdev, const struct nic_card* card) {
  return netdev->netdev_ops == &operations &&
         ((const struct nic_port*)netdev_priv(netdev))->card == card;
}

static void setup(struct net_device* netdev) {
  ether_setup(netdev);
  netdev->netdev_ops = &operations;
  netdev->ethtool_ops = &nic_ethtool_ops;
  netdev->max_mtu = NIC_MTU_MAX;
  netdev->hw_features |= NETIF_F_HW_TC;
  netdev->features |= NETIF_F_HW_TC | NETIF_F_NETNS_LOCAL;
  netdev->priv_flags |= IFF_LIVE_ADDR_CHANGE;
  eth_hw_addr_random(netdev);
}

static int port_create(struct nic_card* card, u16 index) {
  char name[IFNAMSIZ] = "vnicp0";
  struct net_device* netdev;
  struct nic_port* port;
  int error;

  if (index != 0) snprintf(name, sizeof name, "vnicpf0vf%u", index - 1);
  if (card->attach.welcome.mode == VNIC_MODE_DPU && index == card->attach.welcome.ports - 1) {
    strscpy(name, "vnicpf0hpf", sizeof name);
  }
  netdev = alloc_netdev(sizeof *port, name, NET_NAME_ENUM, setup);
  if (!netdev) return -ENOMEM;
  port = netdev_priv(netdev);
  port->card = card;
  port->netdev = netdev;
  port->index = index;
  SET_NETDEV_DEV(netdev, &card->device->dev);
  netif_napi_add(netdev, &port->napi, poll);
  nic_devlink_attributes(port);
  error = devlink_port_register(card->devlink, &port->devlink_port, index);
  if (error) goto free;
  netif_carrier_off(netdev);
  error = register_netdev(netdev);
  if (error) goto unregister;
  devlink_port_type_eth_set(&port->devlink_port, netdev);
  card->ports[index] = port;
  return 0;
unregister:
  devlink_port_unregister(&port->devlink_port);
free:
  free_netdev(netdev);
  return error;
}

void nic_ports_destroy(struct nic_card* card) {
  int i;

  for (i = 0; i < VNIC_PORTS_MAX; ++i) {
    struct nic_port* port = card->ports[i];

    if (!port) continue;
    devlink_port_type_clear(&port->devlink_port);
    unregister_netdev(port->netdev);
    devlink_port_unregister(&port->devlink_port);
    free_netdev(port->netdev);
    card->ports[i] = NULL;
  }
}

int nic_ports_create(struct nic_card* card) {
  u32 i;

  for (i = 0; i < card->attach.welcome.ports; ++i) {
    const int error = port_create(card, i);

    if (!error) continue;
    nic_ports_destroy(card);
    return error;
  }
  return 0;
}

void nic_ports_reset(struct nic_card* card) {
  u32 i;

  for (i = 0; i < card->attach.welcome.ports; ++i) {
    struct nic_port* port = card->ports[i];

    if (!netif_running(port->netdev)) continue;
    netif_tx_disable(port->netdev);
    napi_disable(&port->napi);
    prepare_rings(port);
    napi_enable(&port->napi);
    netif_wake_queue(port->netdev);
  }
}

bool nic_ports_start(struct nic_card* card) {
  u32 i;

  for (i = 0; i < card->attach.welcome.ports; ++i) {
    struct nic_port* port = card->ports[i];

    if (!port || !netif_running(port->netdev)) continue;
    if (nic_is_silent(tell_card(port, VNIC_START))) return false;
  }
  return true;
}

void nic_ports_interrupt(struct nic_card* card) {
  u32 i;

  local_bh_disable();
  for (i = 0; i < card->attach.welcome.ports; ++i) {
    struct nic_port* port = card->ports[i];

    if (port && netif_running(port->netdev)) napi_schedule(&port->napi);
  }
  local_bh_enable();
}

void nic_ports_link(struct nic_card* card, bool is_up) {
  u32 i;

  for (i = 0; i < card->attach.welcome.ports; ++i) {
    struct nic_port* port = card->ports[i];

    if (!port) continue;
    if (is_up) {
      netif_carrier_on(port->netdev);
    } else {
      netif_carrier_off(port->netdev);
    }
  }
}
