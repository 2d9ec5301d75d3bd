"""`murmur ca`: the certificates with which the parts of a cluster on several hosts know each
other."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from murmuration.base.errors import InputError
from murmuration.cli import common
from murmuration.runtime.options import AUTHORITY_DAYS, CERTIFICATE_DAYS, DAYS_MAX

if TYPE_CHECKING:
    import datetime

    from rich.table import Table

    from murmuration.runtime.net.authority import CertificateOrder, IssuedCertificate

CA = click.option(
    "--ca",
    "folder",
    type=click.Path(path_type=Path),
    envvar="MURMUR_CA",
    help="The authority's folder (default: MURMUR_CA, else ~/.murmur-ca).",
)


@click.group()
def ca() -> None:
    """Make, renew and revoke the certificates of a cluster's hosts.

    A cluster on one host needs none. The authority's folder is worth as much as the cluster: keep
    it on a host that runs no part of it.
    """


@ca.command()
@CA
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=AUTHORITY_DAYS,
    show_default=True,
    help="How long the authority, and so every certificate, can last.",
)
def init(folder: Path | None, days: int) -> None:
    """Make an authority."""
    from murmuration.runtime.net.authority import create_authority

    place = _authority_folder(folder)
    create_authority(place, days)
    common.say(
        f"{place} is an authority for {days} days; authority.key in it signs certificates and "
        "stays there\nnext: murmur ca issue NAME --role master --address HOST"
    )


@ca.command()
@click.argument("name")
@CA
@click.option("--role", help="What it is for: master, agent, operator, submitter or viewer.")
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="HOST",
    help="A name or an IP address under which others reach it; masters need one.",
)
@click.option(
    "--days",
    type=click.IntRange(1, DAYS_MAX),
    default=CERTIFICATE_DAYS,
    show_default=True,
    help="How long it is valid.",
)
@click.option(
    "--out",
    "to",
    type=click.Path(path_type=Path),
    help="The folder to make (default: NAME in the current one).",
)
@click.option(
    "--renew", is_flag=True, help="Make one more; role and addresses are those of the last one."
)
def issue(
    name: str,
    folder: Path | None,
    role: str | None,
    addresses: tuple[str, ...],
    days: int,
    to: Path | None,
    renew: bool,
) -> None:
    """Make the certificate NAME: a folder for one host or one person.

    A node agent's certificate has the name of its node.
    """
    from murmuration.runtime.net.authority import CertificateOrder, issue_certificate

    place = _authority_folder(folder)
    order = CertificateOrder(name, role or "", addresses, days)
    order = _complete_order(place, order, renew)
    target = Path(name) if to is None else to
    issued = issue_certificate(place, order, target)
    common.say(
        f"{target} is the certificate of {issued.name} ({issued.role}) until {_day(issued.ends)}\n"
        f"copy it to its host as tls in the cluster's folder, for example: "
        f"scp -pr {target} HOST:.murmur/tls\n"
        f"then remove it here; {target}/key.pem is secret"
    )


@ca.command()
@click.argument("name", metavar="NAME|SERIAL")
@CA
def revoke(name: str, folder: Path | None) -> None:
    """Revoke the certificates of NAME, or the one with this serial number."""
    from murmuration.runtime.net.authority import revoke_certificate
    from murmuration.runtime.net.certificates import REVOKED

    place = _authority_folder(folder)
    for issued in revoke_certificate(place, name):
        common.say(f"{issued.name} ({issued.role}), serial {issued.serial}, is revoked")
    common.say(
        f"copy {place / REVOKED} to tls/{REVOKED} in the cluster's folder of every host, masters "
        "first; a master sees it at its next connection and needs no restart"
    )


@ca.command(name="list")
@CA
@common.JSON
def list_issued(folder: Path | None, as_json: bool) -> None:
    """Show every certificate that was made."""
    from murmuration.runtime.net.authority import current_time, list_certificates

    issued, now = list_certificates(_authority_folder(folder)), current_time()
    if as_json:
        common.print_json([_row(each, now) for each in issued])
    else:
        common.print_table(_table(issued, now))


def _authority_folder(given: Path | None) -> Path:
    return (Path.home() / ".murmur-ca") if given is None else given.absolute()


def _complete_order(folder: Path, order: CertificateOrder, renew: bool) -> CertificateOrder:
    """A renewed certificate is like the last one but for what was asked for this time; without
    `--renew`, a name has one valid certificate."""
    from murmuration.runtime.net.authority import OWN_HOST, current_time, list_certificates

    earlier = [each for each in list_certificates(folder) if each.name == order.name]
    valid = [each for each in earlier if each.state(current_time()) == "valid"]
    if valid and not renew:
        raise InputError(
            f"{order.name} has a certificate until {_day(valid[-1].ends)}; --renew makes another "
            f"one, murmur ca revoke {order.name} ends it"
        )
    if renew and not earlier:
        raise InputError(f"--renew: expected a name that has a certificate, got {order.name!r}")
    if renew:
        last = earlier[-1]
        reached = tuple(host for host in last.addresses if host not in OWN_HOST)
        return order._replace(
            role=order.role or last.role, addresses=order.addresses or reached or last.addresses
        )
    if not order.role:
        raise InputError("--role: expected master, agent, operator, submitter or viewer")
    return order


def _day(moment: datetime.datetime) -> str:
    return moment.date().isoformat()


def _row(issued: IssuedCertificate, now: datetime.datetime) -> dict[str, Any]:
    return {
        "name": issued.name,
        "role": issued.role,
        "state": issued.state(now),
        "ends": issued.ends.isoformat(),
        "addresses": list(issued.addresses),
        "serial": issued.serial,
    }


def _table(issued: list[IssuedCertificate], now: datetime.datetime) -> Table:
    from rich.table import Table

    from murmuration.runtime.net.certificates import SOON_DAYS

    table = Table(box=None, pad_edge=False)
    for title in ("name", "role", "state", "until", "addresses", "serial"):
        table.add_column(title)
    for each in issued:
        state, left = each.state(now), (each.ends - now).days
        if state == "valid" and left < SOON_DAYS:
            state = f"valid, {left} days left"
        addresses = " ".join(each.addresses)
        table.add_row(each.name, each.role, state, _day(each.ends), addresses, each.serial)
    return table
