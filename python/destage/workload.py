"""Generated loads."""

from __future__ import annotations

from dataclasses import dataclass

from destage._options import OptionValue, name_of, text_of


@dataclass(frozen=True)
class Workload:
    """A load by name and parameters, as ``destage trace workloads`` lists them.

    ``Workload("zipf:theta=0.99,iops=800")`` takes the command line's text; the class methods build
    it. Parameters are keywords: ``Workload.spc1(iops=800, style="v2")``.
    """

    #: As the command line has it.
    text: str

    def __str__(self) -> str:
        return self.text

    @classmethod
    def named(cls, name: str, **params: OptionValue) -> Workload:
        """Any workload of the table (:func:`destage.workloads`)."""
        pairs = ",".join(f"{name_of(key)}={text_of(value)}" for key, value in params.items())
        return cls(f"{name}:{pairs}" if pairs else name)

    @classmethod
    def spc1(cls, iops: float | None = None, **params: OptionValue) -> Workload:
        """SPC-1-like load with a target of this many requests per second."""
        return cls.named("spc1", **_with_iops(iops, params))

    @classmethod
    def uniform(cls, iops: float | None = None, **params: OptionValue) -> Workload:
        """Requests to uniform random pages."""
        return cls.named("uniform", **_with_iops(iops, params))

    @classmethod
    def zipf(cls, iops: float | None = None, **params: OptionValue) -> Workload:
        """Requests to pages of Zipf popularity."""
        return cls.named("zipf", **_with_iops(iops, params))

    @classmethod
    def hotcold(cls, iops: float | None = None, **params: OptionValue) -> Workload:
        """A hot region and a cold one."""
        return cls.named("hotcold", **_with_iops(iops, params))

    @classmethod
    def sequential(cls, iops: float | None = None, **params: OptionValue) -> Workload:
        """Sequential streams."""
        return cls.named("sequential", **_with_iops(iops, params))

    @classmethod
    def random_write(cls, **params: OptionValue) -> Workload:
        """Threads that write random pages, without think time."""
        return cls.named("random", **params)


def _with_iops(iops: float | None, params: dict[str, OptionValue]) -> dict[str, OptionValue]:
    return params if iops is None else {"iops": iops, **params}
