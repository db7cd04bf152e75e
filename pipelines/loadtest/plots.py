"""The plots of a load test: throughput and latency over time, and how latencies are spread."""

from __future__ import annotations

from typing import Any, Final

import matplotlib as mpl

mpl.use("Agg")  # no screen is needed, and none is looked for

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from eagleray.cli.output import counted
from eagleray.pipelines.loadtest.report import BIN_S, Bin, DriverReport, LoadReport

COLOURS: Final = {"ray": "#2a6f97", "spark": "#e07a2f"}
_LABELS: Final = {"ray": "Ray tasks: transactions of producers", "spark": "Spark: jobs through the data source"}
_STYLE: Final[dict[Any, Any]] = {
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "font.size": 9.5,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
}


def draw(report: LoadReport, path: str) -> None:
    """Write the plots of a load test as a PNG."""
    with mpl.rc_context(_STYLE):
        figure, ((rows, latency), (rates, spread)) = plt.subplots(2, 2, figsize=(12.5, 7.6), layout="constrained")
        figure.suptitle(_title(report), fontsize=12, x=0.01, ha="left")
        _draw_rows(rows, report)
        _draw_latency(latency, report)
        _draw_transactions(rates, report)
        _draw_spread(spread, report)
        figure.savefig(path, dpi=130)
        plt.close(figure)


def _title(report: LoadReport) -> str:
    plan = report.plan
    # Drivers may have ended at different times, so that the sum of their rates is the rate of no moment.
    total = report.rows_committed / max(report.seconds, 1e-9)
    errors = sum(kind.errors for kind in report.kinds)
    exact = "every committed row found" if report.is_exact else "COUNTS DIFFER"
    return (
        f"{total:,.0f} rows/s of {plan.size} bytes over {counted(plan.partitions, 'partition')}, all exactly once: "
        f"{counted(report.rows_committed, 'row')} in {report.seconds:.0f} s, {counted(errors, 'error')}, {exact}"
    )


def _draw_rows(axes: Axes, report: LoadReport) -> None:
    axes.set_title("Rows committed each second")
    for kind in report.kinds:
        times, values = _steps([(each.from_s, each.rows / BIN_S) for each in _whole(kind, report)])
        axes.plot(times, values, color=COLOURS[kind.kind], linewidth=1.8, label=_LABELS[kind.kind])
        axes.fill_between(times, values, color=COLOURS[kind.kind], alpha=0.13, linewidth=0)
    _finish_time_axis(axes, report)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.legend(loc="best")


def _draw_transactions(axes: Axes, report: LoadReport) -> None:
    axes.set_title("Transactions of producers committed each second, by Ray task")
    tasks = [driver for driver in report.drivers if driver.kind == "ray"]
    shades = plt.get_cmap("Blues")
    for place, driver in enumerate(tasks):
        times, values = _steps([(each.from_s, each.transactions / BIN_S) for each in _whole(driver, report)])
        axes.plot(times, values, color=shades(0.5 + 0.45 * place / max(len(tasks), 1)), label=driver.name)
    if not tasks:
        _say_nothing(axes, "no Ray tasks in this test")
        return
    _finish_time_axis(axes, report)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.legend(loc="lower right", ncols=2)


def _draw_latency(axes: Axes, report: LoadReport) -> None:
    axes.set_title("Time from the arrival of a transaction until it is committed")
    for kind in report.kinds:
        for name, style in (("p50_ms", "-"), ("p99_ms", ":")):
            known = [(each.from_s + BIN_S / 2, getattr(each, name)) for each in kind.bins if each.transactions]
            marker = "o" if kind.kind == "spark" else None
            if kind.kind == "spark" and name == "p99_ms":
                continue  # in half a second there is one job at the most
            label = "a Spark job" if kind.kind == "spark" else f"{kind.kind} {name.removesuffix('_ms')}"
            axes.plot(*_columns(known), style, marker=marker, ms=4, color=COLOURS[kind.kind], label=label)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(_milliseconds))
    _finish_time_axis(axes, report)
    axes.legend(loc="best")


def _draw_spread(axes: Axes, report: LoadReport) -> None:
    axes.set_title("Share of transactions that are done within a time")
    if not any(kind.transactions for kind in report.kinds):
        _say_nothing(axes, "nothing was committed")
        return
    for kind in report.kinds:
        points = [(value, float(share) * 100) for share, value in kind.quantiles_ms.items()]
        if not points:
            continue
        label = f"{kind.kind}: p50 {_milliseconds(kind.p50_ms)}, p99 {_milliseconds(kind.p99_ms)}"
        axes.plot(*_columns(points), marker="o", ms=3.5, color=COLOURS[kind.kind], label=label)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(_milliseconds))
    axes.set_ylabel("% of transactions")
    axes.set_ylim(0, 102)
    axes.legend(loc="best")


def _finish_time_axis(axes: Axes, report: LoadReport) -> None:
    axes.set_xlim(0, max(report.seconds, report.plan.seconds) * 1.03)
    axes.set_xlabel("seconds")


def _say_nothing(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", color="#888888")
    axes.set_axis_off()


def _whole(driver: DriverReport, report: LoadReport) -> list[Bin]:
    """The half seconds of a driver without what producers still had on its way when the time was up."""
    return [each for each in driver.bins if driver.kind != "ray" or each.from_s + BIN_S <= report.plan.seconds]


def _steps(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    """Put each half second in its middle, and smooth over three of them: one alone is mostly chance."""
    values = [value for _, value in points]
    smooth = [
        sum(values[max(0, place - 1) : place + 2]) / len(values[max(0, place - 1) : place + 2])
        for place in range(len(values))
    ]
    return [start + BIN_S / 2 for start, _ in points], smooth


def _columns(points: list[tuple[float, float]]) -> tuple[list[float], list[float]]:
    return [first for first, _ in points], [second for _, second in points]


def _milliseconds(value: float, _: object = None) -> str:
    return f"{value / 1000:,.3g} s" if value >= 1000 else f"{value:,.3g} ms"
