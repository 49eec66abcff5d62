"""An experiment's report as one HTML file: no network, light and dark, summary first."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from fssim.experiment.comparison import ChangeResult, Comparison
from fssim.experiment.definition import Grid, as_plain
from fssim.experiment.report import Report, size_text, summary, worth_text
from fssim.experiment.tables import Key
from fssim.experiment.terminal import errors_text, name_text
from fssim.profile import machine_as_plain, parameter
from fssim.report.lock_stat import compact_lock_stat


@dataclass(frozen=True)
class Picture:
    """A figure to embed."""

    name: str
    caption: str
    svg: str


STYLE = """
:root { color-scheme: light dark; --text: #1c1c1c; --paper: #ffffff; --soft: #f3f4f6; --line: #d7d9dd; --faint: #62666d;
        --good: #00664a; --bad: #a33b00; --some: #7a5b00; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e6e6e6; --paper: #17181a; --soft: #222427; --line: #3a3d42; --faint: #a0a4ab;
          --good: #5fd3ae; --bad: #ff9a62; --some: #e8c765; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--text); background: var(--paper); max-width: 76rem;
       margin: 0 auto; padding: 1.5rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
.faint { color: var(--faint); }
dl.summary { background: var(--soft); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem 1.2rem;
             display: grid; grid-template-columns: max-content 1fr; gap: .35rem 1.2rem; }
dl.summary dt { font-weight: 600; } dl.summary dd { margin: 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .86rem; margin: .3rem 0; }
th, td { padding: .22rem .6rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; } th.left, td.left { text-align: left; } td.wrap { white-space: normal; text-align: left; }
td small { color: var(--faint); display: block; }
.good { color: var(--good); } .bad { color: var(--bad); } .some { color: var(--some); }
figure { margin: 1rem 0 1.6rem; }
figure img { max-width: 100%; background: white; border: 1px solid var(--line); border-radius: .4rem; }
figcaption { color: var(--faint); font-size: .9rem; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: .4rem; padding: .7rem; overflow-x: auto;
      font-size: .78rem; line-height: 1.35; }
summary { cursor: pointer; font-weight: 600; }
@media (max-width: 40rem) { dl.summary { grid-template-columns: 1fr; } }
"""


def page(report: Report, pictures: Sequence[Picture]) -> str:
    """Return the whole file."""
    title = f"{report.experiment.name} on {report.experiment.machine.name}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="faint">{escape(report.experiment.machine.description)}</p>',
        _summary(report),
        *_claims(report),
        *(_figure(picture) for picture in pictures),
        *_errors(report),
        *_predicted(report),
        *_cases(report),
        *_worth(report),
        *_ratios(report),
        *_comparisons(report),
        *_unknowns(report),
        *_locks(report),
        *_configuration(report),
    ]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{STYLE}</style>\n'
        "</head>\n<body>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    )


def _summary(report: Report) -> str:
    rows = (f"<dt>{escape(s.about)}</dt><dd>{escape(s.text)}</dd>" for s in summary(report))
    return f'<dl class="summary">{"".join(rows)}</dl>'


def _claims(report: Report) -> Iterable[str]:
    if not report.findings.claims:
        return
    words = {True: ("good", "holds"), False: ("bad", "missed"), None: ("faint", "not run")}
    rows = []
    for claim in report.findings.claims:
        why = f"<small>why: {escape(claim.reason or 'not known')}</small>" if claim.holds is False else ""
        source = f"<small>{escape(claim.source)}</small>" if claim.source else ""
        rows.append(
            f'<tr><td class="left {words[claim.holds][0]}">{words[claim.holds][1]}</td>'
            f'<td class="wrap">{escape(claim.text)}{source}{why}</td><td class="left">{escape(claim.measured)}</td>'
            f'<td class="left">{escape(claim.found)}</td><td class="left">{claim.role}</td></tr>'
        )
    head = "".join(f'<th class="left">{title}</th>' for title in ("", "claim", "measured", "predicted", "role"))
    yield f'<h2>Claims</h2><div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _figure(picture: Picture) -> str:
    data = base64.b64encode(picture.svg.encode()).decode()
    caption = escape(picture.caption)
    return (
        f'<figure id="{escape(picture.name)}"><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _errors(report: Report) -> Iterable[str]:
    """What the model misses by, beside what it must beat and what it cannot."""
    if not report.findings.comparisons:
        return
    rule = report.experiment.definition.trivial_rule
    head = "".join(
        f'<th class="{side}">{escape(text)}</th>'
        for text, side in (
            ("table", "left"),
            ("pattern", "left"),
            ("role", "left"),
            ("cells", ""),
            ("fssim", ""),
            (f"rule '{rule.name}'" if rule else "rule", ""),
            ("repeat noise", ""),
        )
    )
    rows = [
        f'<tr><td class="left">{escape(c.filesystem)} ({escape(c.reference.label)})</td>'
        f'<td class="left">{c.pattern}</td>'
        f'<td class="left">{c.role}</td><td>{c.summary.cells}</td><td>{errors_text(c.summary)}</td>'
        f"<td>{errors_text(c.trivial)}</td><td>{errors_text(report.findings.noise.get(c.pattern))}</td></tr>"
        for c in report.findings.comparisons
    ]
    yield "<h2>Errors</h2><p>Absolute error in per cent: median / p90 / max.</p>"
    yield f'<div class="scroll"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def _matrix(grid: Grid, title: str, pattern: str, cell: Callable[[Key], str]) -> str:
    head = "".join(f"<th>{threads}</th>" for threads in grid.threads)
    rows = "".join(
        f'<tr><th class="left">{size_text(size)}</th>'
        + "".join(f"<td>{cell(Key(pattern, size, threads))}</td>" for threads in grid.threads)
        + "</tr>"
        for size in grid.block_sizes_bytes
    )
    table = f'<table><tr><th class="left">threads</th>{head}</tr>{rows}</table>'
    return f'<h3>{escape(title)}</h3><div class="scroll">{table}</div>'


def _predicted(report: Report) -> Iterable[str]:
    grid = report.experiment.definition.grid
    if grid is None:
        return
    yield "<h2>Predicted IOPS</h2>"
    for variant in report.experiment.definition.variants:
        for pattern in grid.patterns:

            def cell(key: Key, filesystem: str = variant.filesystem) -> str:
                result = report.outcome.cells.get((filesystem, key))
                if result is None:
                    return "-"
                return f"{result.iops.value:,.0f}<small>± {result.iops.half_width_percent:.1f} %</small>"

            yield _matrix(grid, f"{variant.filesystem}, {pattern}", pattern, cell)


def _cases(report: Report) -> Iterable[str]:
    if report.experiment.definition.grid is not None:
        return
    rows = []
    for breakdown in report.findings.breakdowns:
        result = report.outcome.cells[breakdown.label, breakdown.key]
        rows.append(
            f'<tr><td class="left">{escape(breakdown.label)}</td><td class="left">{escape(result.filesystem)}</td>'
            f"<td>{result.iops.value:,.0f}<small>± {result.iops.half_width_percent:.1f} %</small></td>"
            f"<td>{result.iops.value * result.key.block_size_bytes / 1e6:,.0f}</td>"
            f'<td class="wrap">{escape(breakdown.binding)}</td></tr>'
        )
    head = (("case", "left"), ("filesystem", "left"), ("IOPS", ""), ("MB/s", ""), ("what limits", "left"))
    titles = "".join(f'<th class="{side}">{title}</th>' for title, side in head)
    yield f'<h2>Predicted, by case</h2><div class="scroll"><table><tr>{titles}</tr>{"".join(rows)}</table></div>'


def _worth(report: Report) -> Iterable[str]:
    grid = report.experiment.definition.grid
    if grid is None or len(report.findings.changes) < 2:
        return
    rows = "".join(
        f'<tr><td class="left">{escape(found.change.name)}</td>'
        + "".join(f"<td>{worth_text(found, pattern)}</td>" for pattern in grid.patterns)
        + "</tr>"
        for found in report.findings.changes
    )
    head = "".join(f"<th>{pattern}</th>" for pattern in grid.patterns)
    yield "<h2>What every change is worth</h2><p>Ratio of IOPS: median (smallest to largest) over the cells.</p>"
    yield f'<div class="scroll"><table><tr><th class="left">change</th>{head}</tr>{rows}</table></div>'


def _ratios(report: Report) -> Iterable[str]:
    grid = report.experiment.definition.grid
    if grid is None or not any(found.ratios for found in report.findings.changes):
        return
    yield "<h2>Ratio of IOPS</h2><p>With the 95 % interval from paired batches, and the measured ratio.</p>"
    for found in report.findings.changes:

        def cell(key: Key, found: ChangeResult = found) -> str:
            ratio = found.ratios.get(key)
            if ratio is None:
                return "-"
            measured = found.measured_ratios.get(key)
            text = f"{ratio.value:.2f}<small>{ratio.low:.2f} to {ratio.high:.2f}</small>"
            return text + (f"<small>measured {measured:.2f}</small>" if measured is not None else "")

        for pattern in grid.patterns:
            if any(key.pattern == pattern for key in found.ratios):
                yield _matrix(grid, f"{found.change.after} / {found.change.before}, {pattern}", pattern, cell)


def _unknowns(report: Report) -> Iterable[str]:
    """What is predicted for every value of something unknown, and what the figures say about it."""
    for found in report.findings.unknowns:
        yield f"<h2>Not known: {escape(found.unknown.name)}</h2>"
        yield f"<p>{escape(found.unknown.why)}; {escape(found.verdict)}</p>"
        names = "".join(f"<th>{escape(name)}</th>" for name in found.names)
        if found.claims:
            rows = []
            for claim in found.claims:
                each = (claim.alternatives.get(name, claim) for name in found.names[1:])
                judged = "".join(
                    f'<td class="{"good" if one.holds else "bad"}">{escape(one.found)}</td>' for one in (claim, *each)
                )
                rows.append(
                    f'<tr><td class="wrap">{escape(claim.text)}</td><td>{escape(claim.measured)}</td>{judged}</tr>'
                )
            head = f'<tr><th class="left">claim</th><th>measured</th>{names}</tr>'
            yield f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'
        if found.cells:
            rows = [
                f'<tr><td class="left">{escape(name_text(label, key))}</td>'
                + "".join(f"<td>{'-' if rate is None else f'{rate:,.0f}'}</td>" for rate in rates)
                + "</tr>"
                for (label, key), rates in found.cells.items()
            ]
            yield f"<p>Predicted IOPS of the {len(found.cells)} of {found.concerned} cells that differ noticeably.</p>"
            yield f'<div class="scroll"><table><tr><th class="left">cell</th>{names}</tr>{"".join(rows)}</table></div>'


def _comparisons(report: Report) -> Iterable[str]:
    grid = report.experiment.definition.grid
    if grid is None:
        return
    if report.findings.comparisons:
        yield "<h2>Predicted against measured</h2>"
    for comparison in report.findings.comparisons:

        def cell(key: Key, comparison: Comparison = comparison) -> str:
            if key not in comparison.measured:
                return "-"
            error = comparison.error_percent[key]
            style = "bad" if abs(error) > 15 else "some" if abs(error) > 5 else ""
            return (
                f'<span class="{style}">{error:+.1f} %</span>'
                f"<small>{comparison.predicted[key]:,.0f}</small><small>{comparison.measured[key]:,.0f}</small>"
            )

        reference = comparison.reference.reference
        title = f"{comparison.filesystem}, {comparison.pattern} ({comparison.role}): error, predicted, measured"
        yield _matrix(grid, title, comparison.pattern, cell)
        remark = f"; {reference.remark}" if reference.remark else ""
        yield f'<p class="faint">{escape(comparison.reference.label)}: {escape(reference.source + remark)}</p>'


def _locks(report: Report) -> Iterable[str]:
    if report.cell is not None:
        pattern, size, threads = report.cell
        yield f"<h2>Locks: {pattern}, {size_text(size)}, {threads} threads</h2>"
    else:
        yield "<h2>Locks</h2>"
    yield "<p>In the layout of /proc/lock_stat, times in microseconds.</p>"
    for breakdown in report.findings.breakdowns:
        locks = report.outcome.cells[breakdown.label, breakdown.key].locks
        yield f"<h3>{escape(breakdown.label)}</h3><pre>{escape(compact_lock_stat(locks))}</pre>"


def _fit(report: Report) -> Iterable[str]:
    """Every fitted parameter with its standard error; those that the data do not determine are marked."""
    calibration = report.experiment.machine.calibration
    if calibration is None:
        return
    plain = machine_as_plain(report.experiment.machine)
    rows = []
    for key, error in calibration.standard_error.items():
        unknown = key in calibration.unidentified
        note = '<span class="bad">not determined by the data</span>' if unknown else f"± {100 * error:.1f} %"
        rows.append(f'<tr><td class="left">{escape(key)}</td><td>{parameter(plain, key)}</td><td>{note}</td></tr>')
    head = '<tr><th class="left">parameter</th><th>value</th><th>standard error</th></tr>'
    yield "<h2>The machine's fitted parameters</h2>"
    yield f"<p>Fitted to {escape('; '.join(calibration.fitted_to))}. "
    yield f"Loss {calibration.loss:g}: {escape(calibration.loss_definition)}. Fit it again with</p>"
    yield f"<pre>{escape(calibration.command)}</pre>"
    if calibration.note:
        yield f"<p>{escape(calibration.note)}</p>"
    yield f'<div class="scroll"><table>{head}{"".join(rows)}</table></div>'


def _configuration(report: Report) -> Iterable[str]:
    yield "<h2>How to get this again</h2>"
    yield f"<pre>{escape(report.command)}</pre>"
    yield "<p>or, with everything it was run with taken from its own record,</p>"
    yield "<pre>python -m fssim.experiment results.json</pre>"
    found = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    seed = report.experiment.definition.run.seed
    yield f'<p class="faint">Seed {seed}, engine {escape(report.engine)}; {escape(found)}.</p>'
    yield from _fit(report)
    for title, plain in (
        ("Machine", machine_as_plain(report.experiment.machine)),
        ("Experiment", as_plain(report.experiment.definition)),
    ):
        text = escape(json.dumps(plain, indent=1, ensure_ascii=False))
        yield f"<details><summary>{title}</summary><pre>{text}</pre></details>"
