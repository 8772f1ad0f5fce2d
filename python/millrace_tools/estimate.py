"""estimate(): what a training run needs of its loader, and what waiting for it costs."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from .remote_estimate import CPU_SECONDS_PER_GB, SHARE_OF_A_CPU, RemoteEstimate, remote_estimate
from .report.scales import amount
from .texts import count_text, refuse

_HOUR, _DAY = 3600.0, 86400.0
_SHORTEST_STEP_MS = 0.5  # below it, seconds were probably meant
_LONGEST_STEP_MS = 3.6e6
_MOST = 1e15  # of anything; above, products need not be numbers any more
_EQUAL = 1.01  # rates closer than this are the same: no measurement is better


@dataclass(frozen=True)
class Estimate:
    """The numbers of a run; `str()` says them in sentences. Rates are per second, of samples unless they say
    tokens.

    Attributes:
        step_seconds: the model's own time for a step (forward, backward, optimizer, communication), with the
            batch ready.
        batch_size: samples of one rank's step.
        needed_per_rank, needed: batch_size / step_seconds, and world_size times that.
        measured_per_rank, measured: the rate of a loader (None: not known), and world_size times it.
        step_seconds_fed: the longer of loading and computing, which overlap; their sum if they take turns
            (`overlaps` False).
        utilisation: the share of the time in which the model computes, 0..1.
        bottleneck: "loader", "model", or "balanced" when both rates are within 1 %.
        speedup: of the run, once loading is no longer in the way.
        samples, steps: of all epochs; None, as all down to cost_lost, if the run's length is not known.
        seconds_model, seconds_fed: at the model's own rate, and fed by this loader.
        gpu_hours_model, gpu_hours_fed, gpu_hours_lost: the same in GPU hours, and the difference.
        cost_lost: in `currency`, with a price_per_hour of one GPU.
        notes: other facts that a reader should know.
        needed_tokens, measured_tokens: of all ranks. With `length`, a sample is so many tokens.
    """

    step_seconds: float
    batch_size: int
    world_size: int
    needed_per_rank: float
    needed: float
    measured_per_rank: float | None = None
    measured: float | None = None
    step_seconds_fed: float | None = None
    utilisation: float | None = None
    speedup: float | None = None
    bottleneck: str | None = None
    overlaps: bool = True
    length: int | None = None
    needed_tokens: float | None = None
    measured_tokens: float | None = None
    samples: float | None = None
    steps: int | None = None
    seconds_model: float | None = None
    seconds_fed: float | None = None
    gpu_hours_model: float | None = None
    gpu_hours_fed: float | None = None
    gpu_hours_lost: float | None = None
    price_per_hour: float | None = None
    currency: str = "USD"
    cost_lost: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def days_model(self) -> float | None:
        """Days of the whole run, when nothing waits for the loader."""
        return None if self.seconds_model is None else self.seconds_model / _DAY

    @property
    def days_fed(self) -> float | None:
        """Days of the whole run, fed by this loader."""
        return None if self.seconds_fed is None else self.seconds_fed / _DAY

    def to_dict(self) -> dict[str, Any]:
        """Every number by its name, in JSON's types."""
        return {
            **asdict(self),
            "notes": list(self.notes),
            "days_model": self.days_model,
            "days_fed": self.days_fed,
        }

    def __str__(self) -> str:
        return "\n".join(_sentences(self))

    def with_nodes(
        self,
        *,
        cpus: float,
        node_cpus: int,
        sample_bytes: float,
        ranks_per_machine: int = 1,
        network_gbit: float | None = None,
        price_per_hour: float | None = None,
        node_price_per_hour: float | None = None,
        cpu_s_per_gb: float = CPU_SECONDS_PER_GB,
        share: float = SHARE_OF_A_CPU,
    ) -> RemoteEstimate:
        """Return how many nodes of CPUs bring the loaders to the needed rate (`remote="ray"`), and whether
        they pay for themselves.

        Args:
            cpus: of one rank, with which it gives `measured`.
            node_cpus: of a node; as fast as these, unless `share` says otherwise.
            sample_bytes: of a sample in a batch, as it crosses the network.
            ranks_per_machine: ranks that share a machine's network.
            network_gbit: Gbit per second that this machine may receive; None: as much as it likes.
            price_per_hour, node_price_per_hour: of one GPU, the estimate's own unless given; and of a node.
            cpu_s_per_gb: a rank's CPU seconds for each 10^9 bytes that it receives.
            share: what a node's CPU makes, where a rank's makes 1. Both defaults were measured
                (docs/remote.md).

        Raises:
            ValueError: if the estimate has no measured rate, and as estimate().
        """
        if self.measured_per_rank is None or self.step_seconds_fed is None:
            raise ValueError("how many nodes are needed depends on what the loader gives: say measured=")
        ranks_per_machine = _whole("ranks_per_machine", ranks_per_machine)
        price = self.price_per_hour if price_per_hour is None else price_per_hour
        refuse(
            {
                f"ranks_per_machine={ranks_per_machine} is more than world_size={self.world_size}": (
                    ranks_per_machine > self.world_size
                ),
                f"sample_bytes={sample_bytes} is less than a byte; is it in megabytes?": (
                    _positive("sample_bytes", sample_bytes) < 1
                ),
                "node_price_per_hour= is compared with price_per_hour=, that of one GPU": (
                    node_price_per_hour is not None and price is None
                ),
            }
        )
        return remote_estimate(
            needed=self.needed_per_rank,
            measured=self.measured_per_rank,
            fed=self.batch_size / self.step_seconds_fed,
            ranks=self.world_size,
            ranks_per_machine=ranks_per_machine,
            cpus=_positive("cpus", cpus),
            node_cpus=_whole("node_cpus", node_cpus),
            sample_bytes=float(sample_bytes),
            network_gbit=None if network_gbit is None else _positive("network_gbit", network_gbit),
            price_per_hour=_price("price_per_hour", price),
            node_price_per_hour=_price("node_price_per_hour", node_price_per_hour),
            currency=self.currency,
            cpu_s_per_gb=_positive("cpu_s_per_gb", cpu_s_per_gb),
            share=_positive("share", share),
        )


