// SPDX-License-Identifier: GPL-2.0
/* What scripts ask of a card's switch: its mode, its ports, the functions' addresses. */
#include <linux/etherdevice.h>

#include "nic.h"

static int eswitch_mode_get(struct devlink* devlink, u16* mode) {
  *mode = DEVLINK_ESWITCH_MODE_SWITCHDEV;
  return 0;
}

static int eswitch_mode_set(struct devlink* devlink, u16 mode, struct netlink_ext_ack* extack) {
  if (mode == DEVLINK_ESWITCH_MODE_SWITCHDEV) return 0;
  NL_SET_ERR_MSG_MOD(extack, "The card is always in the mode switchdev");
  return -EOPNOTSUPP;
}

static struct nic_port* port_of(struct devlink_port* port) {
  return container_of(port, struct nic_port, devlink_port);
}

static int get_address(struct devlink_port* of, u8* address, int* length,
                       struct netlink_ext_ack* extack) {
  const struct nic_port* port = port_of(of);

  if (port->index == 0) return -EOPNOTSUPP; /* The uplink has no function. */
  memcpy(address, port->card->attach.welcome.macs[port->index], ETH_ALEN);
  *length = ETH_ALEN;
  return 0;
}

static int set_address(struct devlink_port* of, const u8* address, int length,
                       struct netlink_ext_ack* extack) {
  struct nic_port* port = port_of(of);
  struct nic_card* card = port->card;
  struct vnic_command command = {.operation = VNIC_SET_MAC};
  int error;

  if (port->index == 0 || length != ETH_ALEN) return -EOPNOTSUPP;
  command.rule.port = port->index;
  memcpy(command.rule.actions[0].bytes, address, ETH_ALEN);
  mutex_lock(&card->lock);
  error = nic_command(card, &command);
  if (!error) memcpy(card->attach.welcome.macs[port->index], address, ETH_ALEN);
  mutex_unlock(&card->lock);
  return error;
}

const struct devlink_ops nic_devlink_ops = {
    .eswitch_mode_get = eswitch_mode_get,
    .eswitch_mode_set = eswitch_mode_set,
    .port_function_hw_addr_get = get_address,
    .port_function_hw_addr_set = set_address,
};

/* phys_port_name is "p0" of the uplink, "pf0vf0" of a function; phys_switch_id is the card's. */
void nic_devlink_attributes(struct nic_port* port) {
  struct devlink_port_attrs attributes = {};

  attributes.switch_id.id_len = ETH_ALEN;
  memcpy(attributes.switch_id.id, port->card->attach.welcome.macs[0], ETH_ALEN);
  if (port->index == 0) {
    attributes.flavour = DEVLINK_PORT_FLAVOUR_PHYSICAL;
    devlink_port_attrs_set(&port->devlink_port, &attributes);
    return;
  }
  devlink_port_attrs_set(&port->devlink_port, &attributes);
  devlink_port_attrs_pci_vf_set(&port->devlink_port, 0, 0, port->index - 1, false);
}
