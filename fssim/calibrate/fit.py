"""Fits the free parameters of a machine to measured IOPS, and says how well the data determine them.

The residuals are the logarithms of predicted over measured IOPS, and the loss is soft L1: a cell that the model cannot
explain does not drag the others along.  Common random numbers do not make the loss smooth: a changed parameter changes
the order of events, and with it everything after.  What is left is a rugged surface on which trust-region methods
stall, because they shrink their step after a few unlucky ones (scipy's `least_squares` did).  So this is a damped
Gauss-Newton method for noisy functions: derivatives over wide steps, several dampings side by side, the best taken.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fssim.calibrate.definition import Calibration, Cell, Parameter
from fssim.errors import RunError, UserError
from fssim.experiment.cells import Task, length_of_run, simulate
from fssim.experiment.runner import Workers
from fssim.profile import Machine

if TYPE_CHECKING:
    import numpy as np

STEP = 0.06  # of a parameter's logarithm, for the derivatives that lead the descent
DAMPINGS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)  # in units of the mean curvature, tried side by side
LONGEST_MOVE = 0.3  # of a parameter's logarithm in one step
WORTHWHILE = 0.002  # part of the loss that a step must gain to count as progress
PATIENCE = 2  # steps without progress, each with new derivatives, before the descent ends
WIDE_STEP = 0.1  # and for those of the standard errors: steps over the noise, and the loss is flat enough
REPLICATIONS = 4  # seeds of the derivatives for the standard errors
UNIDENTIFIED = 0.25  # relative standard error above which a parameter counts as not determined by the data
FAILED = 3.0  # residual of a cell whose run ends in an error: far worse than any prediction


@dataclass(frozen=True)
class Fit:
    """The optimum.  `residuals`: log(predicted / measured) by cell.  `standard_error`: relative, by parameter."""

    values: tuple[float, ...]
    residuals: np.ndarray
    standard_error: tuple[float, ...]
    evaluations: int

    @property
    def loss(self) -> float:
        """Mean absolute logarithmic error over the cells."""
        return float(abs(self.residuals).mean())


@dataclass(frozen=True)
class _Group:
    """Cells that share a compiled protocol, with the machine to run them on."""

    machine: Machine
    tasks: tuple[Task, ...]


def _predict(group: _Group) -> list[float]:
    rates = []
    for task in group.tasks:
        try:
            rates.append(simulate(task).iops)
        except RunError:
            rates.append(0.0)
    return rates


class Fitter:
    """Evaluates parameter sets on all cores and finds the best."""

    def __init__(self, calibration: Calibration, pool: Workers, progress: Callable[[str], None], seed: int) -> None:
        import numpy as np

        self.calibration = calibration
        self.pool = pool
        self.progress = progress
        self.seed = seed
        self.evaluations = 0
        self.label = ""
        self.cell_weights = np.array([cell.weight for cell in calibration.cells])
        groups: dict[tuple[str, str, int], list[int]] = defaultdict(list)
        for number, cell in enumerate(calibration.cells):
            groups[cell.filesystem, cell.key.pattern, cell.key.block_size_bytes].append(number)
        self.groups = list(groups.values())

    def residuals(
        self,
        candidates: Sequence[Sequence[float]],
        seed: int | None = None,
        wanted: Sequence[Parameter | None] | None = None,
    ) -> list[np.ndarray]:
        """Return log(predicted / measured) by cell, for each candidate: its parameters' values.

        The prediction is the mean of the logarithms of `replications` runs, with seeds from `seed` on.  `wanted`: for
        each candidate the parameter on which the cells depend that are run; the others get 0.
        """
        import numpy as np

        measured = np.log([cell.iops for cell in self.calibration.cells])
        replications = self.calibration.definition.replications
        machines = [self.calibration.machine_with(list(values)) for values in candidates]
        first = self.seed if seed is None else seed
        jobs = [
            (c, group, first + replication)
            for c in range(len(candidates))
            for replication in range(replications)
            for group in self.groups
            if wanted is None or self._depends(group, wanted[c])
        ]
        work = [
            (k, _Group(machines[c], tuple(self._task(machines[c], n, chosen) for n in group)))
            for k, (c, group, chosen) in enumerate(jobs)
        ]
        out = [np.zeros(len(measured)) for _ in candidates]
        for k, rates in self.pool.run_all(_numbered, work):
            c, group, _ = jobs[k]
            for n, rate in zip(group, rates, strict=True):
                out[c][n] += (np.log(rate) - measured[n] if rate > 0 else FAILED) / replications
        self.evaluations += len(candidates)
        return out

    def tasks(self, values: Sequence[float]) -> list[Task]:
        """Return the runs of all cells for one set of parameter values."""
        machine = self.calibration.machine_with(list(values))
        return [self._task(machine, number, self.seed) for number in range(len(self.calibration.cells))]

    def loss(self, residual: np.ndarray) -> float:
        """Return what the descent makes small: the soft L1 loss of the residuals, cells weighted."""
        return soft_l1(residual, self.calibration.definition.outlier_scale, self.cell_weights)

    def robust_weights(self, residual: np.ndarray) -> np.ndarray:
        """Return the weights with which least squares has the gradient of that loss."""
        scale = self.calibration.definition.outlier_scale
        weights: np.ndarray = self.cell_weights / (1.0 + (residual / scale) ** 2) ** 0.5
        return weights

    def _depends(self, group: Sequence[int], parameter: Parameter | None) -> bool:
        return parameter is None or parameter.affects(self.calibration.cells[group[0]])

    def _task(self, machine: Machine, number: int, seed: int) -> Task:
        cell: Cell = self.calibration.cells[number]
        run = self.calibration.definition.run
        ios, warmup_ios = length_of_run(run.ios, run.ios_per_thread, run.warmup_fraction, cell.key.threads)
        workload = self.calibration.definition.workload
        return Task(cell.filesystem, cell.key, machine, workload, seed, ios, warmup_ios, "compiled")

    def jacobian(self, logarithms: np.ndarray, low: np.ndarray, high: np.ndarray, seed: int, step: float) -> np.ndarray:
        """Return the derivatives of the residuals by the parameters' logarithms, by central differences."""
        import numpy as np

        points, widths = [], []
        for k in range(len(logarithms)):
            for sign in (-1, 1):
                point = logarithms.copy()
                point[k] = min(max(point[k] + sign * step, low[k]), high[k])
                points.append(np.exp(point))
                widths.append(point[k])
        found = self.residuals(points, seed, [p for p in self.calibration.definition.parameters for _ in (-1, 1)])
        columns = [
            (found[2 * k + 1] - found[2 * k]) / (widths[2 * k + 1] - widths[2 * k]) for k in range(len(logarithms))
        ]
        return np.stack(columns, axis=1)

    def fit(self, most_iterations: int) -> Fit:
        """Return the best of all starts: the profile's own values, then random ones near them."""
        import numpy as np

        definition = self.calibration.definition
        low = np.log([parameter.low for parameter in definition.parameters])
        high = np.log([parameter.high for parameter in definition.parameters])
        found = []
        for number, start in enumerate(self._starts(low, high)):
            self.label = f"start {number + 1} of {definition.starts}"
            found.append(self._descend(start, low, high, most_iterations))
        _, point, residual = min(found, key=lambda item: item[0])
        jacobians = []
        for replication in range(REPLICATIONS):
            self.progress(f"standard errors: replication {replication + 1} of {REPLICATIONS}")
            seed = self.seed + definition.replications * (replication + 1)
            jacobians.append(self.jacobian(point, low, high, seed, WIDE_STEP))
        return Fit(
            values=tuple(float(value) for value in np.exp(point)),
            residuals=residual,
            standard_error=tuple(
                float(error) for error in standard_errors(jacobians, residual, self.robust_weights(residual))
            ),
            evaluations=self.evaluations,
        )

    def _descend(
        self, point: np.ndarray, low: np.ndarray, high: np.ndarray, most_iterations: int
    ) -> tuple[float, np.ndarray, np.ndarray]:
        """Return loss, logarithms of the parameters and residuals where no damping leads further down."""
        import numpy as np

        residual = self.residuals([np.exp(point)])[0]
        loss = self.loss(residual)
        unlucky = 0
        for iteration in range(most_iterations):
            self.progress(f"{self.label}, step {iteration + 1}: mean absolute error {100 * abs(residual).mean():.3f} %")
            # Other seeds at every step, so that the noise of the derivatives is not the same again.
            jacobian = self.jacobian(point, low, high, self.seed + 1000 * (iteration + 1), STEP)
            weights = self.robust_weights(residual)
            curvature = jacobian.T @ (weights[:, None] * jacobian)
            downhill = -jacobian.T @ (weights * residual)
            typical = np.trace(curvature) / len(point)
            trials = []
            for damping in DAMPINGS:
                move = np.linalg.solve(curvature + damping * typical * np.eye(len(point)), downhill)
                trials.append(np.clip(point + np.clip(move, -LONGEST_MOVE, LONGEST_MOVE), low, high))
            residuals = self.residuals([np.exp(trial) for trial in trials])
            losses = [self.loss(trial) for trial in residuals]
            best = int(np.argmin(losses))
            if losses[best] < loss:
                unlucky = 0 if losses[best] < loss * (1 - WORTHWHILE) else unlucky + 1
                loss, point, residual = losses[best], trials[best], residuals[best]
            else:
                unlucky += 1
            if unlucky == PATIENCE:
                break
        return loss, point, residual

    def _starts(self, low: np.ndarray, high: np.ndarray) -> Iterator[np.ndarray]:
        import numpy as np

        own = np.log(self.calibration.start)
        generator = np.random.default_rng(self.seed)
        for number in range(self.calibration.definition.starts):
            away = generator.normal(0.0, 0.15, len(own)) if number else 0.0
            yield np.clip(own + away, low, high)