def estimate(
    *,
    step_ms: float,
    batch_size: int,
    world_size: int = 1,
    measured: float | None = None,
    measured_tokens: float | None = None,
    samples: float | None = None,
    tokens: float | None = None,
    length: int | None = None,
    epochs: float | None = None,
    steps: int | None = None,
    price_per_hour: float | None = None,
    currency: str = "USD",
    overlaps: bool = True,
) -> Estimate:
    """Return what a run needs of its loader, whether it gets it, and what waiting costs.

    >>> print(millrace.estimate(step_ms=180, batch_size=256, samples=1_281_167, epochs=90, measured=1000))

    Args:
        step_ms: milliseconds of a step with the batch ready: the model's own time.
        batch_size: samples of one rank's step, as in its DataLoader's batch_size.
        world_size: ranks, one GPU each.
        measured, measured_tokens: what one rank's loader gives per second: samples, or tokens with `length`.
        samples, tokens: of one epoch, over all ranks; give one of them, tokens with `length`.
        length: the tokens of a sample.
        epochs: 1 when not given.
        steps: the run's length in place of samples and epochs.
        price_per_hour: of one GPU, in `currency`.
        overlaps: whether the next batches are made while the model computes; not so with num_workers=0.

    Raises:
        ValueError: if a number is not positive and finite, or if arguments say nothing or two things.
    """
    step_ms = _positive(
        "step_ms", step_ms, "a step of no time needs infinitely many samples; measure it with the batch ready"
    )
    batch_size, world_size = _whole("batch_size", batch_size), _whole("world_size", world_size)
    hours = step_ms / _LONGEST_STEP_MS
    refuse({f"step_ms={step_ms:g} is {hours:.1f} hours for one step; give milliseconds": hours > 1})
    length = None if length is None else _whole("length", length)
    measured = _one_rate(measured, measured_tokens, length)
    run = _run_length(samples, tokens, length, epochs, steps, batch_size * world_size)
    price = _price("price_per_hour", price_per_hour)
    refuse(
        {
            "price_per_hour= says what the run costs, and that needs its length: samples= and epochs=, or"
            " steps=": price is not None and run is None
        }
    )
    step = step_ms / 1000
    needed = batch_size / step
    speedup = None
    seconds = f"a step of {step_ms:g} ms is very short; if that was seconds, write step_ms={step_ms * 1000:g}"
    values: dict[str, Any] = {"notes": (seconds,) if step_ms < _SHORTEST_STEP_MS else ()}
    if measured is not None:
        loading = batch_size / measured
        fed = max(step, loading) if overlaps else step + loading
        speedup = fed / step
        # Loading that overlaps with computing costs nothing if it is shorter; without overlap, all of it is
        # lost.
        slower = loading / step if overlaps else speedup
        bottleneck = "loader" if slower > _EQUAL else "balanced"
        if overlaps and slower * _EQUAL < 1:
            bottleneck = "model"
        values |= {
            "measured_per_rank": measured,
            "measured": measured * world_size,
            "measured_tokens": None if length is None else measured * world_size * length,
            "step_seconds_fed": fed,
            "utilisation": step / fed,
            "speedup": speedup,
            "bottleneck": bottleneck,
        }
    if run is not None:
        values["samples"], values["steps"] = run
        values |= _times_and_costs(run[0] / (needed * world_size), world_size, speedup, price)
    return Estimate(
        step_seconds=step,
        batch_size=batch_size,
        world_size=world_size,
        needed_per_rank=needed,
        needed=needed * world_size,
        needed_tokens=None if length is None else needed * world_size * length,
        length=length,
        price_per_hour=price,
        currency=currency,
        overlaps=overlaps,
        **values,
    )


