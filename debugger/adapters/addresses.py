"""Which addresses a plug-in may connect to: public ones, private ones only where the target says so."""

from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final

from branches.ports import JsonValue

type Address = IPv4Address | IPv6Address
type Network = IPv4Network | IPv6Network

_LOOPBACK: Final[tuple[Network, ...]] = (IPv4Network("127.0.0.0/8"), IPv6Network("::1/128"))
# Whatever a target allows, these are never asked: the places where a cloud hands out its secrets, every
# way of writing another address inside an address, and what is no single machine.
_NEVER: Final[tuple[Network, ...]] = tuple(
    map(
        ip_network,
        (
            *("168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"),
            *("fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32"),
            *("169.254.0.0/16", "fe80::/10", "fec0::/10"),
            *("0.0.0.0/8", "192.88.99.0/24", "224.0.0.0/4", "240.0.0.0/4", "ff00::/8"),
            *("::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48", "2001::/32", "2002::/16"),
        ),
    )
)
# Written before IPv6 was told apart from what it wraps: `::` itself, and IPv4 in the last four bytes.
_COMPATIBLE: Final = IPv6Network("::/96")
_UNICAST_6: Final = IPv6Network("2000::/3")
# No destination either, and public by some versions of the registries: protocol assignments, documentation.
_DENIED: Final[tuple[Network, ...]] = (
    IPv4Network("192.0.0.0/24"),
    IPv6Network("2001::/23"),
    IPv6Network("3fff::/20"),
)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The private networks that one target names for itself."""

    networks: tuple[Network, ...] = ()

    @classmethod
    def of(cls, value: JsonValue) -> "Allowed":
        """Read the option `allow`: "loopback", or a list of networks. Raises ValueError."""
        if value is None:
            return cls()
        if value == "loopback":
            return cls(_LOOPBACK)
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            try:
                return cls(tuple(ip_network(str(each)) for each in value))
            except ValueError:  # it would say the value
                pass
        raise ValueError("allow: loopback or list:network")

    def admits(self, text: str) -> bool:
        """Whether an address may be connected to; as text, and one with a zone never."""
        try:
            address = ip_address(text)
        except ValueError:
            return False
        if "%" in text or _is_never(address):
            return False
        return any(_within(address, network) for network in self.networks) or _is_public(address)


def _within(address: Address, network: Network) -> bool:
    return address.version == network.version and address in network


def _is_never(address: Address) -> bool:
    if isinstance(address, IPv6Address) and address in _COMPATIBLE:
        return not address.is_loopback
    return any(_within(address, network) for network in _NEVER)


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    if isinstance(address, IPv6Address) and address not in _UNICAST_6:
        return False
    return not any(_within(address, network) for network in _DENIED)