def _numbered(item: tuple[int, _Group]) -> tuple[int, list[float]]:
    """Results come back in any order; the number says whose they are."""
    return item[0], _predict(item[1])


def soft_l1(residuals: np.ndarray, scale: float, weights: np.ndarray) -> float:
    """Return the weighted sum of 2 scale^2 (sqrt(1 + (r / scale)^2) - 1): r^2 for small r and linear for large."""
    return float((weights * 2 * scale**2 * ((1 + (residuals / scale) ** 2) ** 0.5 - 1)).sum())


def standard_errors(jacobians: Sequence[np.ndarray], residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the relative standard errors of a robust least-squares fit, one a parameter.

    `jacobians`: derivatives (cells, parameters) of the residuals by the parameters' logarithms, each from other seeds.
    `weights`: of the cells, at the optimum.  Covariance: s^2 (J' W J)^-1 with the weights W and s^2 the weighted
    residual variance.  J' W J is the curvature of the loss.  It is estimated from products of different Jacobians only:
    the noise of one would add to its square and make every parameter look well determined.  A direction whose curvature
    is smaller than the sampling error of this estimate counts as having that much: its standard errors are then lower
    bounds, and large.

    The residuals are mostly what the model cannot explain, not measurement noise, so this is the spread that a
    comparable set of cells would give, not the repeatability of the measurement.
    """
    import numpy as np

    cells, parameters = jacobians[0].shape
    if cells <= parameters:
        raise UserError(f"{cells} cells cannot determine {parameters} parameters; measure more cells or free fewer")
    variance = float((weights * residuals**2).sum() / (cells - parameters))
    weighted = [jacobian * np.sqrt(weights)[:, None] for jacobian in jacobians]
    pairs = [(a.T @ b + b.T @ a) / 2 for a, b in itertools.combinations(weighted, 2)]
    values, vectors = np.linalg.eigh(np.mean(pairs, axis=0))
    along = np.array([np.einsum("ik,ij,jk->k", vectors, pair, vectors) for pair in pairs])
    # The pairs share Jacobians and are not independent; their number is taken for that of the Jacobians.
    sampling_error = along.std(axis=0, ddof=1) / np.sqrt(len(weighted))
    tiny = np.finfo(float).tiny
    return np.sqrt(variance * (vectors**2 / np.maximum(np.maximum(values, sampling_error), tiny)).sum(axis=1))