def _times_and_costs(
    seconds: float, world_size: int, speedup: float | None, price: float | None
) -> dict[str, Any]:
    """Of a run that takes so long at the model's own rate."""
    hours = seconds / _HOUR * world_size
    found: dict[str, Any] = {"seconds_model": seconds, "gpu_hours_model": hours}
    if speedup is not None:
        lost = hours * speedup - hours
        found |= {
            "seconds_fed": seconds * speedup,
            "gpu_hours_fed": hours * speedup,
            "gpu_hours_lost": lost,
            "cost_lost": None if price is None else lost * price,
        }
    return found


def _run_length(
    samples: float | None,
    tokens: float | None,
    length: int | None,
    epochs: float | None,
    steps: int | None,
    global_batch: int,
) -> tuple[float, int] | None:
    """(samples, steps) of all epochs; None when nothing says it."""
    lengths = {"samples=": samples, "tokens=": tokens, "steps=": steps}
    given = [name for name, value in lengths.items() if value is not None]
    refuse(
        {
            f"{' and '.join(given)} each say how long the run is; give one of them": len(given) > 1,
            "epochs= needs the length of one: samples=, or tokens= and length=": (
                not given and epochs is not None
            ),
            "steps= is the length of the whole run; leave epochs= out": (
                steps is not None and epochs is not None
            ),
            "tokens= needs length=, the tokens of one sample": tokens is not None and length is None,
        }
    )
    if not given:
        return None
    if steps is not None:
        steps = _whole("steps", steps)
        return float(steps) * global_batch, steps
    if tokens is not None and length is not None:
        samples = _positive("tokens", tokens) / length
        text = f"tokens={tokens:g} is less than one sample of length={length}"
        refuse({f"{text}; is one of them in thousands or millions?": samples < 1})
    total = _positive("samples", samples) * _positive("epochs", 1 if epochs is None else epochs)
    return total, math.ceil(total / global_batch)


def _one_rate(measured: float | None, measured_tokens: float | None, length: int | None) -> float | None:
    """Samples per second of one rank."""
    why = "a loader that gives nothing never ends"
    if measured_tokens is None:
        return None if measured is None else _positive("measured", measured, why)
    if measured is not None:
        raise ValueError("measured= and measured_tokens= are one rate in two units; give one of them")
    if length is None:
        raise ValueError("measured_tokens= needs length=, the tokens of one sample")
    return _positive("measured_tokens", measured_tokens, why) / length


