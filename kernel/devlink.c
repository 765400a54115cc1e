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

/* phys_port_name is "p0" of the uplink, "pf0vf0" of a function, on a DPU "c1pf0vf0", and "c1pf0" of
 * its host's physical function; phys_switch_id is the card's. */
void nic_devlink_attributes(struct nic_port* port) {
  const struct vnic_welcome* card = &port->card->attach.welcome;
  const bool is_dpu = card->mode == VNIC_MODE_DPU;
  struct devlink_port_attrs attributes = {};

  attributes.switch_id.id_len = ETH_ALEN;
  memcpy(attributes.switch_id.id, card->macs[0], ETH_ALEN);
  attributes.flavour = DEVLINK_PORT_FLAVOUR_PHYSICAL;
  devlink_port_attrs_set(&port->devlink_port, &attributes);
  if (port->index == 0) return;
  if (is_dpu && port->index == card->ports - 1) {
    devlink_port_attrs_pci_pf_set(&port->devlink_port, 1, 0, true);
  } else {
    devlink_port_attrs_pci_vf_set(&port->devlink_port, is_dpu, 0, port->index - 1, is_dpu);
  }
}
