"""The stages of a loader: the answers of its recognisers, and the lines of `explain()`. The recognisers that
do not depend on the kind of dataset are called here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from ..._common.lowering.as_shipped import recognise_collate
from ..._common.lowering.recognising import NotLowered, holder_name
from ..._common.shipped import is_default_collate
from ...samplers import BatchSampler, RandomSampler, native
from ...samplers.global_order import GlobalOrderSampler
from ..arguments import recognise_worker_init

if TYPE_CHECKING:
    from ..engines.prefix import PrefixSpec, StandIn


class Known(Protocol):
    """The engine's part of each sample of a loader that is not all native. `counted`, `names`: the words of
    explain() for its dataset, and for the known steps; `told`: its further lines. `tells_refusal`: whether
    explain() gives the reason for a refused transform instead of the steps that are left.
    """

    tells_refusal: ClassVar[bool]

    @property
    def counted(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    @property
    def told(self) -> tuple[str, ...]: ...

    def words_of_the_rest(self) -> str:
        """The reason why the other steps are Python; "": there are none."""

    def spec(self, engine: Any, opens: Any) -> PrefixSpec:
        """`engine`: runs the rest. `opens`: PrefixSpec's, if this kind of dataset has none of its own."""

    def stand_in(self, dataset: Any, place: tuple[int, int], seeds: bool) -> StandIn:
        """Return the replacement of `dataset`. `place`: seed and epoch. `seeds`: StandIn's."""


@dataclass(frozen=True)
class Stage:
    """One line of `explain()`."""

    name: str
    native: bool
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {'native' if self.native else 'python'} — {self.reason}"


class Stages:
    """Collects the answers of the recognisers; a refusal of one does not stop the others, so that users see
    all at once.
    """

    def __init__(self) -> None:
        self.answers: dict[str, tuple[bool, str]] = {}
        self.beside: set[str] = set()  # stages that run as Python code; the engine does the rest

    def ask(self, name: str, recogniser: Callable[[], tuple[str, Any]]) -> Any:
        try:
            reason, value = recogniser()
        except NotLowered as refusal:
            self.answers[name] = False, str(refusal)
        except Exception as error:  # odd arguments: torch handles them, or raises its own error
            self.answers[name] = False, f"could not be understood ({error!r})"
        else:
            self.answers[name] = True, reason
            return value
        return None

    def ask_sampler(self, loader: Any) -> None:
        self.ask("sampler", lambda: (_sampler(loader), None))

    def ask_collate(self, recogniser: Callable[[], tuple[str, Any]]) -> Any:
        """`recogniser`: if it finds a function, that function runs in Python beside the engine."""
        found = self.ask("collate_fn", recogniser)
        if found is not None:
            self.beside.add("collate_fn")
        return found

    def ask_worker_init(self, loader: Any) -> None:
        function, workers = loader.worker_init_fn, loader.num_workers
        self.ask("worker_init_fn", lambda: (recognise_worker_init(function, workers), None))

    def ask_the_others(self, loader: Any) -> None:
        """Ask the recognisers that do not depend on the dataset, for a dataset that is not known."""
        self.ask_sampler(loader)
        self.ask("collate_fn", lambda: (_collate_of_python(loader), None))
        self.ask_worker_init(loader)

    def refusing(self) -> list[str]:
        return [name for name, (native, _) in self.answers.items() if not native]

    def finish(self, part: Known | None = None) -> tuple[Stage, ...]:
        """`part`: the native part of a loader that is not all native."""
        refusing = self.refusing()
        ready = (
            f"ready for the engine, but {' and '.join(refusing)} {'is' if len(refusing) == 1 else 'are'} not"
        )
        lines = [
            Stage(
                name,
                native and not refusing and name not in self.beside,
                ready if refusing and native else reason,
            )
            for name, (native, reason) in self.answers.items()
        ]
        return tuple(lines if part is None else self._of_part(part, lines))

    def _of_part(self, part: Known, lines: list[Stage]) -> Iterator[Stage]:
        yield Stage("dataset", True, f"{part.counted}, read and decoded where samples are made")
        yield Stage("transform", True, ", ".join(part.names))
        refusing = self.refusing()
        told = {"dataset", "transform"} - set(refusing)
        rest = part.words_of_the_rest()
        if rest and not (part.tells_refusal and "transform" in refusing):
            yield Stage("transform", False, rest)
            told.add("transform")
        yield from (line for line in lines if line.name not in told)


def _sampler(loader: Any) -> str:
    if not loader._auto_collation:
        raise NotLowered("batch_size=None hands out single samples; give a batch_size to batch natively")
    index_sampler = loader._index_sampler
    batches, name = native(index_sampler), type(index_sampler).__name__
    if type(batches) is BatchSampler:
        name = f"{type(batches.sampler).__name__} in batches of {batches.batch_size}"
        if (sampler := native(batches.sampler)) is not None:
            own = isinstance(sampler, GlobalOrderSampler)
            computed = isinstance(sampler, RandomSampler) and sampler.is_computed()
            return f"{name}, {'millrace' if own or computed else 'torch'}'s order and draws"
    return f"{name} runs in the consumer's thread and feeds the engine"


def _collate_of_python(loader: Any) -> str:
    if not is_default_collate(loader.collate_fn) and loader._auto_collation:
        raise NotLowered(
            f"{holder_name(loader.collate_fn)} is not torch's default_collate; it is called where samples are"
            " made, as by torch's loader, and takes no longer than there"
        )
    return recognise_collate(loader.collate_fn)