def _positive(name: str, value: Any, why: str = "", or_zero: bool = False) -> float:
    try:
        number = math.nan if isinstance(value, (bool, str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    refuse(
        {
            f"{name}={value!r} should be a finite number": not math.isfinite(number),
            f"{name}={value} should be 0 or more": or_zero and number < 0,
            f"{name}={value} should be more than 0{': ' + why if why else ''}": not or_zero and number <= 0,
            f"{name}={value} is beyond what can be counted; is it in the right unit?": (
                not or_zero and not 1 / _MOST <= number <= _MOST
            ),
        }
    )
    return number


def _price(name: str, value: Any) -> float | None:
    return None if value is None else _positive(name, value, or_zero=True)


def _whole(name: str, value: Any) -> int:
    number = _positive(name, value)
    refuse({f"{name}={value} should be a whole number": number != int(number)})
    return int(number)  # 1e6, too, as people write large numbers


def _sentences(made: Estimate) -> list[str]:
    ranks = f"{made.world_size:,} rank{'s' * (made.world_size > 1)}"
    steps = f" ({made.batch_size:,} in {amount(made.step_seconds, 's')})"
    lines = [f"needed    {_rates(made.needed_per_rank, made.needed, made.needed_tokens, ranks, steps)}"]
    if made.measured_per_rank is not None and made.measured is not None:
        measured = _rates(made.measured_per_rank, made.measured, made.measured_tokens, ranks)
        lines += [f"measured  {measured}", f"so        {_verdict(made)}"]
    if made.seconds_model is not None and made.gpu_hours_model is not None:
        at_models_rate = f"{_duration(made.seconds_model)}, {_cost(made, made.gpu_hours_model)}"
        lines.append(f"the run   {made.samples:,.0f} samples in {made.steps:,} steps")
        lines.append(f"          at the model's rate   {at_models_rate}")
    if made.seconds_fed is not None and made.gpu_hours_fed is not None and made.gpu_hours_lost is not None:
        at_loaders_rate = f"{_duration(made.seconds_fed)}, {_cost(made, made.gpu_hours_fed)}"
        lines.append(f"          at the loader's rate  {at_loaders_rate}")
        lost = _cost(made, made.gpu_hours_lost) if made.bottleneck == "loader" else "nothing"
        lines.append(f"waiting   {lost}")
    return [*lines, *(f"note      {note}" for note in made.notes)]


def _rates(per_rank: float, all_ranks: float, tokens: float | None, ranks: str, steps: str = "") -> str:
    text = f"{count_text(per_rank)} samples/s per rank{steps}"
    if ranks != "1 rank":
        text += f", {count_text(all_ranks)} for {ranks}"
    return text if tokens is None else f"{text} ({count_text(tokens)} tokens/s)"


def _cost(made: Estimate, hours: float) -> str:
    price = made.price_per_hour
    money = "" if price is None else f", {hours * price:,.2f} {made.currency}"
    return f"{count_text(hours)} GPU-hours{money}"


def _verdict(made: Estimate) -> str:
    assert made.utilisation is not None and made.measured_per_rank is not None and made.speedup is not None
    loading = made.batch_size / made.measured_per_rank
    computes = f"the GPU computes {made.utilisation:.0%} of the time"
    takes = f"a step takes {_duration(made.step_seconds * made.speedup)}"
    if made.bottleneck == "loader" and not made.overlaps:
        return (
            f"loading and computing take turns: {computes}, {takes}\n          workers that load meanwhile"
            f" (num_workers=1 or more) make it {_duration(max(made.step_seconds, loading))}, if they load as"
            " fast"
        )
    if made.bottleneck == "loader":
        return (
            f"the loader is the bottleneck: {computes}, {takes}\n          waiting ends at"
            f" {count_text(made.needed_per_rank)} samples/s per rank, {made.speedup:.3g} times what the"
            " loader gives now"
        )
    if made.bottleneck == "model":
        return f"the model is the bottleneck; the loader could feed steps of {_duration(loading)}"
    return "both are equally fast: no time is lost, and nothing is to spare for slower moments"


def _duration(seconds: float) -> str:
    """1.2 ms, 3.4 s, 5.6 min, 7.8 h, 9.1 days."""
    return amount(seconds, "s") if seconds < 2 * _DAY else f"{count_text(seconds / _DAY)} days"
