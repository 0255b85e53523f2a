"""Somebody says where their own notices go by mail, and whether any do; it is no part of the record."""

from typing import Final

from django.core.exceptions import ValidationError
from django.core.validators import EmailValidator

from branches.commands.refusal import Refused
from branches.models import Person

_LONGEST: Final = 254
_IS_ADDRESS: Final = EmailValidator()


def choose_notices(*, person: Person, email: str, by_mail: bool) -> None:
    """Keep the address and the choice. Raises Refused, which never says the address."""
    address = email.strip()
    if by_mail and not address:
        raise Refused(rule="required", field="email")
    if len(address) > _LONGEST:
        raise Refused(rule=f"max_bytes:{_LONGEST}", field="email")
    if address:
        try:
            _IS_ADDRESS(address)
        except ValidationError:
            raise Refused(rule="email", field="email") from None
    Person.objects.filter(pk=person.pk).update(email=address, by_mail=by_mail)
