"""The network of containers: each has an interface and an address of its own and a way out through
the node, and reaches nothing of the node itself.

A container's end of a pair of interfaces lies in its network namespace, the other on the node, so
that the kernel removes both with the container, however it ends. The node's end and the addresses
are named after the task's folder. What the node filters and translates stands in one table of
nftables, named after the folder of the node's tasks:

- what comes from a container for the node itself, for another container or for the link's own
  services (where clouds hand out credentials) is refused, but for answers, and for ports that a
  task was given;
- what it sends elsewhere leaves under the node's address;
- what arrives for a task's port goes to its container, and nothing else does.

A route to an address is also its reservation: the kernel takes it once, so that agents of several
clusters need not know of each other. Everything acts in the network namespace of the caller.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from murmuration.runtime.node.isolation.interface import StartFailed

#: Set aside for tests between networks (RFC 2544): no host outside has such an address.
ADDRESSES = IPv4Network("198.18.0.0/15")
GATEWAY = ADDRESSES[1]
LINK, TABLE, GUARD = "mur-", "murmur-", "murmur-guard"
PORTS = "ports"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
LOCK = Path("/run/murmur-network.lock")
#: The first addresses are the gateway's; one of so many others is free.
FIRST, TRIES = 256, 16
COMMAND_S = 30.0

RULES = f"""
table inet NAME {{
  map {PORTS} {{ type inet_proto . inet_service : ipv4_addr; }}
  chain input {{
    type filter hook input priority -10;
    iifname != "{LINK}*" return
    ct state established,related accept
    meta l4proto tcp reject with tcp reset
    reject with icmpx admin-prohibited
  }}
  chain forward {{
    type filter hook forward priority -10;
    iifname != "{LINK}*" oifname != "{LINK}*" return
    ct state established,related accept
    ct status dnat accept
    iifname != "{LINK}*" drop
    oifname "{LINK}*" reject with icmpx admin-prohibited
    meta nfproto ipv6 drop
    ip daddr 169.254.0.0/16 reject with icmpx admin-prohibited
  }}
  chain prerouting {{
    type nat hook prerouting priority -100;
    fib daddr type local dnat ip to meta l4proto . th dport map @{PORTS}
  }}
  chain output {{
    type nat hook output priority -100;
    fib daddr type local dnat ip to meta l4proto . th dport map @{PORTS}
  }}
  chain postrouting {{
    type nat hook postrouting priority 100;
    ip saddr {ADDRESSES} masquerade
    oifname "{LINK}*" ip saddr 127.0.0.0/8 masquerade
  }}
}}
"""
#: Where forwarding was off, it is on for containers alone.
GUARD_RULES = f"""
table inet {GUARD} {{
  chain forward {{
    type filter hook forward priority -20;
    iifname "{LINK}*" accept
    oifname "{LINK}*" accept
    drop
  }}
}}
"""
#: Run by runc before the task begins, outside its namespaces; the container's state is its input.
#: Arguments: the node's interface, the gateway, what to do with nftables, addresses to try.
HOOK = """set -e
read -r state || :
pid=${state##*'"pid":'}; pid=${pid# }; pid=${pid%%[!0-9]*}
link=$1 gateway=$2 elements=$3; shift 3
[ ! -e "/proc/sys/net/ipv4/conf/$link" ] || ip link delete "$link" 2>/dev/null || :
ip -batch - <<.
link add $link type veth peer name eth0 netns $pid
link set $link addrgenmode none up
address add $gateway/32 dev $link
.
for address; do
  if ip route add "$address/32" dev "$link" 2>/dev/null; then found=$address; break; fi
done
[ -n "$found" ] || { echo "no address is free" >&2; exit 1; }
echo 1 > "/proc/sys/net/ipv4/conf/$link/route_localnet"
nsenter --net="/proc/$pid/ns/net" ip -batch - <<.
address add $found/32 dev eth0
link set eth0 addrgenmode none up
route add $gateway dev eth0
route add default via $gateway dev eth0
.
[ -z "$elements" ] || echo "$elements" | sed "s/ADDRESS/$found/g" | nft -f -"""


def missing() -> str:
    """Why containers have no way out here, in a sentence; empty if they do."""
    for program, package in (("ip", "iproute2"), ("nft", "nftables"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is not installed (package {package})"
    return ""


def link_name(folder: Path) -> str:
    """The node's interface of the container of a task's folder."""
    return LINK + _digest(folder)[:11]


def table_name(tasks: Path) -> str:
    """The table of the containers whose folders lie in `tasks`."""
    return TABLE + _digest(tasks)[:12]


def _digest(folder: Path) -> str:
    return hashlib.blake2b(os.fsencode(folder.resolve()), digest_size=16).hexdigest()


def list_addresses(folder: Path) -> list[IPv4Address]:
    """Addresses that the container of a folder may take: which ones only its name decides."""
    seed, room = _digest(folder), ADDRESSES.num_addresses - FIRST - 1
    draws = (hashlib.blake2b(f"{seed} {k}".encode()).digest() for k in range(TRIES))
    return [ADDRESSES[FIRST + int.from_bytes(draw[:8]) % room] for draw in draws]


def make_hook(folder: Path, ports: Sequence[int]) -> dict[str, Any]:
    """What runc is to run for the container of a folder."""
    link, elements = link_name(folder), ""
    if ports:
        pairs = [f"{kind} . {port}" for port in ports for kind in ("tcp", "udp")]
        listed = ", ".join(f'{pair} comment "{link}" : ADDRESS' for pair in pairs)
        # `create`, unlike `add`, refuses a port that another container has.
        elements = f"create element inet {table_name(folder.parent)} {PORTS} {{ {listed} }}"
    addresses = [str(address) for address in list_addresses(folder)]
    shell = shutil.which("sh") or "/bin/sh"
    words = ["sh", "-c", HOOK, "murmur-network", link, str(GATEWAY), elements, *addresses]
    path = os.environ.get("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
    return {"path": shell, "args": words, "env": [f"PATH={path}"]}


def prepare(tasks: Path) -> None:
    """The table of these tasks stands and the node forwards; whoever cleared all tables meanwhile
    has it put back here."""
    table = table_name(tasks)
    with _lock_tables():
        if _run("nft", "list", "chain", "inet", table, "postrouting")[0]:
            _load(RULES.replace("NAME", table))
        if FORWARDING.read_text().strip() == "0":
            if _run("nft", "list", "table", "inet", GUARD)[0]:
                _load(GUARD_RULES)
            FORWARDING.write_text("1")


def remove(tasks: Path) -> None:
    """Nothing of these tasks' network is left. With the last table of all clusters goes what was
    done for all of them."""
    if missing() or not Path("/proc/sys/net").exists() or os.geteuid() != 0:
        return
    with _lock_tables():
        _run("nft", "delete", "table", "inet", table_name(tasks))
        tables = re.findall(r"table inet (\S+)", _run("nft", "list", "tables")[1])
        if GUARD in tables and not any(name.startswith(TABLE) for name in tables if name != GUARD):
            FORWARDING.write_text("0")
            _run("nft", "delete", "table", "inet", GUARD)


def release(folder: Path) -> None:
    """The ports of the container of a folder are free again; its interface went with it."""
    link, table = link_name(folder), table_name(folder.parent)
    keys = [f"{kind} . {port}" for kind, port, owner in _ports(table) if owner == link]
    if keys:
        _run("nft", f"delete element inet {table} {PORTS} {{ {', '.join(keys)} }}")


def list_taken_ports() -> set[int]:
    """The ports of this node that containers of any cluster have: nobody listens on them here."""
    if missing() or os.geteuid() != 0:
        return set()
    names = re.findall(rf"table inet ({TABLE}\S+)", _run("nft", "list", "tables")[1])
    return {port for name in names if name != GUARD for _, port, _ in _ports(name)}


def _ports(table: str) -> Iterator[tuple[str, int, str]]:
    """Protocol, number and owner of every port that a table hands on."""
    code, text = _run("nft", "-j", "list", "map", "inet", table, PORTS)
    for entry in json.loads(text)["nftables"] if code == 0 else ():
        for key, _ in entry.get("map", {}).get("elem", ()):
            kind, port = key["elem"]["val"]["concat"]
            yield kind, port, key["elem"].get("comment", "")


@contextlib.contextmanager
def _lock_tables() -> Iterator[None]:
    """One at a time: agents of several clusters share a node's tables."""
    descriptor = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _load(rules: str) -> None:
    code, text = _run("nft", "-f", "-", given=rules)
    if code:
        # The node's fault, not the task's.
        raise StartFailed(f"network: {text.strip() or 'nft failed'}") from OSError(
            errno.EIO, "network"
        )


def _run(*words: str, given: str = "") -> tuple[int, str]:
    """A command's exit code and what it printed."""
    try:
        done = subprocess.run(
            words, input=given, capture_output=True, text=True, check=False, timeout=COMMAND_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, str(error)
    return done.returncode, done.stdout + done.stderr
