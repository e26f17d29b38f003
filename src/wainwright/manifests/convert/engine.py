"""The conversion itself: classes first, then pools, then who shares which class, then claims."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from wainwright.api.fault import Fault
from wainwright.api.old.awsnodetemplate import AWSNodeTemplate
from wainwright.api.old.check import old_faults, old_kind, written
from wainwright.api.old.ec2nodeclass_v1beta1 import EC2NodeClassV1Beta1
from wainwright.api.old.nodeclaim_v1beta1 import NodeClaimV1Beta1
from wainwright.api.old.nodepool_v1beta1 import NodePoolV1Beta1
from wainwright.api.old.provisioner import Provisioner
from wainwright.api.wire import Wire
from wainwright.manifests.convert.draft import Draft
from wainwright.manifests.convert.mentions import doubles, mentions
from wainwright.manifests.convert.nodeclaim import node_claim
from wainwright.manifests.convert.nodeclass import node_class, node_template
from wainwright.manifests.convert.nodepool import node_pool
from wainwright.manifests.convert.notes import Note
from wainwright.manifests.convert.provisioner import provisioner
from wainwright.manifests.convert.sharing import Classes, Wish, share
from wainwright.manifests.convert.today import class_of, name_of, of_today

Document = dict[str, Any]


class Misfit(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of an old document, which is therefore left as it is."""

    document: int
    """Which document of the input, counted from 0."""
    fault: Fault


class Conversion(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the input."""

    documents: list[Document]
    origins: list[int]
    """For each of the documents, which one of the input it comes from."""
    notes: list[Note]
    faults: list[Misfit]


def convert(documents: Sequence[Any]) -> Conversion:
    """Turn old kinds into v1; everything else comes out as it is, at its place.

    An old document that is not what its kind asks for stays unconverted, and its faults are told.
    """
    work = _Work(documents)
    work.convert_classes()
    work.convert_pools()
    work.convert_claims()
    return work.result()


class _Work:
    """The documents under way."""

    def __init__(self, documents: Sequence[Any]) -> None:
        self.documents = documents
        self.kinds: list[type[Wire] | None] = [old_kind(document) for document in documents]
        self.faults: list[Misfit] = []
        self.drafts: dict[int, Draft] = {}
        self.classes = Classes()
        self.wishes: dict[int, Wish] = {}
        for index, document in enumerate(documents):
            self._begin(index, document)

    def _begin(self, index: int, document: Document) -> None:
        if self.kinds[index] is None:
            return
        found = old_faults(document)
        self.faults.extend(Misfit(document=index, fault=fault) for fault in found)
        if not found:
            self.drafts[index] = Draft(index, written(document))

    def _of(self, *kinds: type[Wire]) -> Iterator[Draft]:
        for index, draft in self.drafts.items():
            if self.kinds[index] in kinds:
                yield draft

    def convert_classes(self) -> None:
        """Where a name is there in several versions, the newest is the one referred to."""
        for document in of_today(self.documents, "EC2NodeClass"):
            self.classes.add(document, converted=False)
        for draft in self._of(EC2NodeClassV1Beta1):
            node_class(draft)
            self.classes.add(draft.made, converted=True)
        for draft in self._of(AWSNodeTemplate):
            node_template(draft)
            self.classes.add(draft.made, converted=True)

    def convert_pools(self) -> None:
        for draft in self._of(Provisioner, NodePoolV1Beta1):
            if self.kinds[draft.index] is Provisioner:
                wish = provisioner(draft, self.classes)
            else:
                wish = node_pool(draft)
            if wish is not None:
                self.wishes[draft.index] = wish
        settled = [Wish(class_name=class_of(pool)) for pool in of_today(self.documents, "NodePool")]
        share([*self.wishes.values(), *settled], self.classes)

    def convert_claims(self) -> None:
        pools = {name_of(pool): pool for pool in of_today(self.documents, "NodePool")}
        wishes = {}
        for draft in self._of(NodePoolV1Beta1):
            pools[draft.name] = draft.made
            if draft.index in self.wishes:
                wishes[draft.name] = self.wishes[draft.index]
        for draft in self._of(NodeClaimV1Beta1):
            node_claim(draft, pools, wishes)

    def result(self) -> Conversion:
        made: list[tuple[int, Document]] = []
        for index, document in enumerate(self.documents):
            draft = self.drafts.get(index)
            made.append((index, document if draft is None else draft.made))
            made.extend(
                (index, follower) for follower in ([] if draft is None else draft.followers)
            )
        return Conversion(
            documents=[document for _, document in made],
            origins=[index for index, _ in made],
            notes=_in_order(self._notes(made)),
            faults=self.faults,
        )

    def _notes(self, made: list[tuple[int, Document]]) -> Iterator[Note]:
        for draft in self.drafts.values():
            yield from draft.notes
        yield from doubles(made, self.drafts.keys())
        if any(self.kinds[index] is Provisioner for index in self.drafts):
            others = (item for item in enumerate(self.documents) if self.kinds[item[0]] is None)
            yield from mentions(others)


def _in_order(notes: Iterable[Note]) -> list[Note]:
    return sorted(notes, key=lambda note: note.document)
