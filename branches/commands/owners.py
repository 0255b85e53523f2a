"""Who may be named as an owner: one whom the workflow declares, or somebody of the workspace."""

from branches.commands.refusal import Refused
from branches.models import Person, Run
from branches.queries.authority import roles_of
from branches.queries.declarations import declaration_of


def require_owner(run: Run, owner: str) -> str:
    """Return the owner as a receipt names them: the declared name, or a person's id. Raises Refused."""
    declaration = declaration_of(run)
    if declaration is not None and owner in declaration.owners:
        return owner
    person = Person.objects.filter(username=owner, is_active=True).first() if owner else None
    if person is None or not roles_of(person, run.workspace):
        raise Refused(rule="owner_unknown", field="owner")
    return person.uid
